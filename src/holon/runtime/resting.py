"""Resting: what an agent does when a step is over and nothing runs. The idle order, applied in one transaction."""

from __future__ import annotations

import msgspec

from holon.core.agents import AgentState, AgentStatus, SleepNote
from holon.core.clock import iso, moment, to_ms
from holon.core.closures import ClosureDecision, SchedulerDecision, SchedulerDecisionKind, WaitingReason
from holon.core.codec import dumps, to_plain
from holon.core.event_kinds import (
    AgentSlept,
    ClosureDecided,
    SchedulerDecided,
    SystemTickEmitted,
    WakeHintTriggered,
)
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    CallbackOrigin,
    DeliverySurface,
    JsonBody,
    MessageKind,
    Priority,
    SystemOrigin,
)
from holon.core.triggers import WAKE_HINT, WakeHint
from holon.runtime.admission import Admission, admit
from holon.runtime.scheduler import IdleFacts, decide_idle
from holon.runtime.standing import held, read_closure, with_status
from holon.runtime.supervising import finish_if_done
from holon.store import Tx, agents, queue, triggers

#: Most that the hints of one tick say together: about as much as a single payload may.
TICK_CHARS = 256 * 1024

_EXPECTED_WAKE = {
    WaitingReason.AWAITING_OPERATOR_INPUT: "operator input",
    WaitingReason.AWAITING_EXTERNAL_CHANGE: "an external event",
    WaitingReason.AWAITING_TASK_RESULT: "a task's result",
    WaitingReason.AWAITING_TIMER: "a timer",
}


def rest(tx: Tx, state: AgentState, pending: int, limits: Limits, *, reason: str) -> AgentState:
    """Decides what is next for an agent that runs nothing, writes it, and returns the state as it was saved."""
    if held(state):
        agents.save_state(tx, state)
        return state
    closure = read_closure(tx, state, turn_in_progress=False)
    tx.emit(state.id, closure_event(closure))
    state = finish_if_done(tx, state, closure, pending, limits)
    if held(state):
        agents.save_state(tx, state)
        return state
    hints = _free_hints(tx, state)
    # Between two turns, too, hints get their tick: an agent whose queue never empties must not starve them.
    idle = decide_idle(IdleFacts(closure=closure, queued=0 if hints else pending, hints=hints, scope=state.id))
    tx.emit(state.id, decision_event(idle.decision))
    if idle.decision.kind is SchedulerDecisionKind.NOOP:
        state = with_status(tx, state, AgentStatus.AWAKE_IDLE, "more input waits")
    elif idle.decision.kind is SchedulerDecisionKind.EMIT_SYSTEM_TICK and hints:
        state = tick_for_hints(tx, with_status(tx, state, AgentStatus.AWAKE_IDLE, "wake hints wait"), hints, limits)
    else:
        state = _fall_asleep(tx, state, closure, reason)
    agents.save_state(tx, state)
    return state


def tick_for_hints(tx: Tx, state: AgentState, hints: list[WakeHint], limits: Limits) -> AgentState:
    """One system tick that carries the hints that wait: all of them, unless their payloads are too much for one.

    The runtime makes the tick, so it is the origin. But the tick brings what others sent: as soon as one hint came from
    outside, authority and way in are those of the trigger, so that nobody can take its words for the runtime's.
    """
    waiting, hints = len(hints), _portion(hints)
    key = f"wake_hint:{state.id}:{to_ms(hints[-1].created_at) * 1000}"
    contentful = any(hint.body is not None for hint in hints)
    reasons = [hint.reason for hint in hints]
    outside = any(isinstance(hint.origin, CallbackOrigin) for hint in hints)
    admit(
        tx,
        state.id,
        Admission(
            agent_id=state.id,
            kind=MessageKind.SYSTEM_TICK,
            origin=SystemOrigin(subsystem=WAKE_HINT),
            carries=[hint.origin for hint in hints],
            body=JsonBody(value={"wake_hints": to_plain(hints), "also_coalesced": state.coalesced_wake_hints}),
            surface=DeliverySurface.HTTP_CALLBACK_WAKE if outside else DeliverySurface.RUNTIME_SYSTEM,
            context=AdmissionContext.EXTERNAL_TRIGGER_CAPABILITY if outside else AdmissionContext.RUNTIME_OWNED,
            priority=Priority.NEXT,
            metadata={"contentful": contentful, "reason": "; ".join(reasons)[:500]},
            source_refs=_hint_refs(hints),
            correlation_id=hints[-1].correlation_id,
            causation_id=hints[-1].causation_id or hints[-1].id,
            source_key=f"wake_hint:{state.id}",
            private=True,
        ),
        limits,
    )
    triggers.drop_hints(tx, state.id, [hint.id for hint in hints])
    tx.emit(
        state.id,
        WakeHintTriggered(
            hint_ids=[hint.id for hint in hints], reasons=reasons[:16], coalesced=state.coalesced_wake_hints
        ),
    )
    tx.emit(state.id, SystemTickEmitted(subsystem="wake_hint", idempotency_key=key, reason=reasons[-1]))
    return msgspec.structs.replace(state, pending_wake_hints=waiting - len(hints), coalesced_wake_hints=0)


def _portion(hints: list[WakeHint]) -> list[WakeHint]:
    """The first hints that go together into one message; the others get the next tick."""
    taken, size = 0, 0
    for hint in hints:
        size += len(dumps(hint))
        if taken and size > TICK_CHARS:
            break
        taken += 1
    return hints[:taken]


def closure_event(closure: ClosureDecision) -> ClosureDecided:
    return ClosureDecided(
        outcome=closure.outcome,
        runtime_posture=closure.runtime_posture,
        waiting_reason=closure.waiting_reason,
        evidence=closure.evidence,
    )


def decision_event(decision: SchedulerDecision) -> SchedulerDecided:
    return SchedulerDecided(
        decision=decision.kind, boundary=decision.boundary, reason=decision.reason, evidence=decision.evidence
    )


def _free_hints(tx: Tx, state: AgentState) -> list[WakeHint]:
    """The hints that may become a tick now: none while an earlier tick still waits."""
    if not state.pending_wake_hints or queue.waiting_from(tx, f"wake_hint:{state.id}"):
        return []
    return triggers.hints(tx, state.id)


def _fall_asleep(tx: Tx, state: AgentState, closure: ClosureDecision, reason: str) -> AgentState:
    expected = _EXPECTED_WAKE.get(closure.waiting_reason) if closure.waiting_reason else None
    until = iso(to_ms(state.sleeping_until)) if state.sleeping_until else None
    if state.status is AgentStatus.ASLEEP and state.sleep is not None:
        return state  # a sign of life: it rests on, for the reason and since the moment that it did before
    tx.emit(state.id, AgentSlept(reason=reason, sleeping_until=until, expected_wake=expected))
    note = SleepNote(since=moment(tx.now_ms), reason=reason, expected_wake=expected)
    return msgspec.structs.replace(with_status(tx, state, AgentStatus.ASLEEP, reason), sleep=note)


def _hint_refs(hints: list[WakeHint]) -> dict[str, str]:
    refs: dict[str, str] = {}
    for hint in hints:
        for name in ("external_trigger_id", "waiting_intent_id", "resource", "work_item_id"):
            if value := getattr(hint, name):
                refs[name] = value
    return refs
