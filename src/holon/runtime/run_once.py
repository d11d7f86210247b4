"""Run once: one prompt, followed until the agent rests. `holon run` without a daemon is this, in process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from holon.core.agents import AgentIdentity, AgentState, AgentSummary
from holon.core.closures import ClosureOutcome
from holon.core.codec import Record, to_plain
from holon.core.errors import Conflict, InvalidInput, UnknownAgent
from holon.core.events import EventEnvelope
from holon.core.failures import FailureArtifact
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    OperatorOrigin,
    TextBody,
)
from holon.core.turns import TerminalKind
from holon.core.usage import TokenUsage
from holon.runtime.admission import Admission
from holon.runtime.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    text: str
    agent_id: str | None = None
    create_agent: bool = False
    max_turns: int | None = None
    model: str | None = None


class FinalStatus(StrEnum):
    COMPLETED = "completed"
    WAITING = "waiting"
    FAILED = "failed"
    MAX_TURNS_EXCEEDED = "max_turns_exceeded"


class RunResult(Record, frozen=True, kw_only=True):
    agent_id: str
    final_status: FinalStatus
    final_text: str
    token_usage: TokenUsage
    input_tokens: int = msgspec.field(default=0)
    output_tokens: int = msgspec.field(default=0)
    model_rounds: int = msgspec.field(default=0)
    tool_calls: int = msgspec.field(default=0)
    message_count: int = msgspec.field(default=0)
    raw_final_text: str | None = None
    waiting_reason: str | None = None
    sleep_reason: str | None = None
    failure_artifact: FailureArtifact | None = None
    provider_attempt_timeline: dict[str, Any] | None = None


#: What is said of a message when it is done with.
_ENDINGS = ("turn_terminal", "message_dropped", "operator_interjection_admitted")


@dataclass(slots=True)
class _Watch:
    """What is read from the agent's events while the run goes on."""

    turns_started: int = 0
    tool_calls: int = 0
    timeline: dict[str, Any] | None = None
    stopped_for_turns: bool = False
    seen: int = 0
    #: The message was settled, or a limit keeps the agent from it: once the agent rests the run is over.
    may_be_over: bool = False
    on_event: Callable[[EventEnvelope], None] | None = field(default=None)

    def note(self, event: EventEnvelope, message_id: str) -> None:
        self.seen = event.event_seq
        if event.type == "turn_context_built" and event.payload.get("round") == 1:
            self.turns_started += 1
        elif event.type == "tool_executed":
            self.tool_calls += 1
        elif event.type in ("provider_round_completed", "runtime_error"):
            self.timeline = event.payload.get("provider_attempt_timeline") or self.timeline
        elif event.type == "limit_reached" or (event.type in _ENDINGS and event.provenance.message_id == message_id):
            self.may_be_over = True
        if self.on_event is not None:
            self.on_event(event)


async def run_once(
    host: Host, request: RunRequest, on_event: Callable[[EventEnvelope], None] | None = None
) -> RunResult:
    """Admits the prompt and waits until the agent has settled it and rests."""
    identity = await _agent_for(host, request)
    agent_id = identity.agent_id
    before = await host.views.summary(agent_id, private=True)
    admitted = await host.inbox.admit(
        Admission(
            agent_id=agent_id,
            kind=MessageKind.OPERATOR_PROMPT,
            origin=OperatorOrigin(),
            body=TextBody(text=request.text),
            surface=DeliverySurface.RUN_ONCE,
            context=AdmissionContext.LOCAL_PROCESS,
            metadata={"model": request.model} if request.model else None,
            private=True,
        )
    )
    watch = _Watch(on_event=on_event)
    followed = host.events.follow(agent_id, before.newest_event_seq, include_private=True)
    async with contextlib.aclosing(followed) as stream:  # type: ignore[type-var]
        async for event in stream:
            watch.note(event, admitted.message_id)
            too_many = request.max_turns is not None and watch.turns_started > request.max_turns
            if too_many and not watch.stopped_for_turns:
                watch.stopped_for_turns = watch.may_be_over = True
                await host.lifecycle.stop(agent_id, "run_once")
            if watch.may_be_over and await _at_rest(host, agent_id, watch):
                break
    return await _result(host, request, before, admitted.message_id, watch)


async def _agent_for(host: Host, request: RunRequest) -> AgentIdentity:
    if request.max_turns is not None and request.max_turns < 1:
        raise InvalidInput("max_turns must be at least 1", field="max_turns")
    if request.agent_id is None:
        return await host.agents.create_temporary(surface="run_once")
    try:
        summary = await host.views.summary(request.agent_id)
        if summary.lifecycle.resume_required:  # nobody could resume it while this run waits
            raise Conflict(
                f"agent {request.agent_id!r} is {summary.agent.status}",
                hint=f"run '{summary.lifecycle.resume_cli_hint}'",
            )
        return summary.identity
    except UnknownAgent as error:
        if not request.create_agent:
            raise UnknownAgent(
                error.message, hint=f"add --create-agent, or run 'holon agent create {request.agent_id}'"
            ) from error
        return await host.agents.create(request.agent_id, surface="run_once")


async def _at_rest(host: Host, agent_id: str, watch: _Watch) -> bool:
    """Nothing runs, nothing waits that could run, and all that was written about it has been seen."""
    summary = await host.views.summary(agent_id, private=True)
    waits = summary.agent.pending > 0 and not summary.lifecycle.resume_required and not _held(summary.agent)
    quiet = summary.agent.current_run_id is None and summary.agent.status != "awake_idle"
    return quiet and not waits and watch.seen >= summary.newest_event_seq


def _held(state: AgentState) -> bool:
    """Whether a limit keeps the agent back for longer than the pauses between turns of its own."""
    return state.held_by not in (None, "self_turns_free")


async def _result(host: Host, request: RunRequest, before: AgentSummary, message_id: str, watch: _Watch) -> RunResult:
    agent_id = before.identity.agent_id
    after = await host.views.summary(agent_id, private=True)
    message = await host.views.message(agent_id, message_id, private=True)
    terminal = after.agent.last_turn_terminal or (message.turn.terminal if message.turn else None)
    usage = TokenUsage.of(
        after.agent.total_input_tokens - before.agent.total_input_tokens,
        after.agent.total_output_tokens - before.agent.total_output_tokens,
    )
    status = _status(after, watch)
    failure = after.agent.last_runtime_failure
    if failure and terminal and failure.occurred_at != terminal.completed_at:
        failure = None  # an earlier turn's
    text = (terminal.last_assistant_message if terminal else None) or ""
    result = RunResult(
        agent_id=agent_id,
        final_status=status,
        final_text=text,
        raw_final_text=text,
        waiting_reason=after.closure.waiting_reason if status is FinalStatus.WAITING else None,
        sleep_reason=_sleep_reason(after.agent),
        failure_artifact=failure.failure_artifact if failure and status is FinalStatus.FAILED else None,
        provider_attempt_timeline=to_plain(watch.timeline),
        message_count=after.agent.total_message_count - before.agent.total_message_count,
        token_usage=usage,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        model_rounds=after.agent.total_model_rounds - before.agent.total_model_rounds,
        tool_calls=watch.tool_calls,
    )
    if request.agent_id is None and status is not FinalStatus.WAITING:
        await host.agents.archive(agent_id, "its run is over")
    return result


def _status(after: AgentSummary, watch: _Watch) -> FinalStatus:
    terminal, held_by = after.agent.last_turn_terminal, after.agent.held_by
    if watch.stopped_for_turns or held_by in ("self_turns", "turns_per_hour"):
        return FinalStatus.MAX_TURNS_EXCEEDED
    if terminal is not None and terminal.kind is TerminalKind.ABORTED:
        return FinalStatus.FAILED
    if after.closure.outcome is ClosureOutcome.WAITING or _held(after.agent):
        return FinalStatus.WAITING
    return FinalStatus.COMPLETED


def _sleep_reason(state: AgentState) -> str | None:
    if _held(state):
        return f"held by limits.{state.held_by}"
    return state.sleep.reason if state.sleep else None
