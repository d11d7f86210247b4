"""Remains: everything that a home and the world outside it hold when no process runs, read as it stands on disk.

It reads the tables with SQL of its own, so that a mistake in the store cannot hide itself.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.crash.deeds import Deed
from tests.crash.outside import Answer, Outside, Stamp
from tests.crash.worker import Job

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remains:
    agents: dict[str, Row]
    counters: dict[str, Row]
    messages: dict[str, Row]
    queue: dict[str, Row]
    turns: dict[str, Row]
    tool_calls: list[Row]
    transcript: list[Row]
    briefs: list[Row]
    events: list[Row]
    timers: list[Row]
    tasks: list[Row]
    triggers: list[Row]
    wake_hints: list[Row]
    outbox: list[Row]
    damage: list[str]
    homes: frozenset[str]
    intents: dict[int, Deed]
    answers: dict[int, Answer]
    stamps: list[Stamp]
    commands: list[str]
    #: By task: which parts of its worktree are on disk.
    worktrees: dict[str, set[str]]

    def events_of(self, kind: str) -> list[Row]:
        return [event for event in self.events if event["kind"] == kind]

    def status(self, message_id: str) -> str:
        """Where a message stands in the queue."""
        return str(self.queue[message_id]["status"]) if message_id in self.queue else "in no queue"

    def open_turns(self) -> list[Row]:
        return [turn for turn in self.turns.values() if turn["phase"] != "terminal"]


def has_begun(home: Path) -> bool:
    """Whether a process got as far as making the tables; before that there is nothing to look at."""
    path = home / "state" / "holon.sqlite3"
    if not path.exists():
        return False
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'agents'").fetchone() is not None


def read_remains(home: Path) -> Remains:
    """Opens the database as a restart would: what the dead process had committed is there, and nothing else."""
    outside = Outside(Job(home=str(home)).outside)
    with closing(sqlite3.connect(home / "state" / "holon.sqlite3")) as connection:
        connection.row_factory = sqlite3.Row

        def table(name: str, order: str = "1") -> list[Row]:
            return [_row(row) for row in connection.execute(f"SELECT * FROM {name} ORDER BY {order}")]

        check = [row[0] for row in connection.execute("PRAGMA quick_check")]
        return Remains(
            agents=_keyed(table("agents"), "id"),
            counters=_keyed(table("counters"), "scope"),
            messages=_keyed(table("messages"), "id"),
            queue=_keyed(table("queue", "agent_id, seq"), "message_id"),
            turns=_keyed(table("turns", "agent_id, turn_index"), "id"),
            tool_calls=table("tool_calls", "turn_id, round, ordinal"),
            transcript=table("transcript", "agent_id, seq"),
            briefs=table("briefs", "agent_id, id"),
            events=table("events", "agent_id, seq"),
            timers=table("timers"),
            tasks=table("tasks"),
            triggers=table("triggers"),
            wake_hints=table("wake_hints", "agent_id, id"),
            outbox=table("outbox"),
            damage=[line for line in check if line != "ok"],
            homes=frozenset(path.name for path in (home / "agents").glob("*")),
            intents=outside.intents(),
            answers=outside.answers(),
            stamps=outside.stamps(),
            commands=outside.commands(),
            worktrees=outside.worktrees(),
        )


def grouped(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """The rows by the value of a column, or by those of several."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        key = tuple(row[column] for column in columns)
        groups[key if len(columns) > 1 else key[0]].append(row)
    return groups


_JSON = ("record", "envelope", "state", "identity", "payload", "data")


def _row(row: sqlite3.Row) -> Row:
    return {name: msgspec.json.decode(row[name]) if name in _JSON else row[name] for name in row.keys()}  # noqa: SIM118


def _keyed(rows: list[Row], key: str) -> dict[str, Row]:
    return {row[key]: row for row in rows}
