"""The load ledger in the store: what came into prompts on demand, what it cost, and whether it was of use.

Loads that are too old to be kept one by one are summed by skill, agent and month.
"""

from __future__ import annotations

from typing import NamedTuple

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
    in_session, of_session = (" AND session_id = ?", (session_id,)) if session_id is not None else ("", ())
    return tx.run(
        "UPDATE loads SET used_at = ? WHERE agent_id = ? AND name = ? AND used_at IS NULL AND refused = 0"
        f" AND what = 'skill'{in_session}",
        *(tx.now_ms, agent_id, name, *of_session),
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
    """One line a skill, the dearest first. Of what was summed up, the months from this moment's on count whole."""
    rows = tx.all(
        "SELECT name, SUM(loads), SUM(preloads), SUM(refs), SUM(used), SUM(refused), SUM(tokens), SUM(nanodollars),"
        " MAX(last_loaded_at) FROM ("
        "SELECT name,"
        " CASE WHEN what = 'skill' AND refused = 0 AND reason <> ? THEN 1 ELSE 0 END AS loads,"
        " CASE WHEN what = 'skill' AND refused = 0 AND reason = ? THEN 1 ELSE 0 END AS preloads,"
        " CASE WHEN what = 'reference' AND refused = 0 THEN 1 ELSE 0 END AS refs,"
        " CASE WHEN used_at IS NULL THEN 0 ELSE 1 END AS used,"
        " refused,"
        " CASE WHEN refused = 0 THEN tokens ELSE 0 END AS tokens,"
        " nanodollars,"
        " CASE WHEN refused = 0 THEN created_at END AS last_loaded_at"
        " FROM loads WHERE created_at >= ? AND what IN ('skill', 'reference') AND (? IS NULL OR agent_id = ?)"
        " UNION ALL SELECT name, loads, preloads, refs, used, refused, tokens, nanodollars, last_loaded_at"
        " FROM load_months WHERE month >= ? AND (? IS NULL OR agent_id = ?)"
        ") AS counted GROUP BY name ORDER BY 8 DESC, 7 DESC, name",
        *(LoadReason.ALWAYS, LoadReason.ALWAYS, since_ms, agent_id, agent_id, month_of(since_ms), agent_id, agent_id),
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


def old(tx: Tx, before_ms: int) -> int:
    """How many loads were made before this moment."""
    row = tx.one("SELECT COUNT(*) FROM loads WHERE created_at < ?", before_ms)
    return int(row[0]) if row else 0


def sum_up(tx: Tx, before_ms: int, limit: int) -> int:
    """Takes the oldest of them out, at most `limit`, and adds them to their months; how many."""
    rows = tx.all(
        "SELECT id, created_at, agent_id, what, name, reason, tokens, nanodollars, refused, used_at FROM loads"
        " WHERE created_at < ? ORDER BY created_at LIMIT ?",
        *(before_ms, limit),
    )
    sums: dict[tuple[str, str, str], _Sum] = {}
    for _, created_at, agent_id, what, name, *rest in rows:
        if what in (LoadedThing.SKILL, LoadedThing.REFERENCE):
            key = (month_of(created_at), agent_id, name)
            sums[key] = sums.get(key, _Sum()).plus(created_at, what, *rest)
    tx.many(
        "INSERT INTO load_months (month, agent_id, name, loads, preloads, refs, used, refused, tokens, nanodollars,"
        " last_loaded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (month, agent_id, name) DO UPDATE SET loads = load_months.loads + excluded.loads,"
        " preloads = load_months.preloads + excluded.preloads, refs = load_months.refs + excluded.refs,"
        " used = load_months.used + excluded.used, refused = load_months.refused + excluded.refused,"
        " tokens = load_months.tokens + excluded.tokens,"
        " nanodollars = load_months.nanodollars + excluded.nanodollars,"
        " last_loaded_at = COALESCE(excluded.last_loaded_at, load_months.last_loaded_at)",
        [(*key, *counted) for key, counted in sums.items()],
    )
    tx.many("DELETE FROM loads WHERE id = ?", [(row[0],) for row in rows])
    return len(rows)


def old_months(tx: Tx, before_ms: int) -> int:
    """How many sums are of months before this moment's."""
    row = tx.one("SELECT COUNT(*) FROM load_months WHERE month < ?", month_of(before_ms))
    return int(row[0]) if row else 0


def drop_months(tx: Tx, before_ms: int, limit: int) -> int:
    """Removes the oldest of them, at most `limit`; how many."""
    keys = tx.all(
        "SELECT month, agent_id, name FROM load_months WHERE month < ? ORDER BY month, agent_id, name LIMIT ?",
        *(month_of(before_ms), limit),
    )
    tx.many("DELETE FROM load_months WHERE month = ? AND agent_id = ? AND name = ?", keys)
    return len(keys)


def month_of(now_ms: int) -> str:
    return moment(now_ms).strftime("%Y-%m")


class _Sum(NamedTuple):
    """The columns of a month's row, in their order."""

    loads: int = 0
    preloads: int = 0
    refs: int = 0
    used: int = 0
    refused: int = 0
    tokens: int = 0
    nanodollars: int = 0
    last_loaded_at: int | None = None

    def plus(
        self, created_at: int, what: str, reason: str, tokens: int, nanodollars: int, refused: int, used_at: int | None
    ) -> _Sum:
        came = not refused
        skill, always = what == LoadedThing.SKILL, reason == LoadReason.ALWAYS
        return _Sum(
            loads=self.loads + (came and skill and not always),
            preloads=self.preloads + (came and skill and always),
            refs=self.refs + (came and not skill),
            used=self.used + (used_at is not None),
            refused=self.refused + bool(refused),
            tokens=self.tokens + (tokens if came else 0),
            nanodollars=self.nanodollars + nanodollars,
            last_loaded_at=created_at if came else self.last_loaded_at,
        )
