"""Epochs in the store: the frozen heads of prompts."""

from __future__ import annotations

from typing import TypeVar

from holon.core.codec import Record, dumps, loads
from holon.store.transaction import Tx

T = TypeVar("T", bound=Record)


def insert(tx: Tx, agent_id: str, number: int, record: Record) -> None:
    tx.run(
        "INSERT INTO epochs (agent_id, number, opened_at, record) VALUES (?, ?, ?, ?)",
        agent_id,
        number,
        tx.now_ms,
        dumps(record),
    )


def get(tx: Tx, agent_id: str, number: int, type_: type[T]) -> T | None:
    row = tx.one("SELECT record FROM epochs WHERE agent_id = ? AND number = ?", agent_id, number)
    return loads(row[0], type_) if row else None


def count(tx: Tx, agent_id: str) -> int:
    row = tx.one("SELECT COUNT(*) FROM epochs WHERE agent_id = ?", agent_id)
    return int(row[0]) if row else 0
