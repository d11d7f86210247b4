"""Histories: what an agent gathers in order (events, transcript, calls, epochs, briefs), and where it may be cut.

A cut is found by a few look-ups and never by reading the history: most have numbers without gaps, briefs have ids that
sort by time. The newest of each stay whatever their age, unless the agent is archived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holon.core.agents import AgentState, RegistryStatus
from holon.core.clock import to_ms
from holon.core.codec import loads
from holon.core.ids import first_id
from holon.core.retention import FamilyCut, HistoryCut, RetentionFamily
from holon.store import sqlite
from holon.store.transaction import END, Tx

#: Entries of each history that stay whatever their age.
NEWEST = 200
#: Rows from which the size of all is estimated.
SAMPLE = 50

_EVENTS, _TRANSCRIPT = RetentionFamily.EVENTS, RetentionFamily.TRANSCRIPT
_CALLS, _EPOCHS, _BRIEFS = RetentionFamily.CALLS, RetentionFamily.EPOCHS, RetentionFamily.BRIEFS


class _Columns(NamedTuple):
    #: In what order a history stands, when an entry was made, and what takes the room.
    place: str
    time: str
    text: str


_COLUMNS = {
    _EVENTS: _Columns("seq", "created_at", "payload"),
    _TRANSCRIPT: _Columns("seq", "created_at", "data"),
    _CALLS: _Columns("seq", "created_at", "sections"),
    _EPOCHS: _Columns("number", "opened_at", "record"),
    _BRIEFS: _Columns("id", "", "record"),
}
FAMILIES = tuple(_COLUMNS)


class History(NamedTuple):
    """One agent's histories: how many of the newest stay, and the numbers from which on each is protected."""

    agent_id: str
    newest: int
    protected_from: dict[RetentionFamily, int]


def histories(tx: Tx) -> list[History]:
    """Of all agents, and of the runtime itself. What the model's window shows, and its epoch, are protected too."""
    rows = tx.all(
        "SELECT c.scope, c.event_seq, c.transcript_seq, a.registry_status, a.state"
        " FROM counters c LEFT JOIN agents a ON a.id = c.scope ORDER BY c.scope"
    )
    found = []
    for scope, event_seq, transcript_seq, registry_status, text in rows:
        newest = 0 if registry_status == RegistryStatus.ARCHIVED else NEWEST
        state = loads(text, AgentState) if text else AgentState(id=scope)
        ends = {_EVENTS: event_seq, _TRANSCRIPT: transcript_seq, _CALLS: state.total_model_rounds}
        protected_from = {family: end - newest + 1 for family, end in ends.items()}
        protected_from[_EPOCHS] = state.epoch if newest else state.epoch + 1
        if newest:
            protected_from[_TRANSCRIPT] = min(protected_from[_TRANSCRIPT], state.window_after + 1)
        found.append(History(scope, newest, protected_from))
    return found


def cuts(tx: Tx, history: History, before: Mapping[RetentionFamily, int]) -> Iterator[HistoryCut]:
    """Where this agent's histories may be cut, if entries before these moments are too old."""
    protected_from = dict(history.protected_from)
    for family in (_EVENTS, _TRANSCRIPT, _CALLS, _EPOCHS):
        end = protected_from[family]
        oldest = _oldest(tx, family, history.agent_id)
        below = oldest
        if isinstance(oldest, int) and oldest < end:
            below = _boundary(tx, family, history.agent_id, oldest, end, before[family])
            if below > oldest:
                yield _cut(tx, family, history.agent_id, below, below - oldest)
        if family is _CALLS and below is not None:
            protected_from[_EPOCHS] = min(protected_from[_EPOCHS], _epoch_of(tx, history.agent_id, below))
    yield from _cut_briefs(tx, history, first_id("brief", before[_BRIEFS]))


def remove(tx: Tx, cut: HistoryCut, family_cut: FamilyCut, made_at_ms: int, limit: int) -> int:
    """Removes the oldest of what the cut covers, at most `limit`; how many."""
    table, (place, time, _) = cut.family, _COLUMNS[cut.family]
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
            f"SELECT MIN({place}) FROM {table} WHERE agent_id = ? AND {place} < ? AND {time} >= ? AND {time} <= ?",
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
        for table in (_EVENTS, _TRANSCRIPT)
        for row in tx.all(
            f"SELECT message_id FROM {table} WHERE agent_id = ? AND seq >= ? AND message_id IS NOT NULL"
            f" UNION SELECT t.message_id FROM {table} e JOIN turns t ON t.id = e.turn_id"
            " WHERE e.agent_id = ? AND e.seq >= ?",
            *(history.agent_id, history.protected_from[table]) * 2,
        )
    }


def _boundary(tx: Tx, family: RetentionFamily, agent_id: str, low: int, high: int, before_ms: int) -> int:
    """The first number from `low` on that is young enough, or `high`.

    A time in the future is a clock's error and says nothing: such an entry goes with its neighbours.
    """
    place, time, _ = _COLUMNS[family]
    while low < high:
        middle = (low + high) // 2
        row = tx.one(f"SELECT {time} FROM {family} WHERE agent_id = ? AND {place} = ?", agent_id, middle)
        if row is None or row[0] < before_ms or row[0] > tx.now_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _oldest(tx: Tx, family: RetentionFamily, agent_id: str) -> int | str | None:
    row = tx.one(f"SELECT MIN({_COLUMNS[family].place}) FROM {family} WHERE agent_id = ?", agent_id)
    oldest: int | str | None = row[0] if row else None
    return oldest


def _epoch_of(tx: Tx, agent_id: str, call_seq: int | str) -> int:
    """The epoch of the first call from this one on: it stays with the calls that were made in it."""
    row = tx.one("SELECT epoch FROM calls WHERE agent_id = ? AND seq >= ? ORDER BY seq LIMIT 1", agent_id, call_seq)
    return int(row[0]) if row else END


def _cut_briefs(tx: Tx, history: History, below: str) -> Iterator[HistoryCut]:
    oldest = _oldest(tx, _BRIEFS, history.agent_id)
    if not isinstance(oldest, str) or oldest >= below:
        return
    if history.newest:
        nth = "SELECT id FROM briefs WHERE agent_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
        row = tx.one(nth, history.agent_id, history.newest - 1)
        below = min(below, row[0] if row else oldest)
    row = tx.one("SELECT COUNT(*) FROM briefs WHERE agent_id = ? AND id < ?", history.agent_id, below)
    if row and row[0]:
        yield _cut(tx, _BRIEFS, history.agent_id, below, row[0])


def _cut(tx: Tx, family: RetentionFamily, agent_id: str, below: int | str, rows: int) -> HistoryCut:
    place, _, text = _COLUMNS[family]
    sample = tx.all(
        f"SELECT LENGTH({text}) FROM {family} WHERE agent_id = ? AND {place} < ? ORDER BY {place} LIMIT ?",
        *(agent_id, below, SAMPLE),
    )
    taken = sum(sqlite.row_bytes(row[0]) for row in sample)
    return HistoryCut(
        family=family, agent_id=agent_id, below=below, rows=rows, estimated_bytes=rows * taken // max(1, len(sample))
    )
