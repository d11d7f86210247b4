"""Waking: hints that something changed. They are signals, not messages, and never disturb a turn that runs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holon.core.agents import AgentState
from holon.core.clock import moment
from holon.core.codec import Input, Record
from holon.core.event_kinds import WakeHintStored, WakeRequested
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import MessageBody
from holon.core.transitions import Transition
from holon.core.triggers import HintDisposition, WakeHint
from holon.runtime.admission import check_boundary, require_agent
from holon.runtime.resting import tick_for_hints
from holon.store import Store, Tx, agents, queue, triggers
from holon.store.agents import StoredAgent


class WakeRequest(Input, frozen=True, kw_only=True):
    reason: str = "asked to look"
    source: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None


class WakeOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    disposition: HintDisposition


class Waking:
    def __init__(self, store: Store, limits: Limits, default_agent_id: str, kick: Callable[[str], None]) -> None:
        self._store, self._limits, self._default, self._kick = store, limits, default_agent_id, kick

    async def wake(self, agent_id: str | None, request: WakeRequest, *, surface: str) -> WakeOutcome:
        """An operator asks the agent to look. A stopped agent is not woken: the error says to resume it."""
        target = agent_id or self._default

        def step(tx: Tx) -> HintDisposition:
            stored = require_agent(tx, target)
            check_boundary(stored)
            return wake(tx, stored, request, self._limits, surface=surface)

        disposition = await self._store.write(step, at=Transition.WAKE_HINT)
        self._kick(target)
        return WakeOutcome(agent_id=target, disposition=disposition)


def wake(
    tx: Tx,
    stored: StoredAgent,
    request: WakeRequest,
    limits: Limits,
    *,
    surface: str,
    body: MessageBody | None = None,
) -> HintDisposition:
    """Inside a transaction: the hint, and on record who asked for it. With a body there is something to think about."""
    hint = WakeHint(
        id=new_id("hint", tx.now_ms),
        agent_id=stored.identity.agent_id,
        created_at=moment(tx.now_ms),
        reason=request.reason,
        source=request.source,
        correlation_id=request.correlation_id,
        causation_id=request.causation_id,
        body=body,
    )
    disposition = submit_hint(tx, stored, hint, limits)
    tx.emit(hint.agent_id, WakeRequested(reason=request.reason, surface=surface, disposition=disposition))
    return disposition


def submit_hint(tx: Tx, stored: StoredAgent, hint: WakeHint, limits: Limits) -> HintDisposition:
    """At rest with an empty queue: one tick now. Otherwise the hint waits, with its payload."""
    state = stored.state
    triggers.add_hint(tx, hint)
    if state.status.at_rest and not queue.waiting_from(tx, f"wake_hint:{state.id}"):
        agents.save_state(tx, tick_for_hints(tx, state, triggers.hints(tx, state.id), limits))
        return HintDisposition.TRIGGERED
    state = _bound(tx, state, limits)
    tx.emit(
        state.id,
        WakeHintStored(
            hint_id=hint.id,
            reason=hint.reason,
            pending=state.pending_wake_hints,
            coalesced=state.coalesced_wake_hints,
        ),
    )
    agents.save_state(tx, state)
    return HintDisposition.COALESCED


def _bound(tx: Tx, state: AgentState, limits: Limits) -> AgentState:
    """Keeps the newest hints with their payloads and counts the others."""
    waiting = triggers.hints(tx, state.id)
    surplus = waiting[: max(0, len(waiting) - limits.wake_hints)]
    triggers.drop_hints(tx, state.id, [hint.id for hint in surplus])
    return msgspec.structs.replace(
        state,
        pending_wake_hints=len(waiting) - len(surplus),
        coalesced_wake_hints=state.coalesced_wake_hints + len(surplus),
    )
