"""Supervising: what a parent sees of its child, and how a child's work ends, in the transaction of the child's rest.

A child that worked in a worktree of its task has one more step to go: its task is over and it is archived at once, and
its parent is told when the runtime has looked at the worktree (`isolation`), so that the result says what became of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.agents import AgentState, AgentStatus, Ownership, RegistryStatus, Visibility
from holon.core.briefs import BriefKind
from holon.core.clock import moment
from holon.core.closures import ClosureDecision, ClosureOutcome
from holon.core.codec import Record, from_plain, to_plain
from holon.core.event_kinds import TaskStatusUpdated
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    JsonBody,
    MessageKind,
    Priority,
    TaskOrigin,
)
from holon.core.tasks import ChildSupervision, TaskRecord, TaskStatus, WorkspaceMode
from holon.core.workspaces import CleanupStatus, TaskWorktree
from holon.runtime.admission import Admission, admit
from holon.runtime.archiving import archive
from holon.runtime.standing import read_closure
from holon.store import Tx, agents, briefs, outbox, tasks

#: The errand that clears a worktree.
CLEAR_WORKTREE = "worktree.clear"
RESULT_CHARS, SUMMARY_CHARS = 8_000, 2_000
STOPPED = "stopped by its supervisor"


class ChildObservability(Record, frozen=True, kw_only=True):
    """What a parent sees of its child without reading its transcript."""

    phase: str
    blocked_reason: str | None = None
    waiting_reason: str | None = None
    active_work_item_id: str | None = None
    work_summary: str | None = None
    last_progress_brief: str | None = None
    last_result_brief: str | None = None


def supervision_of(task: TaskRecord) -> ChildSupervision:
    """The same shape wherever it is shown."""
    detail, worktree = task.detail or {}, worktree_of(task)
    return ChildSupervision(
        parent_agent_id=task.agent_id,
        child_agent_id=str(detail.get("child_agent_id")),
        supervision_task_id=task.id,
        workspace_mode=WorkspaceMode(str(detail.get("workspace_mode", "inherit"))),
        worktree=shown(worktree) if worktree else None,
        cleanup_status=worktree.cleanup_status if worktree else None,
    )


def worktree_of(task: TaskRecord) -> TaskWorktree | None:
    stored = (task.detail or {}).get("worktree")
    return from_plain(stored, TaskWorktree) if stored else None


def with_worktree(task: TaskRecord, worktree: TaskWorktree, now_ms: int) -> TaskRecord:
    detail = {**(task.detail or {}), "worktree": to_plain(worktree)}
    return msgspec.structs.replace(task, detail=detail, updated_at=moment(now_ms))


def shown(worktree: TaskWorktree) -> dict[str, Any]:
    """A worktree as people and models read of it."""
    plain: dict[str, Any] = to_plain(msgspec.structs.replace(worktree, common_dir=None))
    return {
        **plain,
        "cleanup_status": worktree.cleanup_status,
        "changed_files": worktree.changed_files,
        "retained_for_review": worktree.retained_for_review,
        "auto_cleaned_up": worktree.auto_cleaned_up,
    }


def observe(tx: Tx, child_id: str) -> ChildObservability | None:
    stored = agents.get(tx, child_id)
    if stored is None:
        return None
    state, newest = stored.state, briefs.recent(tx, child_id, 10)
    if stored.identity.status is RegistryStatus.ARCHIVED:
        phase = "terminal"
    elif state.status is AgentStatus.AWAITING_TASK:
        phase = "blocked"
    elif state.status in (AgentStatus.AWAKE_RUNNING, AgentStatus.BOOTING) or state.pending:
        phase = "running"
    else:
        phase = "waiting"
    waits = read_closure(tx, state).waiting_reason if phase == "waiting" else None
    ends = [brief.text for brief in newest if brief.kind is not BriefKind.ACK]
    others = [brief.text for brief in newest if brief.kind is BriefKind.ACK]
    return ChildObservability(
        phase=phase,
        blocked_reason="awaiting_managed_task" if phase == "blocked" else None,
        waiting_reason=waits or (state.sleep.expected_wake if state.sleep and phase == "waiting" else None),
        active_work_item_id=state.current_work_item_id,
        last_progress_brief=others[-1] if others else None,
        last_result_brief=ends[-1] if ends else None,
    )


def finish_if_done(tx: Tx, state: AgentState, closure: ClosureDecision, pending: int, limits: Limits) -> AgentState:
    """In the child's own rest: once its work is done, its task ends, its parent is told, and it is archived."""
    if state.supervision_task_id is None or pending or state.active_task_ids or state.pending_wake_hints:
        return state
    if closure.outcome not in (ClosureOutcome.COMPLETED, ClosureOutcome.FAILED) or state.last_turn_terminal is None:
        return state
    task = tasks.get(tx, state.supervision_task_id)
    if task is None or task.status.terminal:
        return state
    failed = closure.outcome is ClosureOutcome.FAILED
    text = state.last_turn_terminal.last_assistant_message or state.last_turn_terminal.reason or ""
    end_child_task(tx, task, TaskStatus.FAILED if failed else TaskStatus.COMPLETED, text, limits)
    return archive(tx, state, "its work is done")


def end_child_task(tx: Tx, task: TaskRecord, status: TaskStatus, text: str, limits: Limits) -> None:
    """The terminal record of a supervised task, and its result on the parent's queue: once, in one transaction.

    Where it owns a worktree, the errand that clears it is in this transaction, and brings the result.
    """
    detail = {**(task.detail or {}), "result_summary": text[:SUMMARY_CHARS], "output_summary": text[:RESULT_CHARS]}
    task = msgspec.structs.replace(task, status=status, updated_at=moment(tx.now_ms), detail=detail)
    tasks.save(tx, task)
    tx.emit(task.agent_id, TaskStatusUpdated(task_id=task.id, status=status))
    worktree = worktree_of(task)
    if worktree is not None and worktree.cleanup_status is CleanupStatus.PENDING:
        outbox.put(tx, CLEAR_WORKTREE, {"task_id": task.id})
    else:
        tell_parent(tx, task, limits)


def tell_parent(tx: Tx, task: TaskRecord, limits: Limits) -> None:
    """The result of a task that is over, on its owner's queue."""
    parent = agents.get(tx, task.agent_id)
    if parent is None:
        return
    still = [task_id for task_id in parent.state.active_task_ids if task_id != task.id]
    agents.save_state(tx, msgspec.structs.replace(parent.state, active_task_ids=still))
    if parent.identity.status is RegistryStatus.ARCHIVED:
        return  # nobody will ever read it; for one that is stopped it waits
    value: dict[str, Any] = {
        "task_id": task.id,
        "kind": task.kind,
        "status": task.status,
        "result": str((task.detail or {}).get("output_summary") or ""),
    }
    if (worktree := worktree_of(task)) is not None:
        value["worktree"] = shown(worktree)
    admit(
        tx,
        task.agent_id,
        Admission(
            agent_id=task.agent_id,
            kind=MessageKind.TASK_RESULT,
            origin=TaskOrigin(task_id=task.id),
            body=JsonBody(value=value),
            surface=DeliverySurface.TASK_REJOIN,
            context=AdmissionContext.RUNTIME_OWNED,
            priority=Priority.NEXT,
            metadata={"task_id": task.id},
            source_refs={"task_result_id": task.id},
            causation_id=task.parent_message_id,
            private=True,
        ),
        limits,
    )


def archive_orphans(tx: Tx) -> None:
    """At a start: a child whose task is missing or over is archived. No step leaves one; a restored store may.
    So is the agent of a run that came to its end before its prompt was in."""
    after = ""
    while page := agents.listing(tx, visibility=Visibility.PRIVATE, after=after):
        for child in page:
            if child.identity.ownership is not Ownership.PARENT_SUPERVISED:
                if child.counters.queue_seq == 0:
                    agents.save_state(tx, archive(tx, child.state, "its run never began"))
                continue
            task = tasks.get(tx, child.identity.delegated_from_task_id or "")
            if task is None or task.status.terminal:
                agents.save_state(tx, archive(tx, child.state, "nobody supervises it any more"))
        after = page[-1].identity.agent_id
