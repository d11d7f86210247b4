"""Remote runs: `holon run` through a Holon that already has the home. The daemon does the work; this follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holon.cli.client import Client, agent_path
from holon.cli.outcome import await_outcome
from holon.core.agents import AgentSummary
from holon.core.codec import from_plain
from holon.core.errors import AgentExists, OperatorError, UnknownAgent
from holon.core.events import EventEnvelope
from holon.core.failures import FailureArtifact
from holon.core.ids import new_id
from holon.core.usage import TokenUsage
from holon.runtime.run_once import FinalStatus, RunRequest, RunResult


def run_through(client: Client, request: RunRequest, on_event: Callable[[EventEnvelope], None]) -> RunResult:
    _refuse_what_needs_the_home(request)
    agent_id = str(request.agent_id)
    before = _agent(client, agent_id, create=request.create_agent)
    if before.lifecycle.operator_hint:
        raise OperatorError(before.lifecycle.operator_hint)
    tally = _Tally(on_event)
    admitted = client.post(
        agent_path(agent_id, "prompt", control=True), {"text": request.text}, idempotency_key=new_id("cli")
    )
    outcome = await_outcome(
        client, agent_id, admitted["message_id"], after_seq=before.newest_event_seq, on_event=tally.note
    )
    after = from_plain(client.get(agent_path(agent_id, "status")), AgentSummary)
    failed = outcome.final_status == "failed"
    waiting = not failed and after.closure.outcome == "waiting"
    text = "" if failed else outcome.text
    return RunResult(
        agent_id=agent_id,
        final_status=FinalStatus.FAILED if failed else FinalStatus.WAITING if waiting else FinalStatus.COMPLETED,
        final_text=text,
        raw_final_text=text,
        waiting_reason=after.closure.waiting_reason if waiting else None,
        sleep_reason=after.agent.sleep.reason if after.agent.sleep else None,
        failure_artifact=tally.failure if failed else None,
        provider_attempt_timeline=tally.timeline,
        message_count=1,
        token_usage=tally.usage,
        input_tokens=tally.usage.input_tokens,
        output_tokens=tally.usage.output_tokens,
        model_rounds=tally.rounds,
        tool_calls=tally.tool_calls,
    )


@dataclass(slots=True)
class _Tally:
    """What a run used and met with, counted from its events."""

    on_event: Callable[[EventEnvelope], None]
    usage: TokenUsage = field(default_factory=TokenUsage)
    rounds: int = 0
    tool_calls: int = 0
    timeline: dict[str, Any] | None = None
    failure: FailureArtifact | None = None

    def note(self, event: EventEnvelope) -> None:
        match event.type:
            case "provider_round_completed":
                self.rounds += 1
                self.usage += from_plain(event.payload["token_usage"], TokenUsage)
                self.timeline = event.payload.get("provider_attempt_timeline") or self.timeline
            case "tool_executed":
                self.tool_calls += 1
            case "runtime_error":
                self.failure = from_plain(event.payload["failure_artifact"], FailureArtifact)
                self.timeline = event.payload.get("provider_attempt_timeline") or self.timeline
        self.on_event(event)


def _agent(client: Client, agent_id: str, *, create: bool) -> AgentSummary:
    try:
        return from_plain(client.get(agent_path(agent_id, "status")), AgentSummary)
    except UnknownAgent as error:
        if not create:
            raise UnknownAgent(
                error.message, hint=f"add --create-agent, or run 'holon agent create {agent_id}'"
            ) from error
    try:
        client.post(agent_path(agent_id, "create", control=True), idempotency_key=new_id("cli"))
    except AgentExists:
        pass  # somebody was faster
    return from_plain(client.get(agent_path(agent_id, "status")), AgentSummary)


def _refuse_what_needs_the_home(request: RunRequest) -> None:
    options = {"--model": request.model, "--max-turns": request.max_turns}
    given = [option for option, value in options.items() if value is not None]
    if request.agent_id is None:
        given.insert(0, "a run without --agent")
    if given:
        raise OperatorError(
            f"a Holon is running on this home, and {' and '.join(given)} works only without one",
            hint="name an agent (--agent main), end it with 'holon shutdown', or use another --home",
        )
