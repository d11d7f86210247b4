"""Sleeping: a bounded rest that the model asked for. It is a task on disk, so it ends on time after a restart too."""

from __future__ import annotations

import msgspec

from holon.core.agents import AgentState, SleepNote
from holon.core.clock import iso, moment, to_ms
from holon.core.event_kinds import TaskCreated, TaskStatusUpdated
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    TextBody,
    TimerOrigin,
)
from holon.core.tasks import TaskKind, TaskRecord, TaskStatus
from holon.core.turns import Turn
from holon.runtime.admission import Admission, admit
from holon.store import Tx, agents, tasks
from holon.tools.registry import SleepRequest


def start_sleep(tx: Tx, state: AgentState, turn: Turn, asked: SleepRequest) -> AgentState:
    """Notes why the agent rests; with a duration, a sleep job takes the place of an earlier one."""
    note = SleepNote(since=moment(tx.now_ms), reason=asked.reason)
    if asked.duration_ms is None:
        return msgspec.structs.replace(state, sleep=note)
    for task in tasks.live(tx, state.id):
        if task.kind is TaskKind.SLEEP_JOB:
            state = _end(tx, state, task, TaskStatus.CANCELLED, "a newer Sleep took its place")
    due_ms = tx.now_ms + asked.duration_ms
    job = TaskRecord(
        id=new_id("task", tx.now_ms),
        agent_id=state.id,
        kind=TaskKind.SLEEP_JOB,
        status=TaskStatus.RUNNING,
        created_at=moment(tx.now_ms),
        updated_at=moment(tx.now_ms),
        parent_message_id=turn.message_id,
        work_item_id=turn.work_item_id,
        summary=asked.reason,
        due_at=moment(due_ms),
        detail={"duration_ms": asked.duration_ms},
    )
    tasks.save(tx, job)
    tx.emit(
        state.id,
        TaskCreated(task_id=job.id, task_kind=job.kind, summary=job.summary, due_at=iso(due_ms)),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    return msgspec.structs.replace(
        state, sleep=note, sleeping_until=moment(due_ms), active_task_ids=[*state.active_task_ids, job.id]
    )


def end_due_sleep(tx: Tx, job: TaskRecord, limits: Limits) -> None:
    """The rest is over: the job ends and a timer tick wakes the agent."""
    stored = agents.get(tx, job.agent_id)
    if stored is None:
        return
    state = _end(tx, stored.state, job, TaskStatus.COMPLETED, "due")
    agents.save_state(tx, state)
    if state.status.value == "stopped":
        return
    duration = (job.detail or {}).get("duration_ms")
    admit(
        tx,
        job.agent_id,
        Admission(
            agent_id=job.agent_id,
            kind=MessageKind.TIMER_TICK,
            origin=TimerOrigin(timer_id=job.id),
            body=TextBody(text=f"The rest of {duration} ms that you asked for is over: {job.summary}"),
            surface=DeliverySurface.TIMER_SCHEDULER,
            context=AdmissionContext.RUNTIME_OWNED,
            metadata={"sleep_job": True, "task_id": job.id},
            causation_id=job.parent_message_id,
            source_key=f"sleep:{job.id}",
            private=True,
        ),
        limits,
    )


def cancel_sleep(tx: Tx, job: TaskRecord, reason: str) -> bool:
    """Ends a rest before its time, once. Whoever does it says what wakes the agent, if anything has to."""
    stored, current = agents.get(tx, job.agent_id), tasks.get(tx, job.id)
    if stored is None or current is None or current.status.terminal:
        return False
    agents.save_state(tx, _end(tx, stored.state, current, TaskStatus.CANCELLED, reason))
    return True


def _end(tx: Tx, state: AgentState, job: TaskRecord, status: TaskStatus, reason: str) -> AgentState:
    tasks.save(tx, msgspec.structs.replace(job, status=status, updated_at=moment(tx.now_ms)))
    tx.emit(job.agent_id, TaskStatusUpdated(task_id=job.id, status=status, reason=reason))
    was_this = state.sleeping_until is not None and job.due_at is not None
    ends_rest = was_this and to_ms(state.sleeping_until) == to_ms(job.due_at)  # type: ignore[arg-type]
    return msgspec.structs.replace(
        state,
        active_task_ids=[task_id for task_id in state.active_task_ids if task_id != job.id],
        sleeping_until=None if ends_rest else state.sleeping_until,
    )
