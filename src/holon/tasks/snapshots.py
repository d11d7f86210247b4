"""What tools show of a task: its place in life, and apart from that its output.

Projections of the stored record. The record decides what has ended and what is ready; no message that is still under
way can take that back.
"""

from __future__ import annotations

from pathlib import Path

from holon.core.codec import from_plain
from holon.core.tasks import (
    ChildSupervision,
    CommandRecovery,
    CommandTaskDetail,
    CommandTaskStatusSnapshot,
    InputTarget,
    RetrievalStatus,
    TaskHandle,
    TaskListEntry,
    TaskOutputResult,
    TaskOutputSnapshot,
    TaskRecord,
    TaskStatusSnapshot,
    ToolArtifactRef,
    WaitPolicy,
)
from holon.tasks.outputs import combined

#: Characters of a task's output in one answer.
OUTPUT_CHARS = 8_000
#: Where the file is gone, and the record has at most an excerpt.
NOT_KEPT = "its output is no longer kept: run the command again if you need all of it"
#: Characters of a command in its status, and where it is one of several.
CMD_CHARS = 4_000
CMD_PREVIEW_CHARS = 200


def detail_of(task: TaskRecord) -> CommandTaskDetail:
    return from_plain(task.detail or {}, CommandTaskDetail)


def wait_policy_of(task: TaskRecord) -> WaitPolicy:
    """What the runtime has marked; nothing in the command's spec counts, least of all `terminal_reentry`."""
    return detail_of(task).wait_policy


def handle(task: TaskRecord) -> TaskHandle:
    return TaskHandle(
        task_id=task.id,
        task_kind=task.kind,
        status=task.status,
        initial_output=detail_of(task).initial_output,
    )


def clipped(text: str, chars: int) -> str:
    """At most about so many characters, and then how many there are."""
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters)"


def command_snapshot(task: TaskRecord, *, preview: bool = False) -> CommandTaskStatusSnapshot | None:
    """With `preview` the command's beginning takes its place: what it is compared by is the digest."""
    if not isinstance(task.recovery, CommandRecovery):
        return None
    spec, detail = task.recovery.spec, detail_of(task)
    target = InputTarget.TTY if spec.tty else InputTarget.STDIN
    return CommandTaskStatusSnapshot(
        cmd=None if preview else clipped(spec.cmd, CMD_CHARS),
        cmd_preview=clipped(spec.cmd, CMD_PREVIEW_CHARS) if preview else None,
        cmd_digest=detail.cmd_digest or spec.digest,
        workdir=detail.workdir or spec.workdir,
        shell=detail.shell or spec.shell,
        login=spec.login,
        tty=spec.tty,
        output_path=None if detail.output_removed_at else detail.output_path,
        output_note=NOT_KEPT if detail.output_removed_at else None,
        result_summary=detail.result_summary,
        exit_status=detail.exit_status,
        terminal_reentry=spec.terminal_reentry,
        promoted_from_exec_command=task.recovery.promoted_from_exec_command,
        accepts_input=True if spec.accepts_input else None,
        input_target=target if spec.accepts_input else None,
    )


def list_entry(task: TaskRecord) -> TaskListEntry:
    return TaskListEntry(
        id=task.id,
        kind=task.kind,
        status=task.status,
        updated_at=task.updated_at,
        wait_policy=wait_policy_of(task),
        summary=task.summary,
        command=command_snapshot(task, preview=True),
    )


def status_snapshot(task: TaskRecord, supervision: ChildSupervision | None = None) -> TaskStatusSnapshot:
    return TaskStatusSnapshot(
        task_id=task.id,
        kind=task.kind,
        status=task.status,
        created_at=task.created_at,
        updated_at=task.updated_at,
        wait_policy=wait_policy_of(task),
        summary=task.summary,
        parent_message_id=task.parent_message_id,
        command=command_snapshot(task),
        child_agent_id=supervision.child_agent_id if supervision else None,
        child_supervision=supervision,
    )


def output_result(
    task: TaskRecord,
    *,
    waited: bool = False,
    max_chars: int = OUTPUT_CHARS,
    supervision: ChildSupervision | None = None,
) -> TaskOutputResult:
    """`success` needs an end and something stable to show for it: a file that can be read, or a stored excerpt."""
    detail = detail_of(task)
    path = Path(detail.output_path) if detail.output_path else None
    readable = path is not None and path.is_file()
    text, truncated = "", detail.output_truncated
    if path and readable:
        tty = isinstance(task.recovery, CommandRecovery) and task.recovery.spec.tty
        found = combined(path.parent, max_chars, tty=tty)
        text, truncated = found.text, found.truncated
    elif stored := detail.output_summary or detail.initial_output:
        text, truncated = stored[:max_chars], truncated or len(stored) > max_chars
    stable = readable or detail.output_summary is not None or detail.initial_output is not None
    gone = task.status.terminal and path is not None and not readable
    if task.status.terminal:
        retrieval = RetrievalStatus.SUCCESS if stable else RetrievalStatus.NOT_READY
    else:
        retrieval = RetrievalStatus.TIMEOUT if waited else RetrievalStatus.NOT_READY
    return TaskOutputResult(
        retrieval_status=retrieval,
        task=TaskOutputSnapshot(
            task_id=task.id,
            kind=task.kind,
            status=task.status,
            output_preview=text,
            output_truncated=truncated,
            artifacts=[ToolArtifactRef(path=str(path))] if path and readable else [],
            summary=task.summary,
            output_artifact=0 if readable else None,
            output_note=NOT_KEPT if gone else None,
            result_summary=detail.result_summary,
            exit_status=detail.exit_status,
            failure_artifact=detail.failure_artifact,
            child_supervision=supervision,
        ),
    )
