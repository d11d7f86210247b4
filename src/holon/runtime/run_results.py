"""Run results: how a run ended, told from its agent's events while it went on and from where the agent stands now."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from holon.core.agents import AgentState, AgentSummary
from holon.core.closures import ClosureOutcome
from holon.core.codec import Record, loads, to_plain
from holon.core.events import EventEnvelope
from holon.core.failures import FailureArtifact
from holon.core.tasks import TaskKind, TaskListEntry
from holon.core.turns import TerminalKind
from holon.core.usage import TokenUsage
from holon.runtime.supervising import shown, worktree_of
from holon.store import Tx, tasks, turns
from holon.tasks.snapshots import list_entry


class FinalStatus(StrEnum):
    COMPLETED = "completed"
    WAITING = "waiting"
    FAILED = "failed"
    MAX_TURNS_EXCEEDED = "max_turns_exceeded"


class RunTask(Record, frozen=True, kw_only=True):
    """A task that the run began, as it stood at the run's end."""

    task: TaskListEntry
    #: The worktree that it owns: where it is, what changed in it, and what became of it.
    worktree: dict[str, Any] | None = None


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
    #: Commands that the tool calls ran: a batch is one call.
    command_items: int
    waiting_reason: str | None = None
    sleep_reason: str | None = None
    failure_artifact: FailureArtifact | None = None
    provider_attempt_timeline: dict[str, Any] | None = None
    #: The tasks that it began; those that are not over go on without it.
    tasks: list[RunTask] = msgspec.field(default_factory=list)
    #: What it patched in the agent's workspace. What children changed in worktrees stands with their tasks.
    changed_files: list[str] = msgspec.field(default_factory=list)


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
    command_items: int = 0
    timeline: dict[str, Any] | None = None
    seen: int = 0
    #: The run's own turn has begun; its message was settled; a limit was announced that holds the agent back.
    begun: bool = False
    settled: bool = False
    held: bool = False
    gave_up: bool = False
    #: The tasks that were begun, and the turns in which files were patched.
    task_ids: dict[str, None] = field(default_factory=dict)
    patching_turns: set[str] = field(default_factory=set)

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
                self.command_items += event.payload.get("command_items") or 0
                if event.payload.get("tool_name") == "ApplyPatch" and event.turn_id:
                    self.patching_turns.add(event.turn_id)
            case "task_created" if event.payload.get("task_kind") != TaskKind.SLEEP_JOB:
                self.task_ids[str(event.payload["task_id"])] = None
            case "provider_round_completed" | "runtime_error":
                self.timeline = event.payload.get("provider_attempt_timeline") or self.timeline


def is_held(state: AgentState) -> bool:
    """Whether a limit keeps the agent back for longer than the pauses between turns of its own."""
    return state.held_by not in (None, "self_turns_free")


def work_of(tx: Tx, watch: RunWatch) -> tuple[list[RunTask], list[str]]:
    """The tasks that a run began, and the files that it patched."""
    found = [task for task_id in watch.task_ids if (task := tasks.get(tx, task_id)) is not None]
    begun = [
        RunTask(task=list_entry(task), worktree=shown(worktree) if (worktree := worktree_of(task)) else None)
        for task in found
    ]
    patched: set[str] = set()
    for turn_id in watch.patching_turns:
        for call in turns.calls(tx, turn_id):
            if call.name == "ApplyPatch" and call.result and not call.is_error:
                patched.update(loads(call.result, dict).get("changed_paths", []))
    return begun, sorted(patched)


def result_of(
    ticket: RunTicket, after: AgentSummary, watch: RunWatch, work: tuple[list[RunTask], list[str]]
) -> RunResult:
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
        tasks=work[0],
        changed_files=work[1],
        command_items=watch.command_items,
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
