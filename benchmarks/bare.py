"""Bare SQLite: the baselines. One connection, one thread, nothing else: what the disk and the database allow."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from holon.store import Store


class Admitted(NamedTuple):
    """What one admission leaves, as the parameters of four statements."""

    scope: tuple[str]
    message: tuple[object, ...]
    entry: tuple[object, ...]
    event: tuple[object, ...]


_COUNTERS = (
    "UPDATE counters SET queue_seq = queue_seq + 1, pending = pending + 1, event_seq = event_seq + 1 WHERE scope = ?"
)
_MESSAGE = "INSERT INTO messages (id, agent_id, envelope) VALUES (?, ?, ?)"
_ENTRY = (
    "INSERT INTO queue (message_id, agent_id, lane, seq, status, created_at, updated_at, source_key)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_EVENT = (
    "INSERT INTO events (agent_id, seq, id, created_at, kind, message_id, turn_id, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def connect(path: Path) -> sqlite3.Connection:
    """Durable in the same sense as the store: WAL, and a commit that is on disk when it returns."""
    connection = sqlite3.connect(path, isolation_level=None)
    for setting in ("journal_mode = WAL", "synchronous = FULL", "temp_store = MEMORY", "cache_size = -16000"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def admitted_rows(database: Path) -> list[Admitted]:
    """The rows that admissions left in a home's database, in their order."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT m.id, m.agent_id, m.envelope, q.lane, q.seq, q.created_at, q.updated_at, q.source_key,"
            " e.seq, e.id, e.created_at, e.kind, e.turn_id, e.payload"
            " FROM messages m JOIN queue q ON q.message_id = m.id"
            " JOIN events e ON e.message_id = m.id AND e.kind = 'message_admitted'"
            " WHERE q.status = 'queued' ORDER BY m.id"
        ).fetchall()
    return [
        Admitted(
            (agent,),
            (message, agent, envelope),
            (message, agent, lane, place, "queued", created, updated, source),
            (agent, seq, event, at, kind, message, turn, payload),
        )
        for message, agent, envelope, lane, place, created, updated, source, seq, event, at, kind, turn, payload in rows
    ]


def write_admissions(path: Path, rows: list[Admitted], batch: int) -> float:
    """Writes the rows into a fresh database of the same schema, a commit per batch; seconds."""
    Store(path).close()
    with closing(connect(path)) as connection:
        connection.executemany("INSERT INTO counters (scope) VALUES (?)", sorted({row.scope for row in rows}))
        started = time.perf_counter()
        for first in range(0, len(rows), batch):
            scopes, messages, entries, events = zip(*rows[first : first + batch], strict=True)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_COUNTERS, scopes)
            connection.executemany(_MESSAGE, messages)
            connection.executemany(_ENTRY, entries)
            connection.executemany(_EVENT, events)
            connection.execute("COMMIT")
        return time.perf_counter() - started


PAGE, FRAME = 4_096, 4_096 + 24


def log_pages(database: Path) -> int:
    """Pages in the write-ahead log of a database that was folded in before: what the disk was given since."""
    return max(0, Path(f"{database}-wal").stat().st_size - 32) // FRAME


def fold_in(database: Path) -> None:
    """Writes the log back into the file and begins a new one. Nobody may be reading."""
    with closing(sqlite3.connect(database)) as connection:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy, "somebody reads: the log cannot be folded in"


class DurableCommits:
    """Commits of so many pages, one after the other: what durability itself costs on this disk."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")

    def write(self, pages: list[int]) -> float:
        """One commit for each number of pages; seconds for all of them."""
        # A row that spills over brings its leaf, and as many pages as its bytes need.
        blobs = [bytes(PAGE * max(0, count - 2) or 1) for count in pages]
        started = time.perf_counter()
        for blob in blobs:
            self._connection.execute("INSERT INTO log (bytes) VALUES (?)", (blob,))
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()
