"""Beginning: claims the next message and decides what it leads to, in one transaction.

A turn has begun, the message was reduced without a model, a limit holds the agent back, or there is nothing to do and
the agent rests. A turn that a failed worker left open comes before all of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holon.context.offers import NOTHING, Offer
from holon.context.padding import PaddingMode
from holon.context.sections import Section
from holon.context.window import Window, WindowItem, item_of, tokens_of
from holon.core.agents import AgentState, AgentStatus, RunBudget
from holon.core.clock import moment, to_ms
from holon.core.closures import ContinuationResolution, SchedulerDecisionKind
from holon.core.event_kinds import (
    ContinuationResolved,
    LimitReached,
    MessageProcessingStarted,
    TurnContextBuilt,
)
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import DeliverySurface, MessageEnvelope, MessageKind, QueueStatus, SystemOrigin
from holon.core.models import Prices
from holon.core.transcripts import TranscriptEntry, TranscriptKind
from holon.core.transitions import Transition
from holon.core.turns import Turn, TurnPhase
from holon.core.values import Value
from holon.providers.contract import ToolSpec
from holon.providers.models import ModelTable
from holon.runtime.continuation import resolve
from holon.runtime.prompting import Opened, Prompt, prepare
from holon.runtime.resting import decision_event, rest
from holon.runtime.scheduler import decide_message, self_turn_delay_ms
from holon.runtime.standing import held, read_closure, with_status
from holon.runtime.windows import Windows
from holon.store import Tx, agents, calls, queue, transcript, turns
from holon.store.agents import StoredAgent
from holon.store.queue import Claimed

FREE = Prices()
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Begun(Value, frozen=True):
    """A turn has begun and its first round is on record as begun."""

    turn: Turn
    envelope: MessageEnvelope
    stored: StoredAgent
    window: Window
    prompt: Prompt
    added: list[WindowItem] = msgspec.field(default_factory=list)


class Reduced(Value, frozen=True):
    """The message was settled without a model; there may be more."""

    #: The parent that was told of it, where this was the end of a child's work.
    told: str | None = None


class Held(Value, frozen=True):
    """A limit keeps the agent back, until a moment or (`None`) until something comes from outside."""

    until_ms: int | None


class LeftOpen(Value, frozen=True):
    """A turn stands open that nobody drives any more, because its worker failed: it comes first."""

    turn: Turn


class AtRest(Value, frozen=True):
    """Nothing to do."""

    #: The parent that was told of it, where this was the end of a child's work.
    told: str | None = None


Beginning = Begun | Reduced | Held | LeftOpen | AtRest


class Assembly(Value, frozen=True):
    """What a turn is assembled with: where windows are kept, which models there are, and what rooms have to say."""

    windows: Windows
    models: ModelTable
    model_default: str
    tools: Sequence[ToolSpec]
    sections: Sequence[Section]
    padding: PaddingMode = PaddingMode.AUTO
    #: What may stand in the prompt beside the sections, as far as it is read from the store.
    offer: Callable[[Tx], Offer] = lambda _: NOTHING
    opened: Opened | None = None


def begin(tx: Tx, agent_id: str, *, limits: Limits, assembly: Assembly) -> Beginning:
    stored = agents.get(tx, agent_id)
    if stored is None or stored.state.status is AgentStatus.BOOTING:
        return AtRest()
    if (open_turn := stored.state.current_turn_id) and (turn := turns.get(tx, open_turn)) is not None:
        return LeftOpen(turn)
    if held(stored.state):
        return AtRest()
    if stored.counters.pending == 0:
        return _look_around(tx, stored, limits)
    run_id = new_id("run", tx.now_ms)
    prices = assembly.models.card(stored.state.model_override or assembly.model_default).prices
    claimed = _claim(tx, stored, run_id, limits, pays=prices != FREE)
    if isinstance(claimed, Held):
        return claimed
    state = msgspec.structs.replace(stored.state, held_by=None)
    return _decide(tx, stored._replace(state=state), claimed, run_id, limits, assembly)


def _look_around(tx: Tx, stored: StoredAgent, limits: Limits) -> Beginning:
    """An awake agent without messages falls asleep, unless hints wait: then their tick is the next message."""
    tx.at, state = Transition.IDLE_DECIDE, stored.state
    if state.status is AgentStatus.AWAKE_IDLE:
        state = rest(tx, state, 0, limits, reason="nothing to do")
    return Reduced() if state.status is AgentStatus.AWAKE_IDLE else AtRest(_told(stored, state))


def _told(stored: StoredAgent, after: AgentState) -> str | None:
    return stored.identity.parent_agent_id if after.status is AgentStatus.STOPPED else None


def _decide(
    tx: Tx,
    stored: StoredAgent,
    claimed: Claimed,
    run_id: str,
    limits: Limits,
    assembly: Assembly,
) -> Beginning:
    state, envelope = stored.state, claimed.envelope
    prior = read_closure(tx, state, turn_in_progress=False)
    resolution = resolve(prior, envelope, contentful=contentful(envelope), terminal_task=True)
    decision = decide_message(resolution, envelope)
    tx.emit(
        state.id,
        MessageProcessingStarted(
            run_id=run_id,
            attempt=claimed.entry.attempt,
            queue_wait_ms=max(0, tx.now_ms - to_ms(claimed.entry.created_at)),
            priority=envelope.priority,
        ),
        message_id=envelope.id,
    )
    tx.emit(state.id, continuation_event(resolution), message_id=envelope.id)
    tx.emit(state.id, decision_event(decision), message_id=envelope.id)
    state = msgspec.structs.replace(
        state,
        last_wake_reason=wake_reason(envelope),
        last_continuation=resolution,
        total_message_count=state.total_message_count + 1,
    )
    if decision.kind is not SchedulerDecisionKind.START_MODEL_TURN:
        tx.at = Transition.MESSAGE_REDUCE
        queue.settle(tx, envelope.id, QueueStatus.PROCESSED)
        state = rest(tx, state, stored.counters.pending - 1, limits, reason=f"{envelope.kind} needed no turn")
        return Reduced(_told(stored, state))
    return _open_turn(tx, stored._replace(state=state), claimed, run_id, assembly)


def _open_turn(tx: Tx, stored: StoredAgent, claimed: Claimed, run_id: str, assembly: Assembly) -> Begun:
    state, envelope = stored.state, claimed.envelope
    model = _model_of(envelope) or state.model_override or assembly.model_default
    kept = assembly.windows.find(tx, stored)
    prepared = prepare(
        tx,
        state,
        kept.window,
        kept.prompt,
        assembly.models.card(model),
        assembly.sections,
        assembly.tools,
        assembly.padding,
        assembly.offer(tx),
        assembly.opened,
    )
    state, window = prepared.state, prepared.window
    turn = Turn(
        id=new_id("turn", tx.now_ms),
        agent_id=state.id,
        turn_index=state.turn_index + 1,
        run_id=run_id,
        message_id=envelope.id,
        asked_by_operator=envelope.kind is MessageKind.OPERATOR_PROMPT,
        phase=TurnPhase.ROUND_BEGUN,
        round=1,
        started_at=moment(tx.now_ms),
        model=model,
        work_item_id=state.current_work_item_id,
    )
    state = msgspec.structs.replace(
        with_status(tx, state, AgentStatus.AWAKE_RUNNING, wake_reason(envelope), message_id=envelope.id),
        current_run_id=run_id,
        current_turn_id=turn.id,
        turn_index=turn.turn_index,
        sleep=None,
        awaits_operator=state.awaits_operator and envelope.kind is not MessageKind.OPERATOR_PROMPT,
        self_turns=state.self_turns + 1 if self_made(envelope) else 0,
        run_budget=_run_budget(state.run_budget, envelope),
    )
    added = [*prepared.added, add_input(tx, turn, envelope, opens_turn=True)]
    tx.emit(
        state.id,
        TurnContextBuilt(
            turn_index=turn.turn_index,
            run_id=run_id,
            round=1,
            duration_ms=0.0,
            item_count=len(window.entries) + len(added),
            rendered_tokens=prepared.prompt.head_tokens + window.tokens + sum(tokens_of(e.item) for e in added),
        ),
        message_id=envelope.id,
        turn_id=turn.id,
    )
    turns.insert(tx, turn)
    agents.save_state(tx, state)
    return Begun(turn, envelope, stored._replace(state=state), window, prepared.prompt, added)


def add_input(tx: Tx, turn: Turn, envelope: MessageEnvelope, *, opens_turn: bool) -> WindowItem:
    """Appends a message to the transcript and returns it as the model will read it."""
    data = {"opens_turn": True} if opens_turn else {"interjected": True}
    seq = transcript.append(
        tx,
        turn.agent_id,
        TranscriptKind.INCOMING_MESSAGE,
        data,
        turn_id=turn.id,
        round_=turn.round,
        message_id=envelope.id,
    )
    entry = TranscriptEntry(
        agent_id=turn.agent_id,
        seq=seq,
        created_at=moment(tx.now_ms),
        kind=TranscriptKind.INCOMING_MESSAGE,
        data=data,
        related_message_id=envelope.id,
    )
    return item_of(entry, envelope)


def self_made(envelope: MessageEnvelope) -> bool:
    """Whether the agent, or the runtime for it, made this message without new evidence from outside."""
    if isinstance(envelope.origin, SystemOrigin):
        return envelope.origin.subsystem != "wake_hint"
    return envelope.kind is MessageKind.TIMER_TICK and bool((envelope.metadata or {}).get("sleep_job"))


def contentful(envelope: MessageEnvelope) -> bool:
    """Whether there is something to think about. A tick for wake hints says it itself: its frame is not content."""
    said = (envelope.metadata or {}).get("contentful")
    return bool(said) if envelope.kind is MessageKind.SYSTEM_TICK and said is not None else envelope.contentful


def wake_reason(envelope: MessageEnvelope) -> str:
    if isinstance(envelope.origin, SystemOrigin):
        return f"{envelope.kind}:{envelope.origin.subsystem}"
    return str(envelope.kind)


def continuation_event(resolution: ContinuationResolution) -> ContinuationResolved:
    return ContinuationResolved(
        trigger_kind=resolution.trigger_kind,
        class_=resolution.class_,
        model_visible=resolution.model_visible,
        prior_closure_outcome=resolution.prior_closure_outcome,
        prior_waiting_reason=resolution.prior_waiting_reason,
        matched_waiting_reason=resolution.matched_waiting_reason,
        evidence=resolution.evidence,
    )


def _claim(tx: Tx, stored: StoredAgent, run_id: str, limits: Limits, *, pays: bool) -> Claimed | Held:
    """The next message that no limit holds back."""
    state = stored.state
    if (until := _hourly_hold(tx, state, limits)) is not None:
        return _hold(tx, state, "turns_per_hour", limits.turns_per_hour, until)
    if (spent := _daily_hold(tx, state, limits, pays=pays)) is not None:
        return _hold(tx, state, *spent, _tomorrow(tx.now_ms))
    used_up = state.run_budget is not None and state.run_budget.left == 0
    if state.self_turns < limits.self_turns_free and not used_up:
        claimed = queue.claim_head(tx, state.id, run_id)
        assert claimed is not None, "pending counts a message that does not wait"
        return claimed
    if (outside := _outside(tx, state.id)) is not None:
        claimed = queue.claim(tx, state.id, outside.entry.message_id, run_id)
        assert claimed is not None
        return claimed
    if state.run_budget is not None and used_up:
        return _hold(tx, state, "max_turns", state.run_budget.turns, None)
    delay = self_turn_delay_ms(state.self_turns, limits)
    if delay is None:
        return _hold(tx, state, "self_turns", limits.self_turns, None)
    last = to_ms(state.last_turn_terminal.completed_at) if state.last_turn_terminal else tx.now_ms
    # A clock that was set back must not hold the agent for longer than the delay itself.
    until_ms = min(last, tx.now_ms) + delay
    if tx.now_ms < until_ms:
        return _hold(tx, state, "self_turns_free", limits.self_turns_free, until_ms)
    claimed = queue.claim_head(tx, state.id, run_id)
    assert claimed is not None
    return claimed


def _outside(tx: Tx, agent_id: str) -> Claimed | None:
    """The first waiting message that the agent did not make itself, however many of its own stand before it."""
    limit = 64
    while True:
        waiting = queue.waiting(tx, agent_id, limit=limit)
        found = next((waits for waits in waiting if not self_made(waits.envelope)), None)
        if found is not None or len(waiting) < limit:
            return found
        limit *= 8


def _hourly_hold(tx: Tx, state: AgentState, limits: Limits) -> int | None:
    if state.turn_index < limits.turns_per_hour:
        return None
    began = turns.started_at(tx, state.id, state.turn_index - limits.turns_per_hour + 1)
    if began is None or not tx.now_ms - HOUR_MS < began <= tx.now_ms:
        return None
    return began + HOUR_MS


def _daily_hold(tx: Tx, state: AgentState, limits: Limits, *, pays: bool) -> tuple[str, float] | None:
    """The daily limit that is used up, if one is: sums by day are kept, so this reads a few rows. What all agents have
    spent holds only those whose model costs something."""
    tokens, nanodollars = calls.spent_today(tx, state.id) if state.last_call_at else (0, 0)
    if tokens >= limits.tokens_per_agent_day:
        return "tokens_per_agent_day", limits.tokens_per_agent_day
    if nanodollars >= limits.dollars_per_agent_day * 1e9:
        return "dollars_per_agent_day", limits.dollars_per_agent_day
    if pays and calls.spent_today(tx)[1] >= limits.dollars_per_day * 1e9:
        return "dollars_per_day", limits.dollars_per_day
    return None


def _tomorrow(now_ms: int) -> int:
    return (now_ms // DAY_MS + 1) * DAY_MS


_ADVICE = {
    "tokens_per_agent_day": "it goes on tomorrow (UTC); see 'holon cost', or raise limits.tokens_per_agent_day",
    "dollars_per_agent_day": "it goes on tomorrow (UTC); see 'holon cost', or raise limits.dollars_per_agent_day",
    "dollars_per_day": "all agents go on tomorrow (UTC); see 'holon cost', or raise limits.dollars_per_day",
    "turns_per_hour": "the agent goes on when the hour is over; look at what wakes it, or raise limits.turns_per_hour",
    "max_turns": "its run is over; what it queued for itself waits until something comes from outside",
    "self_turns": "it wakes itself without new evidence; send it a prompt, or raise limits.self_turns",
    "self_turns_free": "it wakes itself without new evidence; it goes on after a growing pause",
}


def _hold(tx: Tx, state: AgentState, limit: str, value: float, until_ms: int | None) -> Held:
    if state.held_by != limit:
        tx.emit(state.id, LimitReached(limit=limit, value=value, advice=_ADVICE[limit]))
        state = msgspec.structs.replace(state, held_by=limit)
        agents.save_state(tx, with_status(tx, state, AgentStatus.ASLEEP, f"held by limit {limit}"))
    return Held(until_ms)


def _model_of(envelope: MessageEnvelope) -> str | None:
    """`holon run --model`: only whoever begins a run may choose its model."""
    model = _run_metadata(envelope).get("model")
    return str(model) if model else None


def _run_budget(before: RunBudget | None, envelope: MessageEnvelope) -> RunBudget | None:
    """`holon run --max-turns`: each turn takes one of them. Used up, they are lifted by news from outside."""
    if turns := _run_metadata(envelope).get("max_turns"):
        return RunBudget(turns=turns, left=turns - 1)
    if before is None or before.left == 0:
        return None
    return RunBudget(turns=before.turns, left=before.left - 1)


def _run_metadata(envelope: MessageEnvelope) -> dict[str, Any]:
    return envelope.metadata or {} if envelope.delivery_surface is DeliverySurface.RUN_ONCE else {}
