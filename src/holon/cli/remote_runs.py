"""Remote runs: `holon run` through a Holon that already has the home. The daemon does the work; this follows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holon.cli.client import Client, agent_path
from holon.cli.streams import follow
from holon.core.agents import AgentStatus, AgentSummary
from holon.core.closures import ClosureOutcome
from holon.core.codec import from_plain
from holon.core.errors import AgentExists, OperatorError, UnknownAgent
from holon.core.events import EventEnvelope
from holon.core.ids import new_id
from holon.core.turns import TerminalKind
from holon.core.usage import TokenUsage
from holon.runtime.run_once import FinalStatus, RunRequest, RunResult

OnEvent = Callable[[EventEnvelope], None]


def run_through(client: Client, request: RunRequest, on_event: OnEvent) -> RunResult:
    """Prompts the agent and waits until it has settled the message and rests, as a run in process does."""
    _refuse_what_needs_the_home(request)
    agent_id = str(request.agent_id)
    before = _agent(client, agent_id, create=request.create_agent)
    refuse_held(before)
    admitted = client.post(
        agent_path(agent_id, "prompt", control=True), {"text": request.text}, idempotency_key=new_id("cli")
    )
    watch = _Watch(str(admitted["message_id"]))
    for envelope in follow(client, agent_id, before.newest_event_seq):
        watch.note(envelope)
        on_event(envelope)
        if watch.message_done:
            after = _summary(client, agent_id)
            if _at_rest(after, seen=envelope.event_seq):
                return _result(before, after, watch)
    raise AssertionError("a followed log does not end")


def refuse_held(agent: AgentSummary) -> None:
    """A run waits for its result: one that waits for the operator too would never end."""
    if agent.lifecycle.operator_hint:
        raise OperatorError(agent.lifecycle.operator_hint)


@dataclass(slots=True)
class _Watch:
    """What only the events tell."""

    message_id: str
    message_done: bool = False
    tool_calls: int = 0
    timeline: dict[str, Any] | None = None

    def note(self, event: EventEnvelope) -> None:
        match event.type:
            case "turn_terminal" | "message_dropped" | "message_quarantined" | "operator_interjection_admitted":
                self.message_done |= event.provenance.message_id == self.message_id
            case "tool_executed":
                self.tool_calls += 1
            case "provider_round_completed" | "runtime_error":
                self.timeline = event.payload.get("provider_attempt_timeline") or self.timeline


def _at_rest(agent: AgentSummary, *, seen: int) -> bool:
    """Nothing runs, nothing waits that may run, and all that was written about it has been seen."""
    waiting = agent.agent.pending > 0 and not agent.lifecycle.resume_required
    busy = agent.agent.current_run_id is not None or agent.agent.status is AgentStatus.AWAKE_IDLE
    return not waiting and not busy and seen >= agent.newest_event_seq


def _result(before: AgentSummary, after: AgentSummary, watch: _Watch) -> RunResult:
    terminal, failure = after.agent.last_turn_terminal, after.agent.last_runtime_failure
    failed = terminal is not None and terminal.kind is TerminalKind.ABORTED
    waiting = not failed and after.closure.outcome is ClosureOutcome.WAITING
    text = (terminal.last_assistant_message if terminal else None) or ""
    usage = TokenUsage.of(
        after.agent.total_input_tokens - before.agent.total_input_tokens,
        after.agent.total_output_tokens - before.agent.total_output_tokens,
    )
    return RunResult(
        agent_id=after.identity.agent_id,
        final_status=FinalStatus.FAILED if failed else FinalStatus.WAITING if waiting else FinalStatus.COMPLETED,
        final_text=text,
        raw_final_text=text,
        waiting_reason=after.closure.waiting_reason if waiting else None,
        sleep_reason=after.agent.sleep.reason if after.agent.sleep else None,
        failure_artifact=failure.failure_artifact if failed and failure else None,
        provider_attempt_timeline=watch.timeline,
        message_count=after.agent.total_message_count - before.agent.total_message_count,
        token_usage=usage,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        model_rounds=after.agent.total_model_rounds - before.agent.total_model_rounds,
        tool_calls=watch.tool_calls,
    )


def _agent(client: Client, agent_id: str, *, create: bool) -> AgentSummary:
    try:
        return _summary(client, agent_id)
    except UnknownAgent as error:
        if not create:
            raise UnknownAgent(
                error.message, hint=f"add --create-agent, or run 'holon agent create {agent_id}'"
            ) from error
    with suppress(AgentExists):  # somebody may be faster
        client.post(agent_path(agent_id, "create", control=True), idempotency_key=new_id("cli"))
    return _summary(client, agent_id)


def _summary(client: Client, agent_id: str) -> AgentSummary:
    return from_plain(client.get(agent_path(agent_id, "status")), AgentSummary)


def _refuse_what_needs_the_home(request: RunRequest) -> None:
    options = {"--model": request.model, "--max-turns": request.max_turns}
    given = [option for option, value in options.items() if value is not None]
    if request.agent_id is None:
        given.insert(0, "a run without --agent")
    if given:
        raise OperatorError(
            f"a Holon has this home, and {' and '.join(given)} cannot go through it yet",
            hint="name an agent only (--agent main), end it first with 'holon shutdown', or use another --home",
        )
