"""Run results: how a run ended, told from its agent's events while it went on and from where the agent stands now."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holon.core.agents import AgentState, AgentSummary
from holon.core.closures import ClosureOutcome
from holon.core.codec import Record, to_plain
from holon.core.events import EventEnvelope
from holon.core.failures import FailureArtifact
from holon.core.turns import TerminalKind
from holon.core.usage import TokenUsage


class FinalStatus(StrEnum):
    COMPLETED = "completed"
    WAITING = "waiting"
    FAILED = "failed"
    MAX_TURNS_EXCEEDED = "max_turns_exceeded"


class RunResult(Record, frozen=True, kw_only=True):
    """How a run ended. Numbers are always there, also where they are 0; `failure_artifact` only if it failed."""

    agent_id: str
    final_status: FinalStatus
    final_text: str
    raw_final_text: str
    token_usage: TokenUsage
    input_tokens: int
    output_tokens: int
    model_rounds: int
    tool_calls: int
    message_count: int
    waiting_reason: str | None = None
    sleep_reason: str | None = None
    failure_artifact: FailureArtifact | None = None
    provider_attempt_timeline: dict[str, Any] | None = None


class RunTicket(Record, frozen=True, kw_only=True):
    """A run that has begun: its message, and where the agent stood before it."""

    agent_id: str
    message_id: str
    after_seq: int
    message_count: int
    input_tokens: int
    output_tokens: int
    model_rounds: int
    #: Whether the agent was made for this run.
    temporary: bool


@dataclass(slots=True)
class RunWatch:
    """What is read from the agent's events while the run goes on."""

    message_id: str
    turns_started: int = 0
    tool_calls: int = 0
    timeline: dict[str, Any] | None = None
    seen: int = 0
    #: The run's own turn has begun; its message was settled; a limit was announced that holds the agent back.
    begun: bool = False
    settled: bool = False
    held: bool = False
    gave_up: bool = False

    @property
    def may_be_over(self) -> bool:
        return self.settled or self.held or not self.begun

    def note(self, event: EventEnvelope) -> None:
        self.seen = event.event_seq
        own = event.provenance.message_id == self.message_id
        match event.type:
            case "turn_context_built" if event.payload.get("round") == 1:
                self.turns_started += 1
                self.begun, self.held = self.begun or own, False
            case "turn_terminal" | "message_dropped" | "message_quarantined" | "operator_interjection_admitted":
                self.settled = self.settled or own
            case "limit_reached":
                self.held = True
            case "tool_executed":
                self.tool_calls += 1
            case "provider_round_completed" | "runtime_error":
                self.timeline = event.payload.get("provider_attempt_timeline") or self.timeline


def is_held(state: AgentState) -> bool:
    """Whether a limit keeps the agent back for longer than the pauses between turns of its own."""
    return state.held_by not in (None, "self_turns_free")


def result_of(ticket: RunTicket, after: AgentSummary, watch: RunWatch) -> RunResult:
    state, status = after.agent, _status(after, watch)
    terminal = state.last_turn_terminal if watch.settled else None
    usage = TokenUsage.of(
        state.total_input_tokens - ticket.input_tokens, state.total_output_tokens - ticket.output_tokens
    )
    failure = state.last_runtime_failure
    if failure and terminal and failure.occurred_at != terminal.completed_at:
        failure = None  # an earlier turn's
    text = (terminal.last_assistant_message if terminal else None) or ""
    return RunResult(
        agent_id=ticket.agent_id,
        final_status=status,
        final_text=text,
        raw_final_text=text,
        waiting_reason=after.closure.waiting_reason if status is FinalStatus.WAITING else None,
        sleep_reason=_sleep_reason(after, watch),
        failure_artifact=failure.failure_artifact if failure and status is FinalStatus.FAILED else None,
        provider_attempt_timeline=to_plain(watch.timeline),
        message_count=state.total_message_count - ticket.message_count,
        token_usage=usage,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        model_rounds=state.total_model_rounds - ticket.model_rounds,
        tool_calls=watch.tool_calls,
    )


def _status(after: AgentSummary, watch: RunWatch) -> FinalStatus:
    terminal, pending = after.agent.last_turn_terminal, after.agent.pending > 0
    if watch.gave_up or (pending and after.agent.held_by in ("max_turns", "self_turns", "turns_per_hour")):
        return FinalStatus.MAX_TURNS_EXCEEDED
    if not watch.settled:
        return FinalStatus.WAITING
    if terminal is not None and terminal.kind is TerminalKind.ABORTED:
        return FinalStatus.FAILED
    if after.closure.outcome is ClosureOutcome.WAITING or (pending and is_held(after.agent)):
        return FinalStatus.WAITING
    return FinalStatus.COMPLETED


def _sleep_reason(after: AgentSummary, watch: RunWatch) -> str | None:
    state = after.agent
    if watch.gave_up:
        return "other messages took all the turns before the run's own came; it was taken back"
    if state.pending and state.held_by == "max_turns":
        return f"its turns are used up; what it queued for itself ({state.pending}) waits for news from outside"
    if state.pending and is_held(state):
        return f"held by limits.{state.held_by}"
    if not watch.settled and after.lifecycle.operator_hint:
        return after.lifecycle.operator_hint
    return state.sleep.reason if state.sleep else None
