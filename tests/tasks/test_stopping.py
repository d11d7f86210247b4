"""Stopping: a command is asked, then ended, with everything that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from holon.tasks.finding import Ended, Lost
from holon.tasks.protocol import Outcome, StopReason
from holon.tasks.running import RunningCommand
from tests.tasks.workshop import Workshop, alive, ended, eventually

#: Forks twice into a session of its own, closes everything, writes down who it is, and sleeps.
DAEMON = """(setsid sh -c 'echo $$ > daemon.pid; exec sleep 60' < /dev/null > /dev/null 2>&1 &)"""


async def pid_in(file: Path) -> int:
    return int(await eventually(lambda: file.exists() and file.read_text().strip()))


async def test_a_command_that_is_asked_may_say_goodbye(workshop: Workshop):
    running = await workshop.start("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    await eventually(lambda: running.preview(100).stdout)
    assert await running.stop() is True
    status = await ended(running)
    assert (status.exit_status, status.stopped, status.forced) == (5, StopReason.REQUEST, False)
    assert running.preview(100).stdout == "ready\nbye\n"


async def test_a_command_that_does_not_listen_is_ended_after_its_grace(workshop: Workshop):
    running = await workshop.start("trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=0.2)
    await eventually(lambda: running.preview(100).stdout)
    started = time.monotonic()
    await running.stop()
    status = await ended(running)
    assert time.monotonic() - started >= 0.2
    assert (status.outcome, status.signal, status.forced) == (Outcome.SIGNALED, signal.SIGKILL, True)


async def test_force_does_not_wait(workshop: Workshop):
    running = await workshop.start("trap 'exit 0' TERM; while :; do sleep 0.05; done", grace_s=60.0)
    assert await running.stop(force=True)
    status = await ended(running)
    assert (status.signal, status.stopped, status.forced) == (signal.SIGKILL, StopReason.REQUEST, True)


async def test_force_comes_after_asking_too(workshop: Workshop):
    running = await workshop.start("trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=60.0)
    await eventually(lambda: running.preview(100).stdout)
    await running.stop()
    assert await running.wait(0.1) is None
    await running.stop(force=True)
    assert (await ended(running)).forced


async def test_a_command_that_is_suspended_hears_it_too(workshop: Workshop):
    running = await workshop.start("kill -STOP $$; sleep 60", grace_s=20.0)
    await asyncio.sleep(0.1)
    await running.stop()
    assert (await ended(running)).forced is False


async def test_stopping_what_has_ended_does_nothing(workshop: Workshop):
    running = await workshop.start("exit 3")
    assert (await ended(running)).exit_status == 3
    assert await running.stop() is False


async def test_children_and_daemons_are_stopped_with_the_command(workshop: Workshop):
    cmd = f"{DAEMON}; sh -c 'echo $$ > child.pid; exec sleep 60' & sh -c 'trap \"\" TERM; sleep 60 & wait' & sleep 60"
    running = await workshop.start(cmd, grace_s=0.3)
    child, daemon = await pid_in(workshop.root / "child.pid"), await pid_in(workshop.root / "daemon.pid")
    assert os.getsid(daemon) == daemon
    await running.stop()
    status = await ended(running)
    assert (status.stopped, status.survivors) == (StopReason.REQUEST, 0)
    assert not alive(child)
    assert not alive(daemon)


async def test_background_jobs_end_with_their_command_and_are_counted(workshop: Workshop):
    running = await workshop.start("sh -c 'echo $$ > job.pid; exec sleep 60' > /dev/null 2>&1 & sleep 0.2; exit 6")
    job = await pid_in(workshop.root / "job.pid")
    status = await ended(running)
    assert (status.exit_status, status.leftovers, status.stopped) == (6, 1, None)
    assert not alive(job)


async def test_a_background_job_that_is_nearly_done_may_finish(workshop: Workshop):
    status, preview = await workshop.run("(sleep 0.1; echo late) & echo soon")
    assert (status.leftovers, preview.stdout) == (0, "soon\nlate\n")


async def test_a_daemon_ends_with_its_command_and_is_counted(workshop: Workshop):
    """In a session of its own it is still below the runner, and nobody else could ever end it."""
    running = await workshop.start(f"{DAEMON}; sleep 0.2; echo started")
    daemon = await pid_in(workshop.root / "daemon.pid")
    assert os.getsid(daemon) == daemon
    status = await ended(running)
    assert (status.exit_status, status.leftovers, status.survivors, status.stopped) == (0, 1, 0, None)
    assert not alive(daemon)


async def test_a_daemon_that_does_not_listen_is_killed(workshop: Workshop):
    deaf = 'trap "" TERM HUP; echo $$ > daemon.pid; while :; do sleep 0.05; done'
    running = await workshop.start(f"(setsid sh -c '{deaf}' > /dev/null 2>&1 &); sleep 0.2", tty=True)
    daemon = await pid_in(workshop.root / "daemon.pid")
    assert os.getsid(daemon) == daemon
    status = await ended(running)
    assert (status.exit_status, status.survivors) == (0, 0)
    assert not alive(daemon)


async def test_a_daemon_that_holds_the_output_does_not_hold_up_the_end(workshop: Workshop):
    running = await workshop.start("setsid sh -c 'echo $$ > daemon.pid; exec sleep 60' & sleep 0.2; echo over")
    daemon = await pid_in(workshop.root / "daemon.pid")
    status = await ended(running)
    assert (status.exit_status, status.leftovers) == (0, 1)
    assert not alive(daemon)
    assert running.preview(100).stdout == "over\n"


async def test_a_time_limit_holds_whether_anybody_watches_or_not(workshop: Workshop):
    running = await workshop.start("sleep 60", time_limit_s=0.2)
    running.detach()
    found = await workshop.runner.attach(running.folder)
    assert not isinstance(found, Lost)
    status = await ended(found) if isinstance(found, RunningCommand) else found.status
    assert (status.stopped, status.signal) == (StopReason.TIME_LIMIT, signal.SIGTERM)


async def test_a_machine_that_shuts_down_stops_commands_through_their_runners(workshop: Workshop):
    running = await workshop.start("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    await eventually(lambda: running.preview(100).stdout)
    os.kill(running.started.runner_pid, signal.SIGTERM)
    status = await ended(running)
    assert (status.exit_status, status.stopped) == (0, StopReason.RUNNER_TERMINATED)
    assert running.preview(100).stdout == "ready\nsaved\n"


async def test_a_command_whose_start_is_called_off_does_not_run_unknown(workshop: Workshop):
    """Wherever the start is cut off: it did not begin, or it is ended."""
    for n in range(12):
        spec = workshop.spec("exec sleep 60")
        starting = asyncio.create_task(workshop.runner.start(spec))
        await asyncio.sleep(n / 2_000)
        starting.cancel()
        try:
            running = await starting
        except asyncio.CancelledError:
            match await workshop.runner.attach(spec.folder):
                case Lost() as lost:
                    assert lost.started is None
                case Ended() as end:
                    assert end.status.forced
                case RunningCommand() as found:
                    assert (await ended(found)).forced
        else:
            assert await running.stop(force=True)
            await ended(running)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGPIPE])
async def test_a_runner_does_not_mind_what_happens_to_terminals(workshop: Workshop, number: signal.Signals):
    running = await workshop.start("sleep 0.3; exit 8")
    os.kill(running.started.runner_pid, number)
    assert (await ended(running)).exit_status == 8
