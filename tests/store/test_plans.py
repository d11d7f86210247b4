"""What runs at every step costs the same however long the history is: every statement goes through an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holon.core.messages import QueueStatus
from holon.core.retention import RetentionFamily
from holon.core.transcripts import TranscriptKind
from holon.store import (
    Store,
    Tx,
    agents,
    briefs,
    events,
    histories,
    idempotency,
    leftovers,
    outbox,
    queue,
    tasks,
    timers,
    transcript,
    triggers,
    turns,
)
from tests.core.samples import envelope


class Recorder:
    """A connection that notes how SQLite would search for each statement that passes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.plans: list[str] = []

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        self.plans += [row[3] for row in self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Any:
        return self._connection.executemany(sql, parameters)


HISTORY = histories.History("main", 200, dict.fromkeys(RetentionFamily, 500))

STEPS: dict[str, Callable[[Tx], Any]] = {
    "append": lambda tx: queue.append(tx, envelope()),
    "claim": lambda tx: queue.claim_head(tx, "main", "run_1"),
    "claim again": lambda tx: queue.claim_again(tx, "msg_1"),
    "waiting": lambda tx: queue.waiting(tx, "main"),
    "waiting in a lane": lambda tx: queue.waiting(tx, "main", lane=0),
    "settle": lambda tx: queue.settle(tx, "msg_1", QueueStatus.PROCESSED),
    "take out": lambda tx: queue.take_waiting(tx, "main", "msg_1", QueueStatus.DROPPED),
    "put back": lambda tx: queue.put_back(tx, "main", "msg_1"),
    "of one source": lambda tx: queue.waiting_from(tx, "timer:1"),
    "entry": lambda tx: queue.entry(tx, "msg_1"),
    "messages": lambda tx: queue.messages(tx, ["msg_1", "msg_2"]),
    "open claims": queue.open_claims,
    "agents with waiting": queue.agents_with_waiting,
    "agent": lambda tx: agents.get(tx, "main"),
    "turn": lambda tx: turns.get(tx, "turn_1"),
    "turn of a message": lambda tx: turns.by_message(tx, "msg_1"),
    "open turns": turns.open_turns,
    "recent turns": lambda tx: turns.recent(tx, "main", 10),
    "start of a turn": lambda tx: turns.started_at(tx, "main", 3),
    "calls": lambda tx: turns.calls(tx, "turn_1", 2),
    "append transcript": lambda tx: transcript.append(tx, "main", TranscriptKind.INCOMING_MESSAGE, {}),
    "newest transcript": lambda tx: transcript.window(tx, "main"),
    "older transcript": lambda tx: transcript.window(tx, "main", before_seq=3),
    "transcript after": lambda tx: transcript.after(tx, "main", 3),
    "events after": lambda tx: events.after(tx, "main", 3),
    "newest events": lambda tx: events.before(tx, "main", None),
    "older events": lambda tx: events.before(tx, "main", 3),
    "bounds": lambda tx: events.bounds(tx, "main"),
    "briefs": lambda tx: briefs.recent(tx, "main"),
    "due timers": lambda tx: timers.due(tx, 5),
    "next timer": timers.next_due_ms,
    "timers": lambda tx: timers.of_agent(tx, "main"),
    "due tasks": lambda tx: tasks.due(tx, 5),
    "next task": tasks.next_due_ms,
    "live tasks": lambda tx: tasks.live(tx, "main"),
    "all live tasks": tasks.count_live,
    "children of an agent": lambda tx: tasks.count_children(tx, "main"),
    "all children": tasks.count_children,
    "depth": lambda tx: agents.depth(tx, "main", 4),
    "trigger": lambda tx: triggers.active(tx, "main"),
    "hints": lambda tx: triggers.hints(tx, "main"),
    "key": lambda tx: idempotency.seen(tx, "main", "key", "x"),
    "errands": outbox.due,
    "cut of an agent": lambda tx: list(histories.cuts(tx, HISTORY, dict.fromkeys(RetentionFamily, 5))),
    "messages shown": lambda tx: histories.messages_shown(tx, HISTORY),
    "settled messages": lambda tx: leftovers.any_settled(tx, 5),
    "messages of live tasks": leftovers.messages_of_live_tasks,
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_answered_through_an_index(store: Store, path: Path, step: str):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        recorder = Recorder(connection)
        STEPS[step](Tx(recorder, 1_000))
    assert recorder.plans
    searches = [plan for plan in recorder.plans if re.match(r"(SCAN|SEARCH) (?!\(|sample\b)", plan)]
    assert [plan for plan in searches if "USING" not in plan] == []


@pytest.mark.parametrize(("step", "table"), [("older events", "events"), ("older transcript", "transcript")])
def test_a_page_far_back_is_reached_without_reading_what_is_newer(store: Store, path: Path, step: str, table: str):
    with closing(sqlite3.connect(path)) as connection:
        recorder = Recorder(connection)
        STEPS[step](Tx(recorder, 1_000))
    assert recorder.plans == [f"SEARCH {table} USING PRIMARY KEY (agent_id=? AND seq<?)"]


def test_a_full_scan_would_be_seen(store: Store, path: Path):
    with closing(sqlite3.connect(path)) as connection:
        recorder = Recorder(connection)
        Tx(recorder, 1_000).all("SELECT payload FROM events WHERE kind = 'x'")
    assert recorder.plans == ["SCAN events"]
