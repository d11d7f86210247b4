"""Events: the audit log's typed registry. A kind is a class with a level, a category and a payload.

What is emitted is a payload; the store gives it its id, its place in the agent's log (`event_seq`) and its time. The
kinds themselves are in `event_kinds`; what people read is derived in `presentation`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from holon.core.codec import Record, from_plain


class EventLevel(StrEnum):
    """How close to the surface an event is: what `info`, `verbose` and `debug` views start from."""

    INFO = "info"
    VERBOSE = "verbose"
    DEBUG = "debug"


class EventCategory(StrEnum):
    OPERATOR_NOTIFICATION = "operator_notification"
    BRIEF = "brief"
    MESSAGE = "message"
    WORK_ITEM = "work_item"
    TASK = "task"
    WAITING = "waiting"
    WORKSPACE = "workspace"
    RUNTIME = "runtime"
    ASSISTANT_PROGRESS = "assistant_progress"
    TOOL = "tool"
    STATE_SYNC = "state_sync"
    TRACE = "trace"


#: Events that belong to no agent are kept in the log of this name.
RUNTIME_SCOPE = "_runtime"


class EventPayload(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The base of every kind. `@event_kind(…)` gives a subclass its name, level and category."""

    kind: ClassVar[str]
    level: ClassVar[EventLevel]
    category: ClassVar[EventCategory]


REGISTRY: dict[str, type[EventPayload]] = {}


def event_kind(kind: str, level: EventLevel, category: EventCategory) -> Any:
    """Registers a payload type under its kind; a second one of the same kind is a mistake of the programmer."""

    def register(payload: type[EventPayload]) -> type[EventPayload]:
        if kind in REGISTRY:
            raise AssertionError(f"event kind {kind!r} is registered twice")
        payload.kind, payload.level, payload.category = kind, level, category
        REGISTRY[kind] = payload
        return payload

    return register


class Event(Record, frozen=True, kw_only=True):
    """One line of an agent's log, as it is stored and replayed."""

    id: str
    agent_id: str
    event_seq: int
    created_at: datetime
    kind: str
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    message_id: str | None = None
    turn_id: str | None = None

    def typed(self) -> EventPayload | None:
        """The payload as its type; `None` for a kind that a newer version wrote."""
        payload = REGISTRY.get(self.kind)
        return from_plain(self.payload, payload) if payload else None


class EventProvenance(Record, frozen=True, kw_only=True):
    """Where the event's cause came from, apart from the payload, so that clients need not parse text."""

    origin: dict[str, Any] | None = None
    trust: str | None = None
    authority_class: str | None = None
    delivery_surface: str | None = None
    admission_context: str | None = None
    transport: str | None = None
    source: str | None = None
    reply_route: str | None = None
    message_id: str | None = None
    task_id: str | None = None
    work_item_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None


class EventEnvelope(Record, frozen=True, kw_only=True):
    """An event as surfaces replay it. Replay is history: it queues nothing and instructs nobody."""

    id: str
    event_seq: int
    ts: datetime
    agent_id: str
    type: str
    provenance: EventProvenance
    payload: dict[str, Any]
    turn_id: str | None = None
