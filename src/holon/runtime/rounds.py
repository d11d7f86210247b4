"""Rounds: what is written when a model has answered, when tools are done, and when the turn ends.

Each function is one transaction's work. The answer is on disk before anything acts on it, and a call is on disk as
begun before it runs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holon.context.window import WindowItem
from holon.core.agents import AgentState, AgentStatus, ToolLatency
from holon.core.briefs import BriefKind
from holon.core.clock import iso, moment
from holon.core.codec import dumps, to_plain
from holon.core.conversation import (
    AssistantBlocks,
    ModelBlock,
    UserText,
    text_of,
    tool_uses,
)
from holon.core.errors import LimitMet
from holon.core.event_kinds import (
    AssistantRoundRecorded,
    LimitReached,
    OperatorInterjectionAdmitted,
    OutputContinued,
    ProviderRoundCompleted,
    ToolExecuted,
)
from holon.core.limits import Limits
from holon.core.messages import MessageKind, Priority, QueueStatus, Trust
from holon.core.models import ModelCard
from holon.core.transcripts import TranscriptKind
from holon.core.turns import ToolCall, ToolCallStatus, Turn, TurnPhase
from holon.core.usage import TokenUsage
from holon.core.values import Value
from holon.providers.attempts import RoundOutcome
from holon.providers.contract import AttemptTimeline, StopReason
from holon.runtime.beginning import add_input
from holon.runtime.briefing import write_brief
from holon.runtime.calls import add_results
from holon.runtime.prompting import Sent, book_call
from holon.runtime.settling import settle
from holon.runtime.sleeping import start_sleep
from holon.runtime.standing import held, with_status
from holon.store import Tx, agents, queue, transcript, turns
from holon.tools.envelope import ToolError, receipt
from holon.tools.registry import ToolOutcome, ToolRegistry

PREVIEW_CHARS = 200
#: How often in one turn an answer that was cut at the output limit is continued.
MAX_CONTINUATIONS = 2


class RoundTimes(Value, frozen=True):
    context_build_ms: float
    started_ms: int
    completed_ms: int
    round_ms: float


class Booking(Value, frozen=True):
    """What the ledger needs to know of a round: the model that answered, and what was sent."""

    card: ModelCard
    sent: Sent


class CallResult(Value, frozen=True):
    """One tool call that ran: what the model reads, and what the books need."""

    call: ToolCall
    content: str
    summary: str
    duration_ms: float
    outcome: ToolOutcome | None = None
    error: ToolError | None = None


class Step(Value, frozen=True):
    """Where the turn stands after a transaction, and what it added to the conversation."""

    turn: Turn
    added: list[WindowItem] = msgspec.field(default_factory=list)
    #: The calls to run next, if the turn stands at its tools.
    begun: list[ToolCall] = msgspec.field(default_factory=list)
    used: TokenUsage = msgspec.field(default_factory=TokenUsage)
    nanodollars: int = 0
    #: The turn has ended and the agent sleeps: nothing waits for it.
    at_rest: bool = False


def record_answer(
    tx: Tx,
    turn: Turn,
    outcome: RoundOutcome,
    times: RoundTimes,
    booking: Booking,
    registry: ToolRegistry,
    limits: Limits,
) -> Step:
    """Commits an answer. With tool calls the first of them begin; without, the turn settles or goes on."""
    stored = agents.get(tx, turn.agent_id)
    current = turns.get(tx, turn.id)
    assert stored is not None and current is not None
    turn = msgspec.structs.replace(current, crashes=0)
    usage = outcome.response.usage or TokenUsage()
    state, cost = book_call(
        tx, _count_round(stored.state, usage), turn, booking.card, booking.sent, usage, outcome.response.buckets
    )
    added = [_add_answer(tx, turn, outcome, times, usage)]
    calls = _requested(turn, outcome, tx.now_ms)
    if calls:
        turns.insert_calls(tx, calls)
        turn = msgspec.structs.replace(turn, phase=TurnPhase.TOOLS)
    if turn.abort_requested:
        settle(tx, state, turn, limits, aborted="aborted by the operator")
        return Step(_terminal(turn), added, used=usage, nanodollars=cost)
    if calls:
        begun = begin_calls(tx, calls, registry)
        turns.save(tx, turn)
        agents.save_state(tx, state)
        return Step(turn, added, begun, usage, cost)
    text = turn.partial_text + text_of(outcome.response.blocks)
    state, more = _interject(tx, turn, state, "after_text_round")
    if outcome.response.stop_reason is StopReason.MAX_OUTPUT_TOKENS and turn.continuations < MAX_CONTINUATIONS:
        turn = msgspec.structs.replace(turn, continuations=turn.continuations + 1, partial_text=text)
        more = [_ask_to_go_on(tx, turn), *more]
    if more:
        turn = _next_round(tx, turn)
        agents.save_state(tx, state)
        return Step(turn, added + more, used=usage, nanodollars=cost)
    state = settle(tx, state, turn, limits, text=text, pending=stored.counters.pending)
    return Step(_terminal(turn), added, used=usage, nanodollars=cost, at_rest=state.status is AgentStatus.ASLEEP)


def begin_calls(tx: Tx, calls: list[ToolCall], registry: ToolRegistry) -> list[ToolCall]:
    """Marks the next calls as begun: one that acts, or several neighbours that only read."""
    waiting = [call for call in calls if call.status is ToolCallStatus.REQUESTED]
    group = waiting[:1]
    if group and registry.read_only(group[0].name):
        for call in waiting[1:]:
            if not registry.read_only(call.name):
                break
            group.append(call)
    begun = [msgspec.structs.replace(call, status=ToolCallStatus.BEGUN, begun_at=moment(tx.now_ms)) for call in group]
    for call in begun:
        turns.save_call(tx, call)
    return begun


def record_results(tx: Tx, turn: Turn, results: list[CallResult], registry: ToolRegistry, limits: Limits) -> Step:
    """Commits what calls brought, together with their durable effects; then the next calls, the next round, or rest."""
    stored = agents.get(tx, turn.agent_id)
    current = turns.get(tx, turn.id)
    assert stored is not None and current is not None
    turn, state = msgspec.structs.replace(current, crashes=0), stored.state
    if state.status is AgentStatus.AWAITING_TASK:
        state = with_status(tx, state, AgentStatus.AWAKE_RUNNING, "the wait for a task is over")
    for result in results:
        state = _add_result(tx, turn, state, result)
    if turn.abort_requested:
        settle(tx, state, turn, limits, aborted="aborted by the operator")
        return Step(_terminal(turn))
    calls = turns.calls(tx, turn.id, turn.round)
    begun = begin_calls(tx, calls, registry)
    if begun:
        agents.save_state(tx, state)
        turns.save(tx, turn)
        return Step(turn, [], begun)
    return finish_tools(tx, turn, state, calls, limits, stored.counters.pending)


def finish_tools(tx: Tx, turn: Turn, state: AgentState, calls: list[ToolCall], limits: Limits, pending: int) -> Step:
    added = [add_results(tx, turn, calls)]
    if all(call.name == "Sleep" and not call.is_error for call in calls):
        # The effects of the calls (a follow-up, a tick) may have joined the queue in this very transaction.
        settle(tx, state, turn, limits, text=_last_text(tx, turn), pending=_pending(tx, turn.agent_id))
        return Step(_terminal(turn), added)
    state, interjected = _interject(tx, turn, state, "after_tool_results")
    turn = _next_round(tx, turn)
    agents.save_state(tx, state)
    return Step(turn, added + interjected)


def used_in(state: AgentState, turn_id: str | None) -> TokenUsage:
    """What this turn has used so far, also before a restart."""
    known = state.last_turn_token_usage if state.usage_turn_id == turn_id else None
    return known or TokenUsage()


def _interject(tx: Tx, turn: Turn, state: AgentState, safe_point: str) -> tuple[AgentState, list[WindowItem]]:
    """Takes operator prompts that may interrupt into the running turn, each acknowledged in a brief."""
    added: list[WindowItem] = []
    if held(state) or not tx.waiting(turn.agent_id):  # paused: the turn goes on to its end, and what came since waits
        return state, added
    for waits in queue.waiting(tx, turn.agent_id, lane=Priority.INTERJECT.lane, limit=16):
        envelope = waits.envelope
        if envelope.kind is not MessageKind.OPERATOR_PROMPT or envelope.trust is not Trust.TRUSTED_OPERATOR:
            continue
        if not queue.take_waiting(tx, turn.agent_id, envelope.id, QueueStatus.INTERJECTED, turn.run_id):
            continue
        added.append(add_input(tx, turn, envelope, opens_turn=False))
        tx.emit(
            turn.agent_id,
            OperatorInterjectionAdmitted(safe_point=safe_point, round=turn.round),
            message_id=envelope.id,
            turn_id=turn.id,
        )
        write_brief(
            tx,
            turn.agent_id,
            BriefKind.ACK,
            "Taken into the running turn.",
            message_id=envelope.id,
            turn_id=turn.id,
        )
    return (msgspec.structs.replace(state, last_brief_at=moment(tx.now_ms)) if added else state), added


def _ask_to_go_on(tx: Tx, turn: Turn) -> WindowItem:
    """The answer was cut at the output limit: the model is asked for the rest."""
    text = "[the answer above was cut at the output limit: go on exactly where it stopped, without repeating it]"
    tx.emit(turn.agent_id, OutputContinued(round=turn.round), message_id=turn.message_id, turn_id=turn.id)
    seq = transcript.append(
        tx,
        turn.agent_id,
        TranscriptKind.CONTINUATION_PROMPT,
        {"text": text},
        turn_id=turn.id,
        round_=turn.round,
        message_id=turn.message_id,
    )
    return WindowItem(seq, UserText(text=text), opens_turn=False)


def _next_round(tx: Tx, turn: Turn) -> Turn:
    turn = msgspec.structs.replace(turn, phase=TurnPhase.ROUND_BEGUN, round=turn.round + 1)
    turns.save(tx, turn)
    return turn


def _add_answer(tx: Tx, turn: Turn, outcome: RoundOutcome, times: RoundTimes, usage: TokenUsage) -> WindowItem:
    response, timeline = outcome.response, outcome.timeline
    attempts, tokens = shown_timeline(timeline), to_plain(usage)
    data: dict[str, Any] = {
        "blocks": to_plain(response.blocks),
        "stop_reason": response.stop_reason,
        "model_ref": timeline.winning_model_ref,
        "token_usage": tokens,
    }
    if len(timeline.attempts) > 1:
        data["provider_attempt_timeline"] = attempts
    seq = transcript.append(
        tx,
        turn.agent_id,
        TranscriptKind.ASSISTANT_ROUND,
        data,
        turn_id=turn.id,
        round_=turn.round,
        message_id=turn.message_id,
    )
    tx.emit(
        turn.agent_id,
        ProviderRoundCompleted(
            turn_index=turn.turn_index,
            run_id=turn.run_id,
            round=turn.round,
            model_ref=timeline.winning_model_ref or turn.model,
            stop_reason=response.stop_reason,
            context_build_ms=round(times.context_build_ms, 3),
            provider_round_ms=round(times.round_ms, 3),
            provider_started_at=iso(times.started_ms),
            provider_completed_at=iso(times.completed_ms),
            token_usage=tokens,
            provider_attempt_timeline=attempts,
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    text = " ".join(text_of(response.blocks).split())
    tx.emit(
        turn.agent_id,
        AssistantRoundRecorded(
            round=turn.round,
            text_preview=text[:PREVIEW_CHARS],
            tool_names=[use.name for use in tool_uses(response.blocks)],
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    return WindowItem(seq, AssistantBlocks(blocks=response.blocks), opens_turn=False, source="answers")


def shown_timeline(timeline: AttemptTimeline) -> dict[str, Any]:
    """The attempts of a round, for the records. Where there was only one, what would just repeat it is left out."""
    shown: dict[str, Any] = to_plain(timeline)
    if len(timeline.attempts) == 1:
        shown.pop("active_model_ref", None)
        shown.pop("aggregated_token_usage", None)
    return shown


def _requested(turn: Turn, outcome: RoundOutcome, now_ms: int) -> list[ToolCall]:
    return [
        ToolCall(
            turn_id=turn.id,
            agent_id=turn.agent_id,
            round=turn.round,
            ordinal=ordinal,
            call_id=use.id,
            name=use.name,
            input=dumps(use.input),
            status=ToolCallStatus.REQUESTED,
            requested_at=moment(now_ms),
            truncated=outcome.response.stop_reason is StopReason.MAX_OUTPUT_TOKENS,
        )
        for ordinal, use in enumerate(tool_uses(outcome.response.blocks))
    ]


def _count_round(state: AgentState, usage: TokenUsage) -> AgentState:
    return msgspec.structs.replace(
        state,
        total_input_tokens=state.total_input_tokens + usage.input_tokens,
        total_output_tokens=state.total_output_tokens + usage.output_tokens,
        total_model_rounds=state.total_model_rounds + 1,
        last_turn_token_usage=used_in(state, state.current_turn_id) + usage,
        usage_turn_id=state.current_turn_id,
    )


def _add_result(tx: Tx, turn: Turn, state: AgentState, result: CallResult) -> AgentState:
    state, result = _carry_out(tx, turn, state, result)
    call = msgspec.structs.replace(
        result.call,
        status=ToolCallStatus.COMPLETED,
        completed_at=moment(tx.now_ms),
        result=result.content,
        is_error=result.error is not None,
        error=to_plain(result.error) if result.error else None,
    )
    turns.save_call(tx, call)
    tx.emit(
        turn.agent_id,
        ToolExecuted(
            tool_call_id=call.call_id,
            tool_name=call.name,
            turn_index=turn.turn_index,
            run_id=turn.run_id,
            round=turn.round,
            status="error" if result.error else "success",
            duration_ms=round(result.duration_ms, 3),
            summary=result.summary,
            command_items=result.outcome.command_items if result.outcome else None,
            error=result.content if result.error else None,
            tool_error=to_plain(result.error) if result.error else None,
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    return msgspec.structs.replace(state, tool_latency=_with_latency(state.tool_latency, call.name, result.duration_ms))


def _carry_out(tx: Tx, turn: Turn, state: AgentState, result: CallResult) -> tuple[AgentState, CallResult]:
    """The durable consequences of a call. If they are refused nothing of them stays, and the model is told why."""
    outcome = result.outcome
    if outcome is None:
        return state, result
    changed = [state]

    def consequences(tx: Tx) -> None:
        if outcome.effect:
            outcome.effect(tx)
        if outcome.change:
            changed.append(outcome.change(tx, state))

    if (refusal := tx.attempt(consequences)) is not None:
        error = ToolError(
            kind=refusal.code, message=refusal.message, details=refusal.details or None, recovery_hint=refusal.hint
        )
        if isinstance(refusal, LimitMet):
            met = LimitReached(limit=refusal.limit, value=refusal.value, advice=refusal.hint or "")
            tx.emit(turn.agent_id, met, message_id=turn.message_id, turn_id=turn.id)
        told = receipt(result.call.name, error)
        return state, msgspec.structs.replace(result, content=told, summary=error.message, outcome=None, error=error)
    if outcome.sleep:
        changed.append(start_sleep(tx, changed[-1], turn, outcome.sleep))
    return changed[-1], result


def _with_latency(known: list[ToolLatency], name: str, duration_ms: float) -> list[ToolLatency]:
    before = next((entry for entry in known if entry.tool_name == name), ToolLatency(tool_name=name))
    after = ToolLatency(
        tool_name=name,
        total_calls=before.total_calls + 1,
        total_duration_ms=before.total_duration_ms + round(duration_ms),
    )
    return [entry for entry in known if entry.tool_name != name] + [after]


def _last_text(tx: Tx, turn: Turn) -> str:
    for entry in reversed(transcript.window(tx, turn.agent_id, limit=8)):
        if entry.turn_id == turn.id and entry.kind is TranscriptKind.ASSISTANT_ROUND:
            return text_of(msgspec.convert(entry.data["blocks"], list[ModelBlock]))
    return ""


def _pending(tx: Tx, agent_id: str) -> int:
    stored = agents.get(tx, agent_id)
    return stored.counters.pending if stored else 0


def _terminal(turn: Turn) -> Turn:
    return msgspec.structs.replace(turn, phase=TurnPhase.TERMINAL)
