"""Supervising: what a parent sees of its child, and how a child's work ends, in the transaction of the child's rest."""

from __future__ import annotations

import msgspec

from holon.core.agents import AgentState, AgentStatus, RegistryStatus
from holon.core.clock import moment
from holon.core.closures import ClosureDecision, ClosureOutcome
from holon.core.codec import Record
from holon.core.event_kinds import AgentArchived, TaskStatusUpdated
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
from holon.runtime.admission import Admission, admit
from holon.store import Tx, agents, briefs, tasks


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
    detail = task.detail or {}
    return ChildSupervision(
        parent_agent_id=task.agent_id,
        child_agent_id=str(detail.get("child_agent_id")),
        supervision_task_id=task.id,
        workspace_mode=WorkspaceMode(str(detail.get("workspace_mode", "inherit"))),
        worktree=detail.get("worktree"),
    )


def observe(tx: Tx, child_id: str) -> ChildObservability | None:
    stored = agents.get(tx, child_id)
    if stored is None:
        return None
    state = stored.state
    newest = [brief.text for brief in briefs.recent(tx, child_id, 5) if brief.kind == "result"]
    if stored.identity.status is RegistryStatus.ARCHIVED:
        phase = "terminal"
    elif state.status in (AgentStatus.AWAKE_RUNNING, AgentStatus.BOOTING) or state.pending:
        phase = "running"
    elif state.status is AgentStatus.AWAITING_TASK:
        phase = "blocked"
    else:
        phase = "waiting"
    return ChildObservability(
        phase=phase,
        blocked_reason="awaiting_managed_task" if phase == "blocked" else None,
        waiting_reason=state.sleep.expected_wake if state.sleep and phase == "waiting" else None,
        active_work_item_id=state.current_work_item_id,
        last_result_brief=newest[-1] if newest else None,
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
    return archive_child(tx, state, "its work is done")


def end_child_task(tx: Tx, task: TaskRecord, status: TaskStatus, text: str, limits: Limits) -> None:
    """The terminal record of a supervised task, and its result on the parent's queue: once, in one transaction."""
    detail = {**(task.detail or {}), "result_summary": text[:2_000], "output_summary": text[:8_000]}
    tasks.save(tx, msgspec.structs.replace(task, status=status, updated_at=moment(tx.now_ms), detail=detail))
    tx.emit(task.agent_id, TaskStatusUpdated(task_id=task.id, status=status))
    parent = agents.get(tx, task.agent_id)
    if parent is None:
        return
    still = [task_id for task_id in parent.state.active_task_ids if task_id != task.id]
    agents.save_state(tx, msgspec.structs.replace(parent.state, active_task_ids=still))
    if parent.state.status is AgentStatus.STOPPED or parent.identity.status is RegistryStatus.ARCHIVED:
        return
    admit(
        tx,
        task.agent_id,
        Admission(
            agent_id=task.agent_id,
            kind=MessageKind.TASK_RESULT,
            origin=TaskOrigin(task_id=task.id),
            body=JsonBody(value={"task_id": task.id, "kind": task.kind, "status": status, "result": text[:8_000]}),
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


def archive_child(tx: Tx, state: AgentState, reason: str) -> AgentState:
    stored = agents.get(tx, state.id)
    assert stored is not None
    agents.save_identity(
        tx,
        msgspec.structs.replace(stored.identity, status=RegistryStatus.ARCHIVED, archived_at=moment(tx.now_ms)),
    )
    tx.emit(state.id, AgentArchived(reason=reason))
    return msgspec.structs.replace(state, status=AgentStatus.STOPPED)
