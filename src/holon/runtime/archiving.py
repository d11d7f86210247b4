"""Archiving: takes an agent out of service, in one transaction. Its records stay."""

from __future__ import annotations

import msgspec

from holon.core.agents import AgentState, AgentStatus, RegistryStatus
from holon.core.clock import moment
from holon.core.event_kinds import AgentArchived, MessageDropped, TaskStatusUpdated, TriggerRevoked
from holon.core.messages import QueueStatus
from holon.core.tasks import TaskKind, TaskStatus
from holon.core.triggers import TriggerStatus
from holon.runtime.standing import with_status
from holon.store import Tx, agents, queue, tasks, timers, triggers, turns


def archive(tx: Tx, state: AgentState, reason: str) -> AgentState:
    """What waits for the agent never comes, and a turn that runs is on disk as aborted. The state, to be saved."""
    stored = agents.get(tx, state.id)
    assert stored is not None
    if stored.identity.status is RegistryStatus.ARCHIVED:
        return state
    identity = msgspec.structs.replace(stored.identity, status=RegistryStatus.ARCHIVED, archived_at=moment(tx.now_ms))
    agents.save_identity(tx, identity)
    while (message_id := queue.take_head(tx, state.id, QueueStatus.DROPPED)) is not None:
        tx.emit(state.id, MessageDropped(reason=reason), message_id=message_id)
    state = _without_rests(tx, state, reason)
    timers.cancel_all(tx, state.id)
    if (trigger := triggers.active(tx, state.id)) is not None:
        triggers.save(tx, msgspec.structs.replace(trigger, status=TriggerStatus.REVOKED, revoked_at=moment(tx.now_ms)))
        tx.emit(state.id, TriggerRevoked(external_trigger_id=trigger.external_trigger_id, reason="agent archived"))
    if state.current_turn_id and (turn := turns.get(tx, state.current_turn_id)) is not None:
        turns.save(tx, msgspec.structs.replace(turn, abort_requested=True))
    state = with_status(tx, state, AgentStatus.STOPPED, f"archived: {reason}")
    tx.emit(state.id, AgentArchived(reason=reason))
    return state


def _without_rests(tx: Tx, state: AgentState, reason: str) -> AgentState:
    for job in tasks.live(tx, state.id):
        if job.kind is TaskKind.SLEEP_JOB:
            tasks.save(tx, msgspec.structs.replace(job, status=TaskStatus.CANCELLED, updated_at=moment(tx.now_ms)))
            tx.emit(state.id, TaskStatusUpdated(task_id=job.id, status=TaskStatus.CANCELLED, reason=reason))
            still = [task_id for task_id in state.active_task_ids if task_id != job.id]
            state = msgspec.structs.replace(state, active_task_ids=still, sleeping_until=None)
    return state
