"""How the start of a command came out, as tools answer it: three dispositions that share no field."""

from __future__ import annotations

from pathlib import Path

from holon.core.codec import Record
from holon.core.tasks import (
    CommandTaskStatusSnapshot,
    TaskHandle,
    TaskRecord,
    ToolArtifactRef,
)
from holon.tasks.outputs import artifacts, combined, preview
from holon.tasks.protocol import CommandStatus, Outcome, StopReason
from holon.tasks.snapshots import command_snapshot, handle


class ExecCompleted(Record, frozen=True, kw_only=True, tag_field="disposition", tag="completed", omit_defaults=False):
    #: None: a signal ended it.
    exit_status: int | None
    stdout_preview: str
    stderr_preview: str
    #: Something is missing in the previews or in the files.
    truncated: bool
    artifacts: list[ToolArtifactRef]
    stdout_artifact: int | None
    stderr_artifact: int | None
    #: What the exit status does not say: a signal, a stop, processes that were ended or left, a full disk.
    notes: list[str]


class ExecPromoted(
    Record, frozen=True, kw_only=True, tag_field="disposition", tag="promoted_to_task", omit_defaults=False
):
    task_handle: TaskHandle
    initial_output_preview: str
    initial_output_truncated: bool


class ExecAlreadyRunning(
    Record, frozen=True, kw_only=True, tag_field="disposition", tag="already_running", omit_defaults=False
):
    task_handle: TaskHandle
    command: CommandTaskStatusSnapshot | None
    summary: str | None
    instructions: str


ExecOutcome = ExecCompleted | ExecPromoted | ExecAlreadyRunning


def completed(status: CommandStatus, folder: Path, max_chars: int, *, tty: bool = False) -> ExecCompleted:
    shown, kept = preview(folder, max_chars, tty=tty), artifacts(folder)
    return ExecCompleted(
        exit_status=status.exit_status,
        stdout_preview=shown.stdout,
        stderr_preview=shown.stderr,
        truncated=shown.truncated or status.truncated,
        artifacts=kept.artifacts,
        stdout_artifact=kept.stdout_artifact,
        stderr_artifact=kept.stderr_artifact,
        notes=notes_on(status),
    )


def promoted(task: TaskHandle, folder: Path, max_chars: int, *, tty: bool = False) -> ExecPromoted:
    shown = combined(folder, max_chars, tty=tty)
    return ExecPromoted(task_handle=task, initial_output_preview=shown.text, initial_output_truncated=shown.truncated)


def already_running(task: TaskRecord) -> ExecAlreadyRunning:
    return ExecAlreadyRunning(
        task_handle=handle(task),
        command=command_snapshot(task),
        summary=task.summary,
        instructions=f"it was not started again: use TaskStatus or TaskOutput with task_id '{task.id}', or"
        " duplicate_policy 'start_new' to run it twice",
    )


_STOPPED = {
    StopReason.REQUEST: "stopped on request",
    StopReason.TIME_LIMIT: "stopped at its time limit",
    StopReason.RUNNER_TERMINATED: "stopped with its runner, as when the machine shuts down",
}


def notes_on(status: CommandStatus) -> list[str]:
    """In words, for the model."""
    notes = []
    if status.signal is not None:
        notes.append(f"ended by signal {status.signal}")
    if status.stopped is not None:
        notes.append(_STOPPED[status.stopped] + (", by force" if status.forced else ""))
    if status.outcome in (Outcome.LOST, Outcome.NOT_STARTED):
        notes.append(status.detail or str(status.outcome))
    if status.leftovers:
        notes.append(
            f"{status.leftovers} background processes were ended with it: run what should last as a command of its own"
        )
    if status.daemons:
        notes.append(f"{status.daemons} processes in sessions of their own run on")
    if status.disk_low:
        notes.append("the disk is nearly full: most of the output was not kept")
    return notes
