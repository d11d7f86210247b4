"""Task views: a task as models and operators see it, with what only the store and a worktree can say. Reading only.

What the record alone says is shown by `tasks.snapshots`.
"""

from __future__ import annotations

import msgspec

from holon.core.codec import to_plain
from holon.core.tasks import (
    ChildSupervision,
    TaskKind,
    TaskOutputResult,
    TaskRecord,
    TaskStatusSnapshot,
    ToolArtifactRef,
)
from holon.core.workspaces import CleanupStatus
from holon.runtime.supervising import observe, supervision_of, worktree_of
from holon.store import Tx
from holon.tasks.snapshots import output_result, status_snapshot


def child_of(task: TaskRecord) -> str:
    return str((task.detail or {}).get("child_agent_id"))


def is_over(task: TaskRecord) -> bool:
    """Its end is on record, and so is what became of its worktree."""
    worktree = worktree_of(task)
    return task.status.terminal and (worktree is None or worktree.cleanup_status is not CleanupStatus.PENDING)


def snapshot_of(tx: Tx, task: TaskRecord) -> TaskStatusSnapshot:
    supervision = _supervision(task)
    shown = status_snapshot(task, supervision)
    if supervision is None:
        return shown
    seen = observe(tx, supervision.child_agent_id)
    return msgspec.structs.replace(
        shown, workspace_mode=supervision.workspace_mode, child_observability=to_plain(seen) if seen else None
    )


def output_of(task: TaskRecord, timed_out: bool) -> TaskOutputResult:
    found = output_result(task, waited=timed_out, supervision=_supervision(task))
    worktree = worktree_of(task)
    if worktree is None or not worktree.retained_for_review:
        return found
    review = [*found.task.artifacts, ToolArtifactRef(path=worktree.worktree_path)]
    return msgspec.structs.replace(found, task=msgspec.structs.replace(found.task, artifacts=review))


def _supervision(task: TaskRecord) -> ChildSupervision | None:
    return supervision_of(task) if task.kind is TaskKind.CHILD_AGENT_TASK else None
