"""Standing: where an agent stands, read from the store in one transaction and written back with its event."""

from __future__ import annotations

import msgspec

from holon.core.agents import AgentState, AgentStatus
from holon.core.closures import ClosureDecision
from holon.core.event_kinds import AgentStateChanged
from holon.core.tasks import TaskKind
from holon.runtime.closure import ClosureFacts, decide_closure
from holon.store import Tx, tasks, timers


def read_closure(tx: Tx, state: AgentState, *, turn_in_progress: bool | None = None) -> ClosureDecision:
    """The closure as it stands now. A message that is being claimed asks before its own turn is in progress."""
    live = tasks.live(tx, state.id) if state.active_task_ids else []
    running = state.current_turn_id is not None if turn_in_progress is None else turn_in_progress
    return decide_closure(
        ClosureFacts(
            status=state.status,
            runtime_error_active=state.runtime_error_active,
            turn_in_progress=running,
            last_terminal=state.last_turn_terminal.kind if state.last_turn_terminal else None,
            ever_started=state.turn_index > 0,
            awaits_operator=state.awaits_operator,
            sleep_job_active=any(task.kind is TaskKind.SLEEP_JOB for task in live),
            timer_active=timers.has_active(tx, state.id),
        )
    )


def with_status(
    tx: Tx, state: AgentState, status: AgentStatus, reason: str, *, message_id: str | None = None
) -> AgentState:
    """The state in another status, and the record of the transition."""
    if state.status is status:
        return state
    tx.emit(
        state.id,
        AgentStateChanged(before=state.status, after=status, reason=reason, run_id=state.current_run_id),
        message_id=message_id,
    )
    return msgspec.structs.replace(state, status=status)


def held(state: AgentState) -> bool:
    """Whether an operator keeps the agent from working."""
    return state.status in (AgentStatus.PAUSED, AgentStatus.STOPPED)
