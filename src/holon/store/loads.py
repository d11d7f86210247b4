"""The load ledger in the store: what came into prompts on demand, what it cost, and whether it was of use."""

from __future__ import annotations

from holon.core.clock import moment, to_ms
from holon.core.skills import LoadedThing, LoadLine, LoadReason, LoadRecord
from holon.store.transaction import Tx


def insert(tx: Tx, load: LoadRecord) -> None:
    tx.run(
        "INSERT INTO loads (id, agent_id, created_at, what, name, version, reason, tokens, nanodollars, session_id,"
        " epoch, turn_id, refused) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        load.id,
        load.agent_id,
        to_ms(load.created_at),
        load.what,
        load.name,
        load.version,
        load.reason,
        load.tokens,
        load.nanodollars,
        load.session_id,
        load.epoch,
        load.turn_id,
        int(load.refused),
    )


def mark_used(tx: Tx, agent_id: str, name: str, session_id: str | None) -> int:
    """Notes the first evidence that what was loaded of a skill is used; how many loads it concerns."""
    return tx.run(
        "UPDATE loads SET used_at = ? WHERE agent_id = ? AND name = ? AND refused = 0 AND used_at IS NULL"
        " AND what = 'skill' AND (? IS NULL OR session_id = ?)",
        tx.now_ms,
        agent_id,
        name,
        session_id,
        session_id,
    )


def of_agent(tx: Tx, agent_id: str, limit: int = 100) -> list[LoadRecord]:
    """The newest loads, last first."""
    rows = tx.all(
        "SELECT id, created_at, what, name, version, reason, tokens, nanodollars, session_id, epoch, turn_id, refused"
        " FROM loads WHERE agent_id = ? ORDER BY id DESC LIMIT ?",
        agent_id,
        limit,
    )
    return [
        LoadRecord(
            id=row[0],
            agent_id=agent_id,
            created_at=moment(row[1]),
            what=LoadedThing(row[2]),
            name=row[3],
            version=row[4],
            reason=row[5],
            tokens=row[6],
            nanodollars=row[7],
            session_id=row[8],
            epoch=row[9],
            turn_id=row[10],
            refused=bool(row[11]),
        )
        for row in rows
    ]


def summary(tx: Tx, *, since_ms: int = 0, agent_id: str | None = None) -> list[LoadLine]:
    """One line a skill, the dearest first."""
    rows = tx.all(
        "SELECT name,"
        " SUM(CASE WHEN what = 'skill' AND refused = 0 AND reason <> ? THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN what = 'skill' AND refused = 0 AND reason = ? THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN what = 'reference' AND refused = 0 THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN used_at IS NULL THEN 0 ELSE 1 END),"
        " SUM(refused),"
        " SUM(CASE WHEN refused = 0 THEN tokens ELSE 0 END),"
        " SUM(nanodollars),"
        " MAX(CASE WHEN refused = 0 THEN created_at END)"
        " FROM loads WHERE created_at >= ? AND what IN ('skill', 'reference') AND (? IS NULL OR agent_id = ?)"
        " GROUP BY name ORDER BY 8 DESC, 7 DESC, name",
        LoadReason.ALWAYS,
        LoadReason.ALWAYS,
        since_ms,
        agent_id,
        agent_id,
    )
    return [
        LoadLine(
            name=row[0],
            loads=int(row[1]),
            preloads=int(row[2]),
            references=int(row[3]),
            used=int(row[4]),
            refused=int(row[5]),
            tokens=int(row[6]),
            dollars=int(row[7]) / 1e9,
            last_loaded_at=moment(row[8]) if row[8] is not None else None,
        )
        for row in rows
    ]
