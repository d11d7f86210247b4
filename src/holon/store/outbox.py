"""The outbox: what must happen outside the database because of a commit, kept until it has happened.

A consumer does the work (it must be safe to do twice), then takes the row out in a transaction of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holon.core.codec import dumps
from holon.core.ids import new_id
from holon.store.transaction import Tx


class Errand(NamedTuple):
    id: str
    topic: str
    payload: dict[str, Any]
    attempts: int


def put(tx: Tx, topic: str, payload: dict[str, Any]) -> str:
    errand_id = new_id("out", tx.now_ms)
    tx.run(
        "INSERT INTO outbox (id, topic, payload, due_at) VALUES (?, ?, ?, ?)",
        errand_id,
        topic,
        dumps(payload),
        tx.now_ms,
    )
    return errand_id


def due(tx: Tx, limit: int = 100) -> list[Errand]:
    rows = tx.all(
        "SELECT id, topic, payload, attempts FROM outbox WHERE due_at <= ? ORDER BY due_at, id LIMIT ?",
        tx.now_ms,
        limit,
    )
    return [Errand(row[0], row[1], msgspec.json.decode(row[2]), row[3]) for row in rows]


def of_topic(tx: Tx, topic: str) -> list[Errand]:
    """All that wait, due or not."""
    rows = tx.all("SELECT id, topic, payload, attempts FROM outbox WHERE topic = ? ORDER BY id", topic)
    return [Errand(row[0], row[1], msgspec.json.decode(row[2]), row[3]) for row in rows]


def done(tx: Tx, errand_id: str) -> None:
    tx.run("DELETE FROM outbox WHERE id = ?", errand_id)


def postpone(tx: Tx, errand_id: str, by_ms: int) -> None:
    tx.run("UPDATE outbox SET attempts = attempts + 1, due_at = ? WHERE id = ?", tx.now_ms + by_ms, errand_id)
