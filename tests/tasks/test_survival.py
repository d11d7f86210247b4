"""Kill anything at any time: no command is lost that runs, none runs twice, and none runs on without an owner."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holon.tasks.commands import CommandRunner
from holon.tasks.failures import FolderTaken
from holon.tasks.finding import Ended, Lost, end_lost
from holon.tasks.folder import give_up, started_of, status_of
from holon.tasks.outputs import combined
from holon.tasks.processes import boot_id, descendants, send, started_at
from holon.tasks.protocol import Outcome, Started
from holon.tasks.running import RunningCommand
from tests.tasks.workshop import Workshop, alive, ended, eventually

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def standin(home: Path, count: int, cmd: str, *, tty: bool = False) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.tasks.standin", str(home), str(count), cmd, "tty" if tty else "pipes"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def until(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout
    for found in process.stdout:
        if found.strip() == line:
            return
    raise AssertionError(f"the stand-in ended with {process.wait()} before it said '{line}'")


async def test_a_command_outlives_the_daemon_and_is_found_again(workshop: Workshop):
    home = workshop.root
    with standin(home, 1, "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after; exit 7") as daemon:
        until(daemon, "ready")
    found = await workshop.runner.attach(home / "commands" / "0")
    assert isinstance(found, RunningCommand)
    assert await found.wait(0.05) is None
    (home / "go").touch()
    status = await ended(found)
    assert (status.outcome, status.exit_status) == (Outcome.EXITED, 7)
    assert found.preview(100).stdout == "before\nafter\n"


async def test_a_command_that_ended_while_nobody_watched_left_its_status_and_ran_once(workshop: Workshop):
    home, folder = workshop.root, workshop.root / "commands" / "0"
    with standin(home, 1, "echo ran >> ran; sleep 0.3; exit 9") as daemon:
        until(daemon, "ready")
    await eventually(lambda: status_of(folder))
    for _ in range(3):
        found = await workshop.runner.attach(folder)
        assert isinstance(found, Ended)
        assert (found.status.outcome, found.status.exit_status) == (Outcome.EXITED, 9)
    assert (home / "ran").read_text() == "ran\n"


async def test_wherever_the_daemon_is_killed_each_command_runs_at_most_once_and_is_known(workshop: Workshop):
    """Lost means that it did not run and never will; everything else ran exactly once."""
    order = random.Random(11)
    kinds: Counter[str] = Counter()
    for attempt in range(4):
        home = workshop.root / str(attempt)
        home.mkdir()
        with standin(home, 25, "echo {n} >> ran; exit 3") as daemon:
            until(daemon, f"{'started' if attempt % 2 else 'begin'} {order.randrange(25)}")
        lost: set[int] = set()
        for n in range(25):
            found = await workshop.runner.attach(home / "commands" / str(n))
            match found:
                case RunningCommand():
                    assert (await ended(found)).exit_status == 3
                case Ended():
                    assert found.status.exit_status == 3
                case Lost():
                    assert found.started is None
                    assert end_lost(found.folder).outcome is Outcome.NOT_STARTED
                    lost.add(n)
            kinds[type(found).__name__] += 1
        ran = (home / "ran").read_text().split() if (home / "ran").exists() else []
        assert Counter(ran) == Counter(str(n) for n in range(25) if n not in lost)
    assert kinds["Lost"] > 0
    assert kinds["Ended"] + kinds["RunningCommand"] > 0


async def test_a_runner_that_is_killed_takes_its_command_with_it(workshop: Workshop):
    running = await workshop.start("sh -c 'echo $$ > child.pid; exec sleep 60' & exec sleep 61")
    child = int(await eventually(lambda: (f := workshop.root / "child.pid").exists() and f.read_text()))
    os.kill(running.started.runner_pid, signal.SIGKILL)
    status = await ended(running)
    assert (status.outcome, status.exit_status, status.stopped) == (Outcome.LOST, None, None)
    assert not alive(running.pid)
    assert not alive(child)
    assert status_of(running.folder) == status


STUBBORN = "trap '' HUP TERM; sh -c 'echo $$ > child.pid; exec sleep 60' & echo half; exec sleep 61"


@pytest.mark.parametrize("tty", [False, True])
async def test_a_runner_that_is_killed_while_nobody_watches_leaves_nobody_either(workshop: Workshop, tty: bool):
    """The zygote outlives its daemon as long as one of its runners does."""
    home, folder = workshop.root, workshop.root / "commands" / "0"
    with standin(home, 1, STUBBORN, tty=tty) as daemon:
        until(daemon, "ready")
    child = int(await eventually(lambda: (f := home / "child.pid").exists() and f.read_text()))
    started = await eventually(lambda: (found := started_of(folder)) and found.pid and found)
    assert alive(started.pid)
    os.kill(started.runner_pid, signal.SIGKILL)
    await eventually(lambda: not alive(started.pid) and not alive(child))
    assert await workshop.runner.attach(folder) == Lost(folder, started)
    status = end_lost(folder)
    assert (status.outcome, status.leftovers) == (Outcome.LOST, 0)


@pytest.mark.parametrize("tty", [False, True])
async def test_where_everything_was_killed_but_the_command_the_next_daemon_ends_it(workshop: Workshop, tty: bool):
    home, folder = workshop.root, workshop.root / "commands" / "0"
    with standin(home, 1, STUBBORN, tty=tty) as daemon:
        until(daemon, "ready")
        helpers = descendants(daemon.pid)
    child = int(await eventually(lambda: (f := home / "child.pid").exists() and f.read_text()))
    started = await eventually(lambda: (found := started_of(folder)) and found.pid and found)
    zygote = next(process for process in helpers if process.parent == daemon.pid)
    await eventually(lambda: combined(folder, 100, tty=tty).text)
    os.kill(zygote.pid, signal.SIGKILL)
    os.kill(started.runner_pid, signal.SIGKILL)
    assert alive(child)
    assert await workshop.runner.attach(folder) == Lost(folder, started)
    status = end_lost(folder)
    assert (status.outcome, status.leftovers) == (Outcome.LOST, 2)
    assert not alive(child)
    assert not alive(started.pid)
    assert await workshop.runner.attach(folder) == Ended(folder, status)
    assert combined(folder, 100, tty=tty).text == "half\n"


def test_after_a_reboot_nobody_is_killed_for_a_number_that_means_somebody_else(tmp_path: Path):
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        began = started_at(bystander.pid)
        real = Started(bystander.pid, 1, boot_id(), began, tty=True, accepts_input=False, pid=bystander.pid)
        others = [
            real._replace(boot_id="another"),
            real._replace(runner_started_at=began - 1, pid_started_at=began - 1),
        ]
        for n, started in enumerate(others):
            (tmp_path / str(n)).mkdir()
            (tmp_path / str(n) / "started.json").write_text(json.dumps(started._asdict()))
            assert end_lost(tmp_path / str(n)).leftovers == 0
            assert end_lost(tmp_path / "removed", started).leftovers == 0
            assert alive(bystander.pid)
    finally:
        bystander.kill()
        bystander.wait()


async def test_what_was_given_up_cannot_begin_any_more(workshop: Workshop):
    spec = workshop.spec("echo ran > ran")
    assert await workshop.runner.attach(spec.folder) == Lost(spec.folder, None)
    with pytest.raises(FolderTaken):
        await workshop.runner.start(spec)
    # An order that was under way when the folder was given up: the runner itself finds it taken.
    other = workshop.spec("echo ran > ran")
    order = other.order()
    give_up(other.folder)
    link = await workshop.runner._send(order)
    assert await link.first is not None
    link.close()
    assert not (workshop.root / "ran").exists()


async def test_a_command_whose_folder_was_removed_still_says_how_it_ended(workshop: Workshop):
    running = await workshop.start("while [ ! -e go ]; do sleep 0.02; done; exit 5")
    shutil.rmtree(running.folder)
    (workshop.root / "go").touch()
    assert (await ended(running)).exit_status == 5


async def test_a_live_command_cannot_be_declared_lost(workshop: Workshop):
    running = await workshop.start("sleep 60")
    assert give_up(running.folder) is False
    with pytest.raises(FolderTaken, match="has a runner"):
        end_lost(running.folder)
    assert alive(running.pid)


async def test_closing_the_daemon_leaves_commands_alone(tmp_path: Path):
    shop: Workshop
    async with CommandRunner(tmp_path / "run") as runner:
        shop = Workshop(tmp_path, runner)
        running = await shop.start("while [ ! -e go ]; do sleep 0.02; done; exit 4")
        waiting = asyncio.create_task(running.wait())
        await asyncio.sleep(0)
    assert await waiting is None  # this process has let go of it
    assert alive(running.pid)
    (tmp_path / "go").touch()
    async with CommandRunner(tmp_path / "run") as runner:
        found = await runner.attach(running.folder)
        assert not isinstance(found, Lost)
        status = await ended(found) if isinstance(found, RunningCommand) else found.status
    assert status.exit_status == 4


async def test_a_zygote_that_is_killed_is_replaced_and_its_commands_do_not_notice(workshop: Workshop):
    running = await workshop.start("while [ ! -e go ]; do sleep 0.02; done; exit 4")
    first = workshop.runner.zygote_pid
    assert first
    os.kill(first, signal.SIGKILL)
    for n in range(6):  # the spares that it leaves are used up, then there is a new one
        assert (await workshop.run(f"exit {n}"))[0].exit_status == n
    assert workshop.runner.zygote_pid != first
    (workshop.root / "go").touch()
    assert (await ended(running)).exit_status == 4


async def test_a_zygote_that_dies_with_an_order_in_its_hands_does_not_lose_it(workshop: Workshop):
    await workshop.run("true")
    zygote = workshop.runner.zygote_pid
    assert zygote
    send(descendants(zygote), signal.SIGSTOP)
    os.kill(zygote, signal.SIGSTOP)
    starting = asyncio.create_task(workshop.run("echo ran >> ran; exit 6"))
    await asyncio.sleep(0.1)
    send(descendants(zygote), signal.SIGKILL)
    os.kill(zygote, signal.SIGKILL)
    assert (await starting)[0].exit_status == 6
    assert (workshop.root / "ran").read_text() == "ran\n"


async def test_nothing_is_left_of_a_zygote_whose_daemon_was_killed(tmp_path: Path):
    with standin(tmp_path, 2, "true") as daemon:
        until(daemon, "ready")
        helpers = descendants(daemon.pid)
        assert helpers
    await eventually(lambda: not any(alive(process.pid) for process in helpers))
    await eventually(lambda: not any((tmp_path / "run" / "spares").iterdir()))


async def test_sixty_live_commands_are_all_found_again(workshop: Workshop):
    home = workshop.root
    with standin(home, 60, "echo {n} >> ran; while [ ! -e go ]; do sleep 0.1; done; exit {n}") as daemon:
        until(daemon, "ready")
    found = await asyncio.gather(*(workshop.runner.attach(home / "commands" / str(n)) for n in range(60)))
    assert {type(each) for each in found} == {RunningCommand}
    (home / "go").touch()
    ends = [await ended(each) for each in found if isinstance(each, RunningCommand)]
    assert [status.exit_status for status in ends] == list(range(60))
    assert sorted((home / "ran").read_text().split(), key=int) == [str(n) for n in range(60)]
