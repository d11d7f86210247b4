"""Briefs in the store."""

from __future__ import annotations

from holon.core.briefs import Brief
from holon.core.codec import dumps, loads
from holon.store.transaction import Tx


def insert(tx: Tx, brief: Brief) -> None:
    tx.run(
        "INSERT INTO briefs (agent_id, id, kind, turn_id, record) VALUES (?, ?, ?, ?, ?)",
        brief.agent_id,
        brief.id,
        brief.kind,
        brief.turn_id,
        dumps(brief),
    )


def get(tx: Tx, agent_id: str, brief_id: str) -> Brief | None:
    row = tx.one("SELECT record FROM briefs WHERE agent_id = ? AND id = ?", agent_id, brief_id)
    return loads(row[0], Brief) if row else None


def recent(tx: Tx, agent_id: str, limit: int = 20) -> list[Brief]:
    """The newest briefs, oldest of them first."""
    rows = tx.all("SELECT record FROM briefs WHERE agent_id = ? ORDER BY id DESC LIMIT ?", agent_id, limit)
    return [loads(row[0], Brief) for row in reversed(rows)]
