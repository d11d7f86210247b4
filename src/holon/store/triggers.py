"""External triggers and wake hints in the store."""

from __future__ import annotations

from holon.core.codec import dumps, loads
from holon.core.triggers import ExternalTrigger, WakeHint
from holon.store.transaction import Tx


def save(tx: Tx, trigger: ExternalTrigger) -> None:
    tx.run(
        "INSERT INTO triggers (id, agent_id, status, record) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status, record = excluded.record",
        trigger.external_trigger_id,
        trigger.target_agent_id,
        trigger.status,
        dumps(trigger),
    )


def get(tx: Tx, trigger_id: str) -> ExternalTrigger | None:
    row = tx.one("SELECT record FROM triggers WHERE id = ?", trigger_id)
    return loads(row[0], ExternalTrigger) if row else None


def active(tx: Tx, agent_id: str) -> ExternalTrigger | None:
    row = tx.one("SELECT record FROM triggers WHERE agent_id = ? AND status = 'active'", agent_id)
    return loads(row[0], ExternalTrigger) if row else None


def add_hint(tx: Tx, hint: WakeHint) -> None:
    tx.run("INSERT INTO wake_hints (agent_id, id, record) VALUES (?, ?, ?)", hint.agent_id, hint.id, dumps(hint))


def hints(tx: Tx, agent_id: str) -> list[WakeHint]:
    """The hints that wait, oldest first."""
    rows = tx.all("SELECT record FROM wake_hints WHERE agent_id = ? ORDER BY id", agent_id)
    return [loads(row[0], WakeHint) for row in rows]


def drop_hints(tx: Tx, agent_id: str, hint_ids: list[str]) -> None:
    tx.many("DELETE FROM wake_hints WHERE agent_id = ? AND id = ?", [(agent_id, hint_id) for hint_id in hint_ids])


def agents_with_hints(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT DISTINCT agent_id FROM wake_hints")]
