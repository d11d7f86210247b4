"""The event log in the store: paged by number, with the provenance of what caused each event."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holon.core.clock import moment
from holon.core.codec import to_plain
from holon.core.events import Event, EventEnvelope, EventProvenance
from holon.core.messages import AdmissionContext, MessageEnvelope
from holon.store import queue
from holon.store.transaction import END, Row, Tx

_COLUMNS = "SELECT id, agent_id, seq, created_at, kind, payload, message_id, turn_id FROM events"


class Bounds(NamedTuple):
    """What of a log is still there. `oldest` is one above what retention took."""

    oldest: int
    newest: int


def bounds(tx: Tx, agent_id: str) -> Bounds:
    row = tx.one("SELECT oldest_event_seq, event_seq FROM counters WHERE scope = ?", agent_id)
    return Bounds(*row) if row else Bounds(1, 0)


def after(tx: Tx, agent_id: str, after_seq: int, limit: int = 128) -> list[Event]:
    rows = tx.all(_COLUMNS + " WHERE agent_id = ? AND seq > ? ORDER BY seq LIMIT ?", agent_id, after_seq, limit)
    return [_read(row) for row in rows]


def before(tx: Tx, agent_id: str, before_seq: int | None, limit: int = 128) -> list[Event]:
    """The newest events below `before_seq`, newest first."""
    rows = tx.all(
        _COLUMNS + " WHERE agent_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        agent_id,
        END if before_seq is None else before_seq,
        limit,
    )
    return [_read(row) for row in rows]


def newest_of(tx: Tx, agent_id: str, kind: str, *, limit: int, within: int = 20_000) -> list[Event]:
    """The newest events of one kind, newest first, among the newest `within` of the log."""
    rows = tx.all(
        _COLUMNS + " WHERE agent_id = ? AND seq > ? AND kind = ? ORDER BY seq DESC LIMIT ?",
        agent_id,
        bounds(tx, agent_id).newest - within,
        kind,
        limit,
    )
    return [_read(row) for row in rows]


def envelopes(tx: Tx, events: list[Event]) -> list[EventEnvelope]:
    """Events as surfaces replay them. Provenance comes from the message itself, so it is stored once."""
    causes = queue.messages(tx, sorted({event.message_id for event in events if event.message_id}))
    return [
        EventEnvelope(
            id=event.id,
            event_seq=event.event_seq,
            ts=event.created_at,
            agent_id=event.agent_id,
            type=event.kind,
            provenance=_provenance(event, causes.get(event.message_id or "")),
            payload=event.payload,
            turn_id=event.turn_id,
        )
        for event in events
    ]


def _provenance(event: Event, cause: MessageEnvelope | None) -> EventProvenance:
    payload = event.payload
    if cause is None:
        return EventProvenance(
            message_id=event.message_id, task_id=payload.get("task_id"), work_item_id=payload.get("work_item_id")
        )
    origin: dict[str, Any] = to_plain(cause.origin)
    # What an unknown caller says of its own way in is a claim, not provenance.
    said = cause.metadata or {} if cause.admission_context is not AdmissionContext.PUBLIC_UNAUTHENTICATED else {}
    return EventProvenance(
        origin=origin,
        trust=cause.trust,
        authority_class=cause.authority_class,
        delivery_surface=cause.delivery_surface,
        admission_context=cause.admission_context,
        transport=_text(said.get("transport")),
        source=origin.get("source"),
        reply_route=_text(said.get("reply_route")),
        message_id=cause.id,
        task_id=cause.task_id or payload.get("task_id"),
        work_item_id=cause.work_item_id or payload.get("work_item_id"),
        correlation_id=cause.correlation_id,
        causation_id=cause.causation_id,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read(row: Row) -> Event:
    return Event(
        id=row[0],
        agent_id=row[1],
        event_seq=row[2],
        created_at=moment(row[3]),
        kind=row[4],
        payload=msgspec.json.decode(row[5]),
        message_id=row[6],
        turn_id=row[7],
    )
