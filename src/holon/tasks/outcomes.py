"""How the start of a command came out, as tools answer it: three dispositions that share no field."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holon.core.codec import Record
from holon.core.tasks import (
    CommandTaskStatusSnapshot,
    TaskHandle,
    TaskRecord,
    ToolArtifactRef,
)
from holon.tasks.outputs import artifacts, combined, is_lost, preview
from holon.tasks.protocol import CommandStatus, Outcome, StopReason
from holon.tasks.snapshots import command_snapshot, handle


class Ending(Record, frozen=True, kw_only=True):
    """What the exit status does not say. The notes say it in words."""

    signal: int | None = None
    stopped: StopReason | None = None
    #: It did not end when it was asked to.
    forced: bool = False
    #: Background processes that were ended with it, and how many of them could not be.
    leftovers: int = 0
    survivors: int = 0
    disk_low: bool = False


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
    #: There only if there is something to say.
    ending: Ending | msgspec.UnsetType = msgspec.UNSET


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
    shown, kept = preview(folder, max_chars, tty=tty, status=status), artifacts(folder)
    return ExecCompleted(
        exit_status=status.exit_status,
        stdout_preview=shown.stdout,
        stderr_preview=shown.stderr,
        truncated=shown.truncated or status.truncated,
        artifacts=kept.artifacts,
        stdout_artifact=kept.stdout_artifact,
        stderr_artifact=kept.stderr_artifact,
        notes=notes_on(status, folder),
        ending=ending_of(status) or msgspec.UNSET,
    )


def promoted(task: TaskHandle, folder: Path, max_chars: int, *, tty: bool = False) -> ExecPromoted:
    shown = combined(folder, max_chars, tty=tty)
    return ExecPromoted(task_handle=task, initial_output_preview=shown.text, initial_output_truncated=shown.truncated)


def already_running(task: TaskRecord) -> ExecAlreadyRunning:
    return ExecAlreadyRunning(
        task_handle=handle(task),
        command=command_snapshot(task, preview=True),
        summary=task.summary,
        instructions=f"it was not started again: use TaskStatus or TaskOutput with task_id '{task.id}', or"
        " duplicate_policy 'start_new' to run it twice",
    )


def ending_of(status: CommandStatus) -> Ending | None:
    found = Ending(**{name: getattr(status, name) for name in Ending.__struct_fields__})
    return None if found == Ending() else found


_STOPPED = {
    StopReason.REQUEST: "stopped on request",
    StopReason.TIME_LIMIT: "stopped at its time limit",
    StopReason.RUNNER_TERMINATED: "stopped with its runner, as when the machine shuts down",
}


def notes_on(status: CommandStatus, folder: Path | None = None) -> list[str]:
    """In words, for the model. With its folder, also what became of its output."""
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
    if status.survivors:
        notes.append(f"{status.survivors} of them could not be ended and run on without an owner: tell the operator")
    if status.disk_low:
        notes.append("the disk is nearly full: most of the output was not kept")
    if folder is not None and is_lost(folder, status):
        written = status.stdout_bytes + status.stderr_bytes
        notes.append(f"its output was lost: it wrote {written} bytes, and somebody has removed the files that had them")
    return notes
