"""Views: what surfaces read. Each is one read transaction, so that what it shows fits together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from holon.core.agents import (
    AgentListEntry,
    AgentSummary,
    ChildSummary,
    PostureView,
    RegistryStatus,
    Visibility,
)
from holon.core.briefs import Brief
from holon.core.closures import ClosureDecision
from holon.core.codec import Input, Record, to_plain
from holon.core.errors import InvalidInput, NotFound
from holon.core.events import EventEnvelope
from holon.core.messages import MessageEnvelope, QueueEntry
from holon.core.policy import ExecutionSnapshot
from holon.core.tasks import TaskRecord
from holon.core.timers import Timer
from holon.core.transcripts import TranscriptEntry
from holon.core.triggers import TriggerSummary
from holon.core.turns import Turn, TurnTerminal
from holon.core.usage import AgentTokenUsage, TokenUsage
from holon.runtime.admission import require_agent
from holon.runtime.following import check_cursor
from holon.runtime.guiding import Guiding
from holon.runtime.housing import Housing
from holon.runtime.latency import TurnLatency, latencies
from holon.runtime.modelling import model_state
from holon.runtime.outages import Outages
from holon.runtime.posture import PostureFacts, lifecycle_hint, scheduling_posture
from holon.runtime.settings import Settings
from holon.runtime.standing import read_closure
from holon.runtime.supervising import observe
from holon.runtime.triggers import summary_of
from holon.store import Store, Tx, agents, briefs, events, queue, tasks, timers, transcript, triggers, turns
from holon.store.agents import StoredAgent

MAX_PAGE = 512

T = TypeVar("T")


class EventQuery(Input, frozen=True, kw_only=True):
    after_seq: int | None = None
    before_seq: int | None = None
    limit: int = 128
    order: Literal["asc", "desc"] = "asc"


class EventPage(Record, frozen=True, kw_only=True, omit_defaults=False):
    events: list[EventEnvelope]
    oldest_seq: int
    newest_seq: int
    has_older: bool
    has_newer: bool
    order: str
    limit: int


class SessionView(Record, frozen=True, kw_only=True, omit_defaults=False):
    current_run_id: str | None
    pending_count: int
    last_turn: TurnTerminal | None


class AgentStateSnapshot(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Everything that a client needs to show an agent, before it follows the log from `newest_event_seq`."""

    agent: AgentSummary
    session: SessionView
    tasks: list[TaskRecord]
    timers: list[Timer]
    external_triggers: list[TriggerSummary]
    briefs: list[Brief]
    transcript: list[TranscriptEntry]
    queue: list[QueueEntry]
    execution: ExecutionSnapshot
    newest_event_seq: int
    oldest_event_seq: int


class MessageStatus(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A message, where it stands in the queue, and the turn that it led to."""

    envelope: MessageEnvelope
    queue: QueueEntry | None
    turn: Turn | None


class Views:
    def __init__(self, store: Store, settings: Settings, guiding: Guiding, housing: Housing, outages: Outages) -> None:
        self._store, self._settings, self._guiding, self._housing = store, settings, guiding, housing
        self._outages = outages

    async def agents(self) -> list[AgentListEntry]:
        """Public agents, a line each."""
        return await self._store.read(
            lambda tx: [self._entry(tx, stored) for stored in agents.listing(tx, visibility=Visibility.PUBLIC)]
        )

    async def summary(self, agent_id: str | None = None, *, private: bool = False) -> AgentSummary:
        return await self._look(agent_id, self._summary, private=private)

    async def snapshot(self, agent_id: str | None = None) -> AgentStateSnapshot:
        return await self._look(agent_id, self._snapshot)

    async def briefs(self, agent_id: str | None = None, limit: int = 20, *, private: bool = False) -> list[Brief]:
        _check_limit(limit)
        return await self._look(agent_id, lambda tx, a: briefs.recent(tx, a.identity.agent_id, limit), private=private)

    async def transcript(
        self, agent_id: str | None = None, limit: int = 50, before_seq: int | None = None, *, private: bool = False
    ) -> list[TranscriptEntry]:
        _check_limit(limit)
        return await self._look(
            agent_id,
            lambda tx, a: shown_transcript(tx, a.identity.agent_id, before_seq=before_seq, limit=limit),
            private=private,
        )

    async def tasks(self, agent_id: str | None = None, limit: int = 50) -> list[TaskRecord]:
        _check_limit(limit)
        return await self._look(agent_id, lambda tx, a: tasks.of_agent(tx, a.identity.agent_id, limit))

    async def latency(self, agent_id: str | None = None, limit: int = 10) -> list[TurnLatency]:
        _check_limit(limit)
        return await self._look(agent_id, lambda tx, a: latencies(tx, a.identity.agent_id, limit))

    async def message(self, agent_id: str | None, message_id: str, *, private: bool = False) -> MessageStatus:
        def look(tx: Tx, stored: StoredAgent) -> MessageStatus:
            envelope = queue.message(tx, message_id)
            if envelope is None or envelope.agent_id != stored.identity.agent_id:
                raise NotFound(
                    f"agent {stored.identity.agent_id!r} has no message {message_id!r}", hint="see 'holon transcript'"
                )
            return MessageStatus(
                envelope=envelope, queue=queue.entry(tx, message_id), turn=turns.by_message(tx, message_id)
            )

        return await self._look(agent_id, look, private=private)

    async def events(self, agent_id: str | None, query: EventQuery, *, private: bool = False) -> EventPage:
        """A page of the log. Reading it changes and queues nothing."""
        if not 1 <= query.limit <= MAX_PAGE:
            raise InvalidInput(f"limit must be between 1 and {MAX_PAGE}", field="limit")
        return await self._look(agent_id, lambda tx, a: _page(tx, a.identity.agent_id, query, private), private=private)

    async def _look(self, agent_id: str | None, look: Callable[[Tx, StoredAgent], T], *, private: bool = False) -> T:
        target = agent_id or self._settings.default_agent_id
        return await self._store.read(lambda tx: look(tx, require_agent(tx, target, private=private)))

    def _summary(self, tx: Tx, stored: StoredAgent) -> AgentSummary:
        identity, state = stored.identity, stored.state
        closure = read_closure(tx, state)
        trigger = triggers.active(tx, identity.agent_id)
        anchor = Path(state.active_workspace.workspace_anchor) if state.active_workspace else None
        return AgentSummary(
            identity=identity,
            agent=state,
            mode="awake" if state.status.awake else "asleep",
            scheduling_posture=self._posture(stored, closure),
            lifecycle=lifecycle_hint(identity.agent_id, state.status),
            closure=closure,
            model=model_state(state, self._settings),
            token_usage=AgentTokenUsage(
                total=TokenUsage.of(state.total_input_tokens, state.total_output_tokens),
                total_model_rounds=state.total_model_rounds,
                last_turn=state.last_turn_token_usage,
            ),
            execution=self._housing.snapshot(identity, state),
            active_task_count=len(state.active_task_ids),
            active_timer_count=len(timers.of_agent(tx, identity.agent_id, active_only=True, limit=1_000)),
            active_external_triggers=[summary_of(trigger)] if trigger else [],
            newest_event_seq=stored.counters.event_seq,
            loaded_agents_md=self._guiding.sources(identity.agent_id, anchor),
            active_children=_children(tx, identity.agent_id),
        )

    def _entry(self, tx: Tx, stored: StoredAgent) -> AgentListEntry:
        closure = read_closure(tx, stored.state)
        return AgentListEntry(
            identity=stored.identity,
            status=stored.state.status,
            scheduling_posture=self._posture(stored, closure),
            lifecycle=lifecycle_hint(stored.identity.agent_id, stored.state.status),
            pending=stored.state.pending,
            current_run_id=stored.state.current_run_id,
            waiting_reason=closure.waiting_reason,
            model=model_state(stored.state, self._settings),
            active_workspace_id=stored.state.active_workspace_id,
        )

    def _posture(self, stored: StoredAgent, closure: ClosureDecision) -> PostureView:
        posture = scheduling_posture(
            PostureFacts(
                registry=stored.identity.status,
                status=stored.state.status,
                closure=closure,
                queued=stored.counters.pending,
                run_id=stored.state.current_run_id,
            )
        )
        if (problem := self._outages.problem) is None:
            return posture
        return msgspec.structs.replace(posture, reason=f"{posture.reason}; {problem}")

    def _snapshot(self, tx: Tx, stored: StoredAgent) -> AgentStateSnapshot:
        agent_id, summary = stored.identity.agent_id, self._summary(tx, stored)
        return AgentStateSnapshot(
            agent=summary,
            session=SessionView(
                current_run_id=stored.state.current_run_id,
                pending_count=stored.counters.pending,
                last_turn=stored.state.last_turn_terminal,
            ),
            tasks=tasks.of_agent(tx, agent_id, 40),
            timers=timers.of_agent(tx, agent_id, limit=50),
            external_triggers=summary.active_external_triggers,
            briefs=briefs.recent(tx, agent_id, 20),
            transcript=shown_transcript(tx, agent_id, limit=50),
            queue=[waits.entry for waits in queue.waiting(tx, agent_id, limit=50)],
            execution=summary.execution,
            newest_event_seq=stored.counters.event_seq,
            oldest_event_seq=stored.counters.oldest_event_seq,
        )


def shown_transcript(tx: Tx, agent_id: str, *, before_seq: int | None = None, limit: int = 50) -> list[TranscriptEntry]:
    """Transcript entries with the messages that they refer to, labels included: they are stored once, shown here."""
    entries = transcript.window(tx, agent_id, before_seq=before_seq, limit=limit)
    messages = queue.messages(tx, sorted({entry.related_message_id for entry in entries if entry.related_message_id}))
    return [_with_message(entry, messages) for entry in entries]


def _with_message(entry: TranscriptEntry, messages: dict[str, MessageEnvelope]) -> TranscriptEntry:
    envelope = messages.get(entry.related_message_id or "")
    if entry.kind != "incoming_message" or envelope is None:
        return entry
    return msgspec.structs.replace(entry, data={**entry.data, "message": msgspec.to_builtins(envelope)})


def _page(tx: Tx, agent_id: str, query: EventQuery, private: bool) -> EventPage:
    bounds = events.bounds(tx, agent_id)
    if query.after_seq is not None:
        check_cursor(tx, agent_id, query.after_seq, include_private=private)
    if query.order == "asc":
        found = events.after(tx, agent_id, query.after_seq or 0, query.limit)
        if query.before_seq is not None:
            found = [event for event in found if event.event_seq < query.before_seq]
    else:
        found = events.before(tx, agent_id, query.before_seq, query.limit)
        found = [event for event in found if event.event_seq > (query.after_seq or 0)]
    numbers = [event.event_seq for event in found]
    return EventPage(
        events=events.envelopes(tx, found),
        oldest_seq=bounds.oldest,
        newest_seq=bounds.newest,
        has_older=bool(numbers) and min(numbers) > bounds.oldest,
        has_newer=bool(numbers) and max(numbers) < bounds.newest,
        order=query.order,
        limit=query.limit,
    )


def _children(tx: Tx, agent_id: str) -> list[ChildSummary]:
    """Private children that are not over: only their parent's summary shows them."""
    return [
        ChildSummary(
            identity=child.identity,
            status=child.state.status,
            pending=child.state.pending,
            active_task_count=len(child.state.active_task_ids),
            observability=to_plain(observe(tx, child.identity.agent_id)),
            current_run_id=child.state.current_run_id,
        )
        for child in agents.children(tx, agent_id)
        if child.identity.status is RegistryStatus.ACTIVE
    ]


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit must be between 1 and {MAX_PAGE}", field="limit")
