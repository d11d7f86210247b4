"""Timers in the store."""

from __future__ import annotations

import msgspec

from holon.core.clock import to_ms
from holon.core.codec import dumps, loads
from holon.core.timers import Timer, TimerStatus
from holon.store.transaction import Tx


def save(tx: Tx, timer: Timer) -> None:
    """Inserts the timer, or replaces what is stored of it."""
    tx.run(
        "INSERT INTO timers (id, agent_id, status, next_fire_at, record) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status, next_fire_at = excluded.next_fire_at,"
        " record = excluded.record",
        timer.id,
        timer.agent_id,
        timer.status,
        to_ms(timer.next_fire_at) if timer.next_fire_at else None,
        dumps(timer),
    )


def get(tx: Tx, timer_id: str) -> Timer | None:
    row = tx.one("SELECT record FROM timers WHERE id = ?", timer_id)
    return loads(row[0], Timer) if row else None


def due(tx: Tx, now_ms: int, limit: int = 256) -> list[Timer]:
    rows = tx.all(
        "SELECT record FROM timers WHERE status = 'active' AND next_fire_at <= ? ORDER BY next_fire_at LIMIT ?",
        now_ms,
        limit,
    )
    return [loads(row[0], Timer) for row in rows]


def next_due_ms(tx: Tx) -> int | None:
    row = tx.one("SELECT MIN(next_fire_at) FROM timers WHERE status = 'active'")
    return row[0] if row else None


def of_agent(tx: Tx, agent_id: str, *, active_only: bool = False, limit: int = 50) -> list[Timer]:
    rows = tx.all(
        "SELECT record FROM timers WHERE agent_id = ? AND (? = 0 OR status = 'active') ORDER BY id DESC LIMIT ?",
        agent_id,
        int(active_only),
        limit,
    )
    return [loads(row[0], Timer) for row in rows]


def has_active(tx: Tx, agent_id: str) -> bool:
    return tx.one("SELECT 1 FROM timers WHERE agent_id = ? AND status = 'active' LIMIT 1", agent_id) is not None


def cancel_all(tx: Tx, agent_id: str) -> None:
    for timer in of_agent(tx, agent_id, active_only=True, limit=1_000):
        save(tx, msgspec.structs.replace(timer, status=TimerStatus.CANCELLED, next_fire_at=None))
