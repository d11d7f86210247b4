"""What ExecCommand answers, from what really happened."""

from __future__ import annotations

import signal

import pytest

from holon.core.codec import dumps, loads, to_plain
from holon.core.messages import Trust
from holon.core.tasks import CommandRecovery, CommandTaskSpec, TaskKind, TaskRecord, TaskStatus, ToolArtifactRef
from holon.tasks.outcomes import (
    ExecCompleted,
    ExecOutcome,
    already_running,
    completed,
    notes_on,
    promoted,
)
from holon.tasks.protocol import CommandStatus, Outcome, StopReason
from holon.tasks.snapshots import handle
from tests.core.samples import MOMENT
from tests.tasks.workshop import Workshop, ended, eventually

TASK = TaskRecord(
    id="task_1",
    agent_id="main",
    kind=TaskKind.COMMAND_TASK,
    status=TaskStatus.RUNNING,
    created_at=MOMENT,
    updated_at=MOMENT,
    summary="build",
    recovery=CommandRecovery(summary="build", spec=CommandTaskSpec(cmd="make"), trust=Trust.TRUSTED_SYSTEM),
)


async def test_a_command_that_ended_says_everything_about_its_end(workshop: Workshop):
    running = await workshop.start("echo out; echo err >&2; exit 3")
    found = completed(await ended(running), running.folder, 1_000)
    assert found == ExecCompleted(
        exit_status=3,
        stdout_preview="out\n",
        stderr_preview="err\n",
        truncated=False,
        artifacts=[
            ToolArtifactRef(path=str(running.folder / f"{name}.log")) for name in ("output", "stdout", "stderr")
        ],
        stdout_artifact=1,
        stderr_artifact=2,
        notes=[],
    )


async def test_a_command_that_goes_on_shows_what_it_has_said(workshop: Workshop):
    running = await workshop.start("echo soon; sleep 60")
    await eventually(lambda: running.preview(100).stdout)
    found = promoted(handle(TASK), running.folder, 1_000)
    assert (found.initial_output_preview, found.initial_output_truncated) == ("soon\n", False)
    assert found.task_handle.task_id == "task_1"


@pytest.mark.spec("RT-260")
async def test_the_dispositions_share_no_field(workshop: Workshop):
    running = await workshop.start("true")
    status = await ended(running)
    shown = [
        to_plain(outcome)
        for outcome in (
            completed(status, running.folder, 100),
            promoted(handle(TASK), running.folder, 100),
            already_running(TASK),
        )
    ]
    assert [plain["disposition"] for plain in shown] == ["completed", "promoted_to_task", "already_running"]
    done, going, there = (set(plain) - {"disposition"} for plain in shown)
    assert not done & (going | there)
    for plain in shown:
        assert to_plain(loads(dumps(plain), ExecOutcome)) == plain  # type: ignore[arg-type]


def test_a_command_that_runs_already_is_named_with_what_to_do():
    found = already_running(TASK)
    assert found.command
    assert (found.command.cmd_preview, found.summary) == ("make", "build")
    assert "TaskOutput" in found.instructions
    assert "task_1" in found.instructions


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (CommandStatus(Outcome.EXITED, exit_status=0), []),
        (CommandStatus(Outcome.SIGNALED, signal=signal.SIGKILL), ["ended by signal 9"]),
        (
            CommandStatus(Outcome.EXITED, 0, stopped=StopReason.TIME_LIMIT, forced=True),
            ["stopped at its time limit, by force"],
        ),
        (CommandStatus(Outcome.LOST, detail="its runner is gone"), ["its runner is gone"]),
        (
            CommandStatus(Outcome.EXITED, 0, leftovers=3, survivors=2),
            [
                "3 background processes were ended with it: run what should last as a command of its own",
                "2 of them could not be ended and run on without an owner: tell the operator",
            ],
        ),
        (CommandStatus(Outcome.EXITED, 0, disk_low=True), ["the disk is nearly full: most of the output was not kept"]),
    ],
)
def test_what_the_exit_status_does_not_say_is_noted(status: CommandStatus, words: list[str]):
    assert notes_on(status) == words


def test_background_processes_that_were_ended_are_noted_with_the_next_step():
    (note,) = notes_on(CommandStatus(Outcome.EXITED, 0, leftovers=2))
    assert note.startswith("2 background processes were ended")
    assert "command of its own" in note
