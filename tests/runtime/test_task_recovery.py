"""Tasks whose runner, folder or owner is not as it should be: nobody else is held up, and no result is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holon.core.agents import AgentStatus
from holon.core.messages import MessageKind, QueueStatus
from holon.core.tasks import TaskKind, command_digest
from holon.tasks.processes import listing, lives
from holon.tasks.protocol import Started, read_started
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living, soon
from tests.runtime.test_hands import call, said, script


def started_of(task: Any) -> Started:
    return read_started(task.detail["runner"])


@contextmanager
def suspended(started: Started) -> Iterator[None]:
    """A runner that is stuck, and whatever comes of it not for longer than the test."""
    os.kill(started.runner_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in (signal.SIGCONT, signal.SIGTERM):
            with suppress(ProcessLookupError):
                os.kill(started.runner_pid, number)


def alive(pid: int) -> bool:
    return any(process.pid == pid for process in listing())


async def promoted(living: Opens, cmd: str, **more: Any) -> tuple[Living, Any]:
    life = await living(script(call("ExecCommand", cmd=cmd, yield_time_ms=150, **more)))
    await life.ask("go")
    (task,) = await life.tasks()
    return life, task


async def ended(life: Living) -> Any:
    async def look() -> Any:
        found = (await life.tasks())[-1]
        return found if found.status.terminal else None

    return await life.until(look)


async def results(life: Living) -> list[Any]:
    return [message for message in await life.messages() if message.kind is MessageKind.TASK_RESULT]


async def rejoined(life: Living, count: int) -> bool | None:
    """So many results have come back, once each."""
    found = [message.metadata["task_id"] for message in await results(life)]
    assert len(found) == len(set(found))
    return len(found) == count or None


# ---- a runner that does not answer


@pytest.mark.spec("RT-281", "RT-282")
async def test_a_stuck_runner_holds_up_neither_the_start_nor_other_tasks_and_is_taken_up_when_it_answers(
    living: Opens, tmp_path: Path
) -> None:
    slow = call("ExecCommand", cmd="while [ ! -e go ]; do sleep 0.02; done; echo done", yield_time_ms=150)
    other = call("ExecCommand", cmd="while [ ! -e on ]; do sleep 0.02; done; echo on", yield_time_ms=150)
    life = await living(script(slow, other))
    await life.ask("go")
    on, stuck = await life.tasks()
    await life.close()
    home = Path(stuck.detail["workdir"])
    with suspended(started_of(stuck)):
        life = await living(script())
        events = {event.payload["task_id"]: event.payload["found"] for event in await life.events("task_reattached")}
        assert events == {stuck.id: "unreachable", on.id: "running"}
        shown = await life.host.overseer.look("main", stuck.id)
        assert shown.status == "running"
        assert "does not answer" in shown.command.result_summary  # type: ignore[union-attr, operator]
        (home / "on").touch()
        await life.until(lambda: rejoined(life, 1))
        os.kill(started_of(stuck).runner_pid, signal.SIGCONT)
        (home / "go").touch()
        await life.until(lambda: rejoined(life, 2))
    assert {task.status for task in await life.tasks()} == {"completed"}


async def test_a_runner_that_answers_again_loses_its_note(living: Opens) -> None:
    life, task = await promoted(living, "sleep 60")
    await life.close()
    with suspended(started_of(task)):
        life = await living(script())
        os.kill(started_of(task).runner_pid, signal.SIGCONT)
        await life.event("task_reattached", count=2)
        shown = await life.host.overseer.look("main", task.id)
        assert shown.command.result_summary is None  # type: ignore[union-attr]
        assert (await life.host.overseer.end("main", task.id)).stop_requested
        assert (await ended(life)).status == "cancelled"


@pytest.mark.parametrize("force", [False, True])
async def test_a_task_whose_runner_is_stuck_can_be_stopped(living: Opens, force: bool) -> None:
    """Asked, it ends as soon as the runner goes on; by force at once."""
    life, task = await promoted(living, "sleep 60")
    started = started_of(task)
    await life.close()
    with suspended(started):
        life = await living(script())
        receipt = await life.host.overseer.end("main", task.id, force=force)
        assert receipt.stop_requested
        if not force:
            assert (await life.tasks())[0].status == "cancelling"
            os.kill(started.runner_pid, signal.SIGCONT)
        assert (await ended(life)).status == "cancelled"
        assert not alive(started.pid)
    assert len(await results(life)) == 1


async def test_a_link_that_is_lost_while_the_runner_lives_is_made_again(living: Opens) -> None:
    life, task = await promoted(living, "while [ ! -e go ]; do sleep 0.02; done; echo through")
    running = life.host.commands.running[task.id]
    link = running._link
    assert link is not None
    link.send(b"nonsense\n")  # a runner hangs up on who does not speak its language
    await soon(lambda: running._link is not link)
    await soon(lambda: running._link is not None)
    assert running.reachable
    (Path(task.detail["workdir"]) / "go").touch()
    await life.until(lambda: said(life, "through"))
    assert (await ended(life)).status == "completed"


async def test_a_task_whose_link_was_lost_can_be_stopped(living: Opens) -> None:
    life, task = await promoted(living, "sleep 60")
    link = life.host.commands.running[task.id]._link
    assert link is not None
    link.send(b"nonsense\n")
    await soon(lambda: link.closed)
    receipt = await life.host.overseer.end("main", task.id)
    assert receipt.stop_requested
    assert (await ended(life)).status == "cancelled"


@pytest.mark.parametrize("text", ["\ud800", "x" * (9 * 1024 * 1024)])
async def test_input_that_no_runner_takes_is_refused_and_harms_nothing(living: Opens, text: str) -> None:
    life, task = await promoted(living, "cat", accepts_input=True)
    receipt = await life.host.overseer.say("main", task.id, text)
    assert not receipt.accepted_input
    assert "send" in receipt.summary_text
    assert (await life.host.overseer.say("main", task.id, "ok\n")).accepted_input
    assert (await life.host.overseer.end("main", task.id)).stop_requested
    assert (await ended(life)).status == "cancelled"


# ---- a folder that is gone


@pytest.mark.parametrize("cmd", ["sleep 60", "trap '' TERM; setsid sleep 61 & echo $! > ../../pid; sleep 60"])
async def test_a_command_whose_folder_was_deleted_is_ended_by_the_restart(living: Opens, cmd: str) -> None:
    life, task = await promoted(living, cmd)
    await life.close()
    shutil.rmtree(task.detail["folder"])
    started = started_of(task)
    assert lives(started)
    life = await living(script(result="{input}"))
    over = await ended(life)
    assert (over.status, over.detail.get("exit_status")) == ("failed", None)
    assert "its folder was removed" in over.detail["result_summary"]
    below = Path(task.detail["folder"]).parents[3] / "pid"
    for pid in (started.pid, started.runner_pid, *([int(below.read_text())] if below.exists() else [])):
        assert not alive(pid)
    assert len(await results(life)) == 1


async def test_a_folder_that_is_deleted_while_the_daemon_watches_takes_no_stop_away(living: Opens) -> None:
    life, task = await promoted(living, "sleep 60")
    shutil.rmtree(task.detail["folder"])
    assert (await life.host.overseer.end("main", task.id)).stop_requested
    assert (await ended(life)).status == "cancelled"
    assert not alive(started_of(task).pid)


async def test_output_that_was_deleted_is_said_to_be_lost(living: Opens) -> None:
    clear = "rm -rf $HOLON_AGENT_HOME/*"
    life = await living(
        script(
            call("ExecCommand", cmd=f"{clear}; echo out; echo err >&2"),
            call("ExecCommand", cmd=f"{clear}; sleep 0.4; echo late", yield_time_ms=100),
        )
    )
    message = await life.ask("go")
    (first, _) = await life.calls(message.turn.id)  # type: ignore[union-attr]
    told = json.loads(first.result or "")
    assert (told["truncated"], told["artifacts"], told["stdout_artifact"]) == (True, [], None)
    assert told["notes"] == ["its output was lost: it wrote 8 bytes, and somebody has removed the files that had them"]
    over = await ended(life)
    assert over.detail["result_summary"].startswith("ended with exit status 0; its output was lost: it wrote 5 bytes")
    shown = (await life.host.overseer.read_output("main", over.id)).task
    assert (shown.output_preview, shown.output_truncated, shown.artifacts) == ("", True, [])
    assert "was lost" in str(shown.result_summary)
    (result,) = await results(life)
    assert result.body.value["output_path"] is None


async def test_a_file_in_the_place_of_the_outputs_is_moved_aside(living: Opens) -> None:
    place = "$HOLON_AGENT_HOME/task-output"
    life = await living(
        script(
            call("ExecCommand", cmd=f"rm -rf {place}; echo mine > {place}"),
            call("ExecCommand", cmd="cat task-output.aside-*"),
        )
    )
    message = await life.ask("go")
    answer = json.loads((await life.calls(message.turn.id))[-1].result or "")  # type: ignore[union-attr]
    assert (answer["ok"], answer["stdout_preview"]) == (True, "mine\n")


# ---- an agent that is stopped


async def test_results_wait_for_a_stopped_agent_and_are_worked_once_oldest_first(living: Opens) -> None:
    first = call("ExecCommand", cmd="while [ ! -e a ]; do sleep 0.02; done; echo a", yield_time_ms=100)
    second = call("ExecCommand", cmd="while [ ! -e b ]; do sleep 0.02; done; echo b", yield_time_ms=100)
    life = await living(script(first, second))
    await life.ask("go")
    newer, older = await life.tasks()
    await life.host.lifecycle.stop("main", SURFACE)
    asked = len(life.model.requests)
    for name, task in (("a", older), ("b", newer)):
        (Path(task.detail["workdir"]) / name).touch()
        await life.until(lambda task=task: _is_over(life, task.id))  # type: ignore[misc]
    assert [message.task_id for message in await life.waiting()] == [older.id, newer.id]
    assert await life.status() is AgentStatus.STOPPED
    await life.close()
    life = await living(script())
    assert await life.status() is AgentStatus.STOPPED
    assert (asked, life.model.requests) == (asked, [])
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    found = await results(life)
    assert [message.task_id for message in found] == [older.id, newer.id]
    for message in found:
        status = await life.host.views.message("main", message.id)
        assert status.queue is not None
        assert status.queue.status is QueueStatus.PROCESSED
    turns = [turn.message_id for turn in await life.turns()]
    assert turns[-2:] == [message.id for message in found]


async def _is_over(life: Living, task_id: str) -> bool | None:
    return any(task.id == task_id and task.status.terminal for task in await life.tasks()) or None


async def test_a_childs_result_waits_for_a_stopped_parent(living: Opens) -> None:
    life = await living(
        """
rules:
  - when: {kind: task_result}
    rounds: [{text: "my child says"}]
  - when: {pattern: "child work"}
    rounds: [{delay_ms: 300, text: "did it"}]
  - rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "child work"}}]
      - text: "sent"
"""
    )
    await life.ask("go")
    (task,) = await life.tasks()
    await life.host.lifecycle.stop("main", SURFACE)
    await life.until(lambda: _is_over(life, task.id))
    assert [message.task_id for message in await life.waiting()] == [task.id]
    await life.host.lifecycle.resume("main", SURFACE)
    await life.until(lambda: said(life, "my child says"))
    assert len(await results(life)) == 1


# ---- rests


REST = """
rules:
  - when: {pattern: "end (\\\\S+)"}
    rounds:
      - tools: [{name: TaskStop, input: {task_id: "{1}"}}]
      - text: "{result}"
  - when: {pattern: "say (\\\\S+)"}
    rounds:
      - tools: [{name: TaskInput, input: {task_id: "{1}", input: "x"}}]
      - text: "{result}"
  - when: {kind: system_tick}
    rounds: [{text: "woken"}]
  - rounds:
      - tools: [{name: Sleep, input: {reason: long, duration_ms: 600000}}]
"""


async def resting(living: Opens) -> tuple[Living, Any]:
    life = await living(REST)
    await life.ask("go")
    await life.at_rest()
    (job,) = await life.tasks()
    assert job.kind is TaskKind.SLEEP_JOB
    return life, job


async def test_the_operator_ends_a_rest_once_and_the_agent_wakes(living: Opens) -> None:
    life, job = await resting(living)
    receipt = await life.host.overseer.end("main", job.id)
    assert (receipt.stop_requested, receipt.task.status) == (True, "cancelled")
    await life.until(lambda: said(life, "woken"))
    again = await life.host.overseer.end("main", job.id)
    assert again.stop_requested is False
    await life.at_rest()
    assert len(await life.events("wake_requested")) == len(await life.events("system_tick_emitted")) == 1
    assert (await life.state()).sleeping_until is None


async def test_an_agent_that_ends_its_own_rest_is_not_woken_for_it(living: Opens) -> None:
    life, job = await resting(living)
    status = await life.ask(f"end {job.id}")
    (stop,) = await life.calls(status.turn.id)  # type: ignore[union-attr]
    answer = json.loads(stop.result or "")
    assert (answer["stop_requested"], answer["task"]["status"]) == (True, "cancelled")
    await life.at_rest()
    assert await life.events("wake_requested") == []
    assert (await life.state()).active_task_ids == []


async def test_a_rest_takes_no_input_and_says_so(living: Opens) -> None:
    life, job = await resting(living)
    status = await life.ask(f"say {job.id}")
    (said_to,) = await life.calls(status.turn.id)  # type: ignore[union-attr]
    answer = json.loads(said_to.result or "")
    assert (answer["accepted_input"], answer["summary_text"]) == (False, "a rest takes no input: TaskStop ends it")
    assert (await life.tasks())[0].status == "running"


# ---- what is shown


async def test_the_result_of_a_terminal_reads_the_same_everywhere(living: Opens) -> None:
    life, _task = await promoted(living, "sleep 0.4; echo a; echo b", tty=True)
    over = await ended(life)
    (result,) = await results(life)
    shown = (await life.host.overseer.read_output("main", over.id)).task.output_preview
    assert (result.body.value["output_preview"], shown, over.detail["output_summary"]) == ("a\nb\n",) * 3


@pytest.mark.spec("RT-290")
async def test_a_status_shows_where_and_by_what_a_command_runs_though_nobody_said(living: Opens) -> None:
    life, task = await promoted(living, "sleep 60")
    shown = (await life.host.overseer.look("main", task.id)).command
    assert shown is not None
    assert shown.workdir is not None
    assert shown.shell is not None
    assert Path(shown.workdir).name == "main"
    assert os.access(shown.shell, os.X_OK)
    assert shown.cmd_digest == command_digest(
        cmd=str(shown.cmd), workdir=shown.workdir, shell=shown.shell, login=bool(shown.login), tty=bool(shown.tty)
    )
    await life.host.overseer.end("main", task.id, force=True)
    await ended(life)
