"""Task views: what is shown of a task's record, to models and to operators. Reading only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holon.core.codec import from_plain, to_plain
from holon.core.failures import FailureArtifact
from holon.core.tasks import (
    CommandRecovery,
    CommandTaskStatusSnapshot,
    InputTarget,
    RetrievalStatus,
    TaskKind,
    TaskListEntry,
    TaskOutputResult,
    TaskOutputSnapshot,
    TaskRecord,
    TaskStatusSnapshot,
    ToolArtifactRef,
    WaitPolicy,
)
from holon.core.workspaces import CleanupStatus
from holon.runtime.supervising import observe, supervision_of, worktree_of
from holon.store import Tx
from holon.tasks import outputs

PREVIEW_CHARS = 8_000


def child_of(task: TaskRecord) -> str:
    return str((task.detail or {}).get("child_agent_id"))


def is_over(task: TaskRecord) -> bool:
    """Its end is on record, and so is what became of its worktree."""
    worktree = worktree_of(task)
    return task.status.terminal and (worktree is None or worktree.cleanup_status is not CleanupStatus.PENDING)


def snapshot_of(tx: Tx, task: TaskRecord) -> TaskStatusSnapshot:
    child = task.kind is TaskKind.CHILD_AGENT_TASK
    child_id, supervision = (child_of(task), supervision_of(task)) if child else (None, None)
    seen = observe(tx, child_id) if child_id else None
    return TaskStatusSnapshot(
        task_id=task.id,
        kind=task.kind,
        status=task.status,
        created_at=task.created_at,
        updated_at=task.updated_at,
        wait_policy=WaitPolicy.BACKGROUND,
        summary=task.summary,
        parent_message_id=task.parent_message_id,
        command=_command(task),
        workspace_mode=supervision.workspace_mode if supervision else None,
        child_agent_id=child_id,
        child_supervision=supervision,
        child_observability=to_plain(seen) if seen else None,
    )


def entry_of(task: TaskRecord) -> TaskListEntry:
    return TaskListEntry(
        id=task.id,
        kind=task.kind,
        status=task.status,
        updated_at=task.updated_at,
        wait_policy=WaitPolicy.BACKGROUND,
        summary=task.summary,
        command=_command(task),
    )


def output_of(task: TaskRecord, timed_out: bool) -> TaskOutputResult:
    """Ready only with a stable snapshot: a file that can be read, or an excerpt that was stored."""
    detail = task.detail or {}
    text, truncated, kept = "", False, outputs.Artifacts(artifacts=[])
    stable = False
    folder = Path(str(detail["folder"])) if detail.get("folder") else None
    if folder is not None and folder.is_dir():
        shown, kept = outputs.combined(folder, PREVIEW_CHARS), outputs.artifacts(folder)
        text, truncated, stable = shown.text, shown.truncated, True
    stored = detail.get("output_summary") or detail.get("initial_output")
    if not stable and stored is not None:
        text, truncated, stable = str(stored)[:PREVIEW_CHARS], bool(detail.get("output_truncated")), True
    worktree = worktree_of(task)
    review = [ToolArtifactRef(path=worktree.worktree_path)] if worktree and worktree.retained_for_review else []
    if task.status.terminal and (stable or detail.get("output_path")):
        status = RetrievalStatus.SUCCESS
    else:
        status = RetrievalStatus.TIMEOUT if timed_out else RetrievalStatus.NOT_READY
    return TaskOutputResult(
        retrieval_status=status,
        task=TaskOutputSnapshot(
            task_id=task.id,
            kind=task.kind,
            status=task.status,
            output_preview=text,
            output_truncated=truncated,
            artifacts=[*kept.artifacts, *review],
            summary=task.summary,
            output_artifact=kept.output_artifact,
            result_summary=detail.get("result_summary"),
            exit_status=detail.get("exit_status"),
            failure_artifact=_failure(detail),
            child_supervision=supervision_of(task) if task.kind is TaskKind.CHILD_AGENT_TASK else None,
        ),
    )


def _command(task: TaskRecord) -> CommandTaskStatusSnapshot | None:
    if not isinstance(task.recovery, CommandRecovery):
        return None
    spec, detail = task.recovery.spec, task.detail or {}
    return CommandTaskStatusSnapshot(
        cmd=spec.cmd,
        cmd_digest=detail.get("cmd_digest"),
        workdir=spec.workdir,
        shell=spec.shell,
        login=spec.login,
        tty=spec.tty,
        output_path=detail.get("output_path"),
        result_summary=detail.get("result_summary"),
        exit_status=detail.get("exit_status"),
        terminal_reentry=spec.terminal_reentry,
        promoted_from_exec_command=True,
        accepts_input=True if spec.accepts_input else None,
        input_target=(InputTarget.TTY if spec.tty else InputTarget.STDIN) if spec.accepts_input else None,
    )


def _failure(detail: dict[str, Any]) -> FailureArtifact | None:
    stored = detail.get("failure_artifact")
    return from_plain(stored, FailureArtifact) if stored else None
