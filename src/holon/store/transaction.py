"""A transaction, as record families see it: statements, the events it emits, and one moment of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from holon.core.codec import dumps
from holon.core.events import EventPayload
from holon.core.ids import new_id
from holon.core.transitions import Transition

Row = tuple[Any, ...]

#: Above every number in a log. As the end of a range it lets the range be a range: `? IS NULL OR seq < ?` would be
#: read from the newest entry down, however old the page is that was asked for.
END = 2**63 - 1


class Cursor(Protocol):
    """What a driver's connection must offer. `?` marks a parameter; the driver translates it."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Any: ...
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Any: ...


class Tx:
    """Everything done through one `Tx` commits together or not at all."""

    __slots__ = ("_connection", "_events", "at", "emitted", "now_ms")

    def __init__(self, connection: Cursor, now_ms: int, at: Transition | None = None) -> None:
        self._connection = connection
        self._events: list[tuple[str, str, str | None, str | None, str]] = []
        #: The newest event number of each log that this transaction wrote to; read after the commit.
        self.emitted: dict[str, int] = {}
        #: The moment of this transaction: the same for everything in it.
        self.now_ms = now_ms
        #: The step that this is. One that turns out to be another only while it runs says so here.
        self.at = at

    def run(self, sql: str, *parameters: Any) -> int:
        """Executes a statement; the number of rows that it changed."""
        return int(self._connection.execute(sql, parameters).rowcount)

    def one(self, sql: str, *parameters: Any) -> Row | None:
        row: Row | None = self._connection.execute(sql, parameters).fetchone()
        return row

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        rows: list[Row] = self._connection.execute(sql, parameters).fetchall()
        return rows

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def emit(
        self, agent_id: str, payload: EventPayload, *, message_id: str | None = None, turn_id: str | None = None
    ) -> None:
        """Adds an event to the agent's log, in this transaction, in this order."""
        self._events.append((agent_id, payload.kind, message_id, turn_id, dumps(payload)))

    def flush_events(self) -> None:
        """Gives the emitted events their places. Called once, by the writer, at the end of the transaction."""
        if not self._events:
            return
        for agent_id in {event[0] for event in self._events}:
            mine = [event for event in self._events if event[0] == agent_id]
            newest = self._take_places(agent_id, len(mine))
            first = newest - len(mine) + 1
            self.many(
                "INSERT INTO events (agent_id, seq, id, created_at, kind, message_id, turn_id, payload)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (agent_id, first + n, new_id("evt", self.now_ms), self.now_ms, kind, message_id, turn_id, payload)
                    for n, (_, kind, message_id, turn_id, payload) in enumerate(mine)
                ],
            )
            self.emitted[agent_id] = newest
        self._events.clear()

    def _take_places(self, scope: str, places: int) -> int:
        row = self.one(
            "UPDATE counters SET event_seq = event_seq + ? WHERE scope = ? RETURNING event_seq", places, scope
        ) or self.one("INSERT INTO counters (scope, event_seq) VALUES (?, ?) RETURNING event_seq", scope, places)
        assert row is not None
        return int(row[0])
