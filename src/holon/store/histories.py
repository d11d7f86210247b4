"""Histories: what an agent gathers in order (events, transcript, briefs), and where retention may cut it.

A cut is found by a few look-ups and never by reading the history: events and transcript have numbers without gaps,
briefs have ids that sort by time. The newest of each stay whatever their age, unless the agent is archived.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holon.core.agents import AgentState, RegistryStatus
from holon.core.clock import to_ms
from holon.core.codec import loads
from holon.core.ids import first_id
from holon.core.retention import FamilyCut, HistoryCut, RetentionFamily
from holon.store import sqlite
from holon.store.transaction import Tx

#: Entries of each history that stay whatever their age.
NEWEST = 200
#: Rows from which the size of all is estimated.
SAMPLE = 50

_EVENTS, _TRANSCRIPT, _BRIEFS = RetentionFamily.EVENTS, RetentionFamily.TRANSCRIPT, RetentionFamily.BRIEFS
_TEXT = {_EVENTS: "payload", _TRANSCRIPT: "data", _BRIEFS: "record"}
#: In what order a history stands.
_PLACE = {_EVENTS: "seq", _TRANSCRIPT: "seq", _BRIEFS: "id"}


class History(NamedTuple):
    """One agent's logs: the first numbers from which on they are protected."""

    agent_id: str
    newest: int
    events_from: int
    transcript_from: int


def histories(tx: Tx) -> list[History]:
    """Of all agents, and of the runtime itself. What the model's window shows of the transcript is protected too."""
    rows = tx.all(
        "SELECT c.scope, c.event_seq, c.transcript_seq, a.registry_status, a.state"
        " FROM counters c LEFT JOIN agents a ON a.id = c.scope ORDER BY c.scope"
    )
    found = []
    for scope, event_seq, transcript_seq, registry_status, state in rows:
        newest = 0 if registry_status == RegistryStatus.ARCHIVED else NEWEST
        shown_from = loads(state, AgentState).window_after + 1 if state and newest else transcript_seq + 1
        found.append(History(scope, newest, event_seq - newest + 1, min(transcript_seq - newest + 1, shown_from)))
    return found


def cuts(tx: Tx, history: History, events_ms: int, transcript_ms: int, briefs_ms: int) -> Iterator[HistoryCut]:
    """Where this agent's histories may be cut, if entries before these moments are too old."""
    for family, before_ms, protected_from in (
        (_EVENTS, events_ms, history.events_from),
        (_TRANSCRIPT, transcript_ms, history.transcript_from),
    ):
        oldest = _oldest(tx, family, history.agent_id)
        if isinstance(oldest, int) and oldest < protected_from:
            below = _boundary(tx, family, history.agent_id, oldest, protected_from, before_ms)
            if below > oldest:
                yield _cut(tx, family, history.agent_id, below, below - oldest)
    oldest = _oldest(tx, _BRIEFS, history.agent_id)
    if isinstance(oldest, str) and oldest < (below_id := first_id("brief", briefs_ms)):
        if history.newest:
            below_id = min(below_id, _nth_newest_brief(tx, history.agent_id, history.newest) or "")
        row = tx.one("SELECT COUNT(*) FROM briefs WHERE agent_id = ? AND id < ?", history.agent_id, below_id)
        if row and row[0]:
            yield _cut(tx, _BRIEFS, history.agent_id, below_id, row[0])


def remove(tx: Tx, cut: HistoryCut, family_cut: FamilyCut, made_at_ms: int, limit: int) -> int:
    """Removes the oldest of what the cut covers, at most `limit`; how many."""
    table, place = cut.family, _PLACE[cut.family]
    row = tx.one(
        f"SELECT {place} FROM {table} WHERE agent_id = ? AND {place} < ? ORDER BY {place} LIMIT 1 OFFSET ?",
        cut.agent_id,
        cut.below,
        limit,
    )
    below = row[0] if row else cut.below
    if cut.family is not _BRIEFS:
        # Where a clock was set back, halving may have jumped over younger entries: they stay, and what follows them.
        young = tx.one(
            f"SELECT MIN(seq) FROM {table} WHERE agent_id = ? AND seq < ? AND created_at >= ? AND created_at <= ?",
            cut.agent_id,
            below,
            to_ms(family_cut.before),
            made_at_ms,
        )
        below = young[0] if young and young[0] is not None else below
    removed = tx.run(f"DELETE FROM {table} WHERE agent_id = ? AND {place} < ?", cut.agent_id, below)
    if removed and cut.family is _EVENTS:
        tx.run("UPDATE counters SET oldest_event_seq = ? WHERE scope = ?", below, cut.agent_id)
    return removed


def messages_shown(tx: Tx, history: History) -> set[str]:
    """The messages that the protected part of an agent's events and transcript refers to."""
    return {
        row[0]
        for table, first in ((_EVENTS, history.events_from), (_TRANSCRIPT, history.transcript_from))
        for row in tx.all(
            f"SELECT message_id FROM {table} WHERE agent_id = ? AND seq >= ? AND message_id IS NOT NULL"
            f" UNION SELECT t.message_id FROM {table} e JOIN turns t ON t.id = e.turn_id"
            " WHERE e.agent_id = ? AND e.seq >= ?",
            *(history.agent_id, first, history.agent_id, first),
        )
    }


def _boundary(tx: Tx, family: RetentionFamily, agent_id: str, low: int, high: int, before_ms: int) -> int:
    """The first number from `low` on that is young enough, or `high`.

    A time in the future is a clock's error and says nothing: such an entry goes with its neighbours.
    """
    while low < high:
        middle = (low + high) // 2
        row = tx.one(f"SELECT created_at FROM {family} WHERE agent_id = ? AND seq = ?", agent_id, middle)
        if row is None or row[0] < before_ms or row[0] > tx.now_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _oldest(tx: Tx, family: RetentionFamily, agent_id: str) -> int | str | None:
    row = tx.one(f"SELECT MIN({_PLACE[family]}) FROM {family} WHERE agent_id = ?", agent_id)
    oldest: int | str | None = row[0] if row else None
    return oldest


def _nth_newest_brief(tx: Tx, agent_id: str, nth: int) -> str | None:
    row = tx.one("SELECT id FROM briefs WHERE agent_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?", agent_id, nth - 1)
    return str(row[0]) if row else None


def _cut(tx: Tx, family: RetentionFamily, agent_id: str, below: int | str, rows: int) -> HistoryCut:
    text, place = _TEXT[family], _PLACE[family]
    sample = tx.all(
        f"SELECT LENGTH({text}) FROM {family} WHERE agent_id = ? AND {place} < ? ORDER BY {place} LIMIT ?",
        *(agent_id, below, SAMPLE),
    )
    taken = sum(sqlite.row_bytes(row[0]) for row in sample)
    return HistoryCut(
        family=family, agent_id=agent_id, below=below, rows=rows, estimated_bytes=rows * taken // max(1, len(sample))
    )
