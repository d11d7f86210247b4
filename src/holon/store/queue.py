"""The intake log and the queue: messages are written once; where they stand in the queue changes beside them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from holon.core.clock import moment
from holon.core.codec import InvalidJson, dumps
from holon.core.messages import MessageEnvelope, Priority, QueueEntry, QueueStatus
from holon.core.provenance import read_envelope
from holon.store.transaction import Row, Tx


class Claimed(NamedTuple):
    entry: QueueEntry
    envelope: MessageEnvelope


def append(tx: Tx, envelope: MessageEnvelope, *, source_key: str | None = None) -> int:
    """Writes the message and its queue entry; returns how many wait now.

    `source_key` names the one source of a tick (a timer, a hint), so that it can be coalesced or voided while it waits.
    """
    tx.insert_later(
        "INSERT INTO messages (id, agent_id, envelope) VALUES (?, ?, ?)",
        envelope.id,
        envelope.agent_id,
        dumps(envelope),
    )
    places = tx.join_queue(envelope.agent_id)
    tx.insert_later(
        "INSERT INTO queue (message_id, agent_id, lane, seq, status, created_at, updated_at, source_key)"
        " VALUES (?, ?, ?, ?, 'queued', ?, ?, ?)",
        envelope.id,
        envelope.agent_id,
        envelope.priority.lane,
        places.queue_seq,
        tx.now_ms,
        tx.now_ms,
        source_key,
    )
    return places.pending


def claim_head(tx: Tx, agent_id: str, run_id: str) -> Claimed | None:
    """Claims the first waiting message: the lowest lane, then the order of arrival."""
    return _claim(tx, agent_id, run_id, f"({_HEAD})", agent_id)


def claim(tx: Tx, agent_id: str, message_id: str, run_id: str) -> Claimed | None:
    """Claims one waiting message; `None` if it no longer waits."""
    return _claim(tx, agent_id, run_id, "?", message_id)


def claim_again(tx: Tx, message_id: str) -> Claimed | None:
    """Takes up a claim that a dead process left: the same run, one attempt more."""
    row = tx.one(
        "UPDATE queue SET attempt = attempt + 1, updated_at = ? WHERE message_id = ? AND status = 'dequeued'"
        f" RETURNING {_WITH_ENVELOPE}",
        tx.now_ms,
        message_id,
    )
    return _claimed(row) if row else None


def waiting(tx: Tx, agent_id: str, *, lane: int | None = None, limit: int = 100) -> list[Claimed]:
    """The messages that wait, in the order in which they will be served."""
    rows = tx.all(
        f"SELECT {_WITH_ENVELOPE} FROM queue WHERE agent_id = ? AND status = 'queued' AND (? IS NULL OR lane = ?)"
        " ORDER BY lane, seq LIMIT ?",
        agent_id,
        lane,
        lane,
        limit,
    )
    return [_claimed(row) for row in rows]


def settle(tx: Tx, message_id: str, status: QueueStatus) -> None:
    """Gives a claimed message its final status. One that waits is not claimed: `take_waiting` is for those."""
    tx.run(
        "UPDATE queue SET status = ?, updated_at = ? WHERE message_id = ? AND status <> 'queued'",
        status,
        tx.now_ms,
        message_id,
    )


def take_waiting(tx: Tx, agent_id: str, message_id: str, status: QueueStatus, run_id: str | None = None) -> bool:
    """Takes a message that still waits out of the queue (interjected, dropped); false if it no longer waits."""
    taken = tx.run(
        "UPDATE queue SET status = ?, run_id = ?, updated_at = ?"
        " WHERE message_id = ? AND agent_id = ? AND status = 'queued'",
        status,
        run_id,
        tx.now_ms,
        message_id,
        agent_id,
    )
    if taken:
        tx.count_waiting(agent_id, -1)
    return bool(taken)


def put_back(tx: Tx, agent_id: str, message_id: str) -> None:
    """Lets a claimed message wait again, in its old place."""
    if tx.run(
        "UPDATE queue SET status = 'queued', run_id = NULL, updated_at = ?"
        " WHERE message_id = ? AND status = 'dequeued'",
        tx.now_ms,
        message_id,
    ):
        tx.count_waiting(agent_id, +1)


def take_head(tx: Tx, agent_id: str, status: QueueStatus) -> str | None:
    """Takes the first waiting message out of the queue without reading it; its id."""
    row = tx.one(_HEAD, agent_id)
    return row[0] if row and take_waiting(tx, agent_id, row[0], status) else None


def waiting_from(tx: Tx, source_key: str) -> list[str]:
    """The ids of waiting messages of one source."""
    return [
        row[0] for row in tx.all("SELECT message_id FROM queue WHERE source_key = ? AND status = 'queued'", source_key)
    ]


def entry(tx: Tx, message_id: str) -> QueueEntry | None:
    row = tx.one(f"SELECT {_ENTRY} FROM queue WHERE message_id = ?", message_id)
    return _entry(row) if row else None


def message(tx: Tx, message_id: str) -> MessageEnvelope | None:
    row = tx.one("SELECT envelope FROM messages WHERE id = ?", message_id)
    return _envelope(row[0]) if row else None


def messages(tx: Tx, message_ids: list[str]) -> dict[str, MessageEnvelope]:
    if not message_ids:
        return {}
    marks = ", ".join("?" for _ in message_ids)
    rows = tx.all(f"SELECT id, envelope FROM messages WHERE id IN ({marks})", *message_ids)
    found = {}
    for message_id, text in rows:
        with suppress(InvalidJson):  # one record that cannot be read must not hide the log of all the others
            found[message_id] = _envelope(text)
    return found


def open_claims(tx: Tx) -> list[QueueEntry]:
    """Claims without an end, of all agents: what start-up must settle or take up again."""
    return [
        _entry(row) for row in tx.all(f"SELECT {_ENTRY} FROM queue WHERE status = 'dequeued' ORDER BY agent_id, seq")
    ]


def agents_with_waiting(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT DISTINCT agent_id FROM queue WHERE status = 'queued'")]


_ENTRY = "message_id, agent_id, lane, seq, status, created_at, updated_at, run_id, attempt"
_WITH_ENVELOPE = f"{_ENTRY}, (SELECT envelope FROM messages WHERE messages.id = queue.message_id)"
_HEAD = "SELECT message_id FROM queue WHERE agent_id = ? AND status = 'queued' ORDER BY lane, seq LIMIT 1"
_PRIORITIES = list(Priority)


def _entry(row: Row) -> QueueEntry:
    return QueueEntry(
        message_id=row[0],
        agent_id=row[1],
        priority=_PRIORITIES[row[2]],
        seq=row[3],
        status=QueueStatus(row[4]),
        created_at=moment(row[5]),
        updated_at=moment(row[6]),
        run_id=row[7],
        attempt=row[8],
    )


def _claim(tx: Tx, agent_id: str, run_id: str, which: str, parameter: str) -> Claimed | None:
    row = tx.one(
        "UPDATE queue SET status = 'dequeued', run_id = ?, attempt = attempt + 1, updated_at = ?"
        f" WHERE message_id = {which} AND status = 'queued' RETURNING {_WITH_ENVELOPE}",
        run_id,
        tx.now_ms,
        parameter,
    )
    if row is None:
        return None
    tx.count_waiting(agent_id, -1)
    return _claimed(row)


def _claimed(row: Row) -> Claimed:
    assert row[-1] is not None, f"queue entry {row[0]} has no message"
    return Claimed(_entry(row), _envelope(row[-1]))


def _envelope(text: str) -> MessageEnvelope:
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:  # an older record
        plain: dict[str, Any] = msgspec.json.decode(text)
        return read_envelope(plain)


_decoder = msgspec.json.Decoder(MessageEnvelope)
