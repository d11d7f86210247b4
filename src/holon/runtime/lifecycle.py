"""Lifecycle: pause, resume, stop and abort. Each command is a control message that takes effect as it is admitted."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holon.core.agents import AgentState, AgentStatus
from holon.core.codec import Record
from holon.core.errors import NoCurrentRun, StaleRun
from holon.core.event_kinds import ControlApplied, CurrentRunAborted
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    JsonBody,
    MessageEnvelope,
    MessageKind,
    OperatorOrigin,
    Priority,
    QueueStatus,
)
from holon.core.transitions import Transition
from holon.runtime.admission import Admission, admitted_event, normalise, require_agent
from holon.runtime.dispatcher import Dispatcher
from holon.runtime.standing import with_status
from holon.store import Store, Tx, agents, queue, turns


class ControlAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


class ControlOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    action: ControlAction
    status: AgentStatus
    changed: bool


class AbortOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    run_id: str
    aborted: bool
    mode: str


#: Action -> the status that it leads to, and the statuses that it changes nothing about.
_TARGET: dict[ControlAction, AgentStatus] = {
    ControlAction.PAUSE: AgentStatus.PAUSED,
    ControlAction.RESUME: AgentStatus.AWAKE_IDLE,
    ControlAction.STOP: AgentStatus.STOPPED,
}


class Lifecycle:
    def __init__(self, store: Store, limits: Limits, default_agent_id: str, dispatcher: Dispatcher) -> None:
        self._store, self._limits, self._default, self._dispatcher = store, limits, default_agent_id, dispatcher

    async def pause(self, agent_id: str | None, surface: str) -> ControlOutcome:
        """Holds the queue: messages are admitted and wait. A turn that runs goes on to its end."""
        return await self.control(agent_id, ControlAction.PAUSE, surface)

    async def resume(self, agent_id: str | None, surface: str) -> ControlOutcome:
        """Leaves paused and stopped; what waited is worked off."""
        return await self.control(agent_id, ControlAction.RESUME, surface)

    async def stop(self, agent_id: str | None, surface: str) -> ControlOutcome:
        """Ends the run that is under way and takes no further message until somebody resumes the agent."""
        return await self.control(agent_id, ControlAction.STOP, surface)

    async def control(self, agent_id: str | None, action: ControlAction, surface: str) -> ControlOutcome:
        target = agent_id or self._default
        outcome = await self._store.write(lambda tx: _apply(tx, target, action, surface), at=Transition.AGENT_CONTROL)
        if action is ControlAction.STOP:
            self._end_current(target)
        elif action is ControlAction.RESUME:
            self._dispatcher.kick(target)
        return outcome

    async def abort(
        self, agent_id: str | None, *, run_id: str | None = None, mode: str = "abort", surface: str
    ) -> AbortOutcome:
        """Ends the current run. It settles as aborted, with a brief; the agent goes on with what waits."""
        target = agent_id or self._default

        def step(tx: Tx) -> str:
            found = _request_abort(tx, target, run_id, mode)
            if mode == "stop_after_abort":
                _apply(tx, target, ControlAction.STOP, surface)
            return found

        found = await self._store.write(step, at=Transition.RUN_ABORT)
        self._end_current(target, found)
        return AbortOutcome(agent_id=target, run_id=found, aborted=True, mode=mode)

    def _end_current(self, agent_id: str, run_id: str | None = None) -> None:
        """Ends what runs now; with `run_id` that run only: the next one may have begun meanwhile."""
        live = self._dispatcher.live.get(agent_id)
        if live is not None and run_id in (None, live.turn.run_id):
            live.abort()


def _apply(tx: Tx, agent_id: str, action: ControlAction, surface: str) -> ControlOutcome:
    stored = require_agent(tx, agent_id, private=True)
    state = stored.state
    message = _control_message(tx, agent_id, action, surface)
    changed = _changes(state, action)
    if changed:
        if action is ControlAction.STOP and state.current_turn_id is not None:
            _mark_abort(tx, state)
        target = _TARGET[action]
        if action is ControlAction.RESUME and state.current_turn_id is not None:
            target = AgentStatus.AWAKE_RUNNING
        state = with_status(tx, state, target, f"{action} by {surface}", message_id=message.id)
        if action is ControlAction.RESUME:
            state = msgspec.structs.replace(state, held_by=None)
        agents.save_state(tx, state)
    tx.emit(
        agent_id,
        ControlApplied(action=action, surface=surface, detail=None if changed else "nothing changed"),
        message_id=message.id,
    )
    return ControlOutcome(agent_id=agent_id, action=action, status=state.status, changed=changed)


def _changes(state: AgentState, action: ControlAction) -> bool:
    match action:
        case ControlAction.PAUSE:
            return state.status not in (AgentStatus.PAUSED, AgentStatus.STOPPED)
        case ControlAction.RESUME:
            return state.status in (AgentStatus.PAUSED, AgentStatus.STOPPED)
        case ControlAction.STOP:
            return state.status is not AgentStatus.STOPPED


def _control_message(tx: Tx, agent_id: str, action: ControlAction, surface: str) -> MessageEnvelope:
    """The command as a message, admitted and processed in the transaction that carries it out."""
    local = surface.startswith(("cli", "local"))
    envelope = normalise(
        agent_id,
        Admission(
            agent_id=agent_id,
            kind=MessageKind.CONTROL,
            origin=OperatorOrigin(),
            body=JsonBody(value={"action": action}),
            surface=DeliverySurface.CLI_PROMPT if local else DeliverySurface.HTTP_CONTROL_PROMPT,
            context=AdmissionContext.LOCAL_PROCESS if local else AdmissionContext.CONTROL_AUTHENTICATED,
            priority=Priority.INTERJECT,
        ),
        tx.now_ms,
    )
    queue.append(tx, envelope)
    queue.take_waiting(tx, agent_id, envelope.id, QueueStatus.PROCESSED)
    tx.emit(agent_id, admitted_event(envelope), message_id=envelope.id)
    return envelope


def _request_abort(tx: Tx, agent_id: str, run_id: str | None, mode: str) -> str:
    state = require_agent(tx, agent_id, private=True).state
    if state.current_run_id is None or state.current_turn_id is None:
        raise NoCurrentRun(f"agent {agent_id!r} runs nothing now", hint=f"see 'holon status --agent {agent_id}'")
    if run_id is not None and run_id != state.current_run_id:
        raise StaleRun(
            f"run {run_id!r} is not the current one ({state.current_run_id})",
            hint="leave run_id out to end the current one",
        )
    _mark_abort(tx, state)
    tx.emit(agent_id, CurrentRunAborted(run_id=state.current_run_id, mode=mode), turn_id=state.current_turn_id)
    return state.current_run_id


def _mark_abort(tx: Tx, state: AgentState) -> None:
    """On disk first: should the process die now, the restart settles the turn as aborted."""
    turn = turns.get(tx, state.current_turn_id or "")
    if turn is not None:
        turns.save(tx, msgspec.structs.replace(turn, abort_requested=True))
