"""A transaction, as record families see it: statements, the events it emits, and one moment of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Protocol

from holon.core.codec import dumps
from holon.core.errors import HolonError
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


class Places:
    """Where the queue and the logs of one scope stand. Counted on in memory, and written once."""

    __slots__ = ("event_seq", "moved", "pending", "queue_seq", "transcript_seq")

    def __init__(self, event_seq: int, queue_seq: int, transcript_seq: int, pending: int) -> None:
        self.event_seq, self.queue_seq, self.transcript_seq = event_seq, queue_seq, transcript_seq
        #: Messages that wait.
        self.pending = pending
        self.moved = False


class Tx:
    """Everything done through one `Tx` commits together or not at all."""

    __slots__ = ("_connection", "_events", "_later", "_places", "at", "emitted", "kept", "noted", "now_ms")

    def __init__(self, connection: Cursor, now_ms: int, at: Transition | None = None) -> None:
        self._connection = connection
        self._events: list[tuple[str, str, str | None, str | None, str]] = []
        self._later: dict[str, list[tuple[Any, ...]]] = {}
        self._places: dict[str, Places] = {}
        #: What was read here and still holds, by scope. Whoever changes it takes it out.
        self.kept: dict[str, Any] = {}
        #: How much is noted here that is not yet in the database: events, and places that were taken.
        self.noted = 0
        #: The newest event number of each log that this transaction wrote to; read after the commit.
        self.emitted: dict[str, int] = {}
        #: The moment of this transaction: the same for everything in it.
        self.now_ms = now_ms
        #: The step that this is. One that turns out to be another only while it runs says so here.
        self.at = at

    def run(self, sql: str, *parameters: Any) -> int:
        """Executes a statement; the number of rows that it changed."""
        if self._later:
            self._write_rows()
        return int(self._connection.execute(sql, parameters).rowcount)

    def one(self, sql: str, *parameters: Any) -> Row | None:
        if self._later:
            self._write_rows()
        row: Row | None = self._connection.execute(sql, parameters).fetchone()
        return row

    def look(self, sql: str, *parameters: Any) -> Row | None:
        """The same for what no row that is yet to be written (`insert_later`) has to do with."""
        row: Row | None = self._connection.execute(sql, parameters).fetchone()
        return row

    def all(self, sql: str, *parameters: Any) -> list[Row]:
        if self._later:
            self._write_rows()
        rows: list[Row] = self._connection.execute(sql, parameters).fetchall()
        return rows

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        if self._later:
            self._write_rows()
        self._connection.executemany(sql, rows)

    def insert_later(self, sql: str, *row: Any) -> None:
        """Writes a row before the next statement of any other kind: rows of many that share a commit go together."""
        self._later.setdefault(sql, []).append(row)
        self.noted += 1

    def emit(
        self, agent_id: str, payload: EventPayload, *, message_id: str | None = None, turn_id: str | None = None
    ) -> None:
        """Adds an event to the agent's log, in this transaction, in this order."""
        self._events.append((agent_id, payload.kind, message_id, turn_id, dumps(payload)))
        self.noted += 1

    def join_queue(self, scope: str) -> Places:
        """Takes the next place in the queue, where one more waits from now on."""
        places = self._counted(scope)
        places.queue_seq, places.pending = places.queue_seq + 1, places.pending + 1
        return places

    def next_in_transcript(self, scope: str) -> int:
        places = self._counted(scope)
        places.transcript_seq += 1
        return places.transcript_seq

    def count_waiting(self, scope: str, more: int) -> None:
        """Somebody joined those who wait, or left them."""
        self._counted(scope).pending += more

    def waiting(self, scope: str) -> int:
        """How many messages wait."""
        places = self._places.get(scope) or self._look_up(scope)
        return places.pending if places else 0

    def know_places(self, scope: str, event_seq: int, queue_seq: int, transcript_seq: int, pending: int) -> Places:
        """Where a scope stands: as this transaction has counted, else as its row says, which then need not be read."""
        if (known := self._places.get(scope)) is None:
            known = self._places[scope] = Places(event_seq, queue_seq, transcript_seq, pending)
        return known

    def attempt(self, fn: Callable[[Tx], None]) -> HolonError | None:
        """Runs a part that may be refused. If it is, nothing of it stays, and the rest of the transaction goes on."""
        self._write_rows()
        events, noted, kept = len(self._events), self.noted, dict(self.kept)
        places = {scope: copy(found) for scope, found in self._places.items()}
        self._connection.execute("SAVEPOINT part")
        try:
            fn(self)
        except HolonError as error:
            self._connection.execute("ROLLBACK TO part")
            del self._events[events:]
            self._later.clear()
            self._places, self.noted, self.kept = places, noted, kept
            return error
        finally:
            self._connection.execute("RELEASE part")
        return None

    def flush_events(self) -> None:
        """Gives the emitted events their places and writes the counters. Called once, at the transaction's end."""
        self._write_rows()
        if self._events:
            stem = new_id("evt", self.now_ms)[:-4]  # the events of one transaction differ in their last characters
            self.many(
                "INSERT INTO events (agent_id, seq, id, created_at, kind, message_id, turn_id, payload)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (scope, self._next_event(scope), f"{stem}{n:04}", self.now_ms, kind, message, turn, text)
                    for n, (scope, kind, message, turn, text) in enumerate(self._events)
                ],
            )
            self._events.clear()
        for scope, places in self._places.items():
            if places.moved:
                self.run(
                    "UPDATE counters SET event_seq = ?, queue_seq = ?, transcript_seq = ?, pending = ? WHERE scope = ?",
                    *(places.event_seq, places.queue_seq, places.transcript_seq, places.pending, scope),
                )
                places.moved = False

    def _write_rows(self) -> None:
        """Writes what was put off. If a row is refused all of it stays put off: whoever met that is seldom the one
        whose row it is, so the whole transaction must not pass, and `noted` says that it is not as it was before."""
        try:
            for sql, rows in self._later.items():
                self._connection.executemany(sql, rows)
        except BaseException:
            self.noted += 1
            raise
        self._later = {}

    def _counted(self, scope: str) -> Places:
        """The places of an agent, to be counted on."""
        places = self._places.get(scope) or self._look_up(scope)
        assert places is not None, f"agent {scope} has no counters"
        places.moved = True
        self.noted += 1
        return places

    def _next_event(self, scope: str) -> int:
        places = self._places.get(scope) or self._look_up(scope) or self._open(scope)
        places.event_seq, places.moved = places.event_seq + 1, True
        self.emitted[scope] = places.event_seq
        return places.event_seq

    def _look_up(self, scope: str) -> Places | None:
        row = self.one("SELECT event_seq, queue_seq, transcript_seq, pending FROM counters WHERE scope = ?", scope)
        return self.know_places(scope, *row) if row else None

    def _open(self, scope: str) -> Places:
        """A log without an agent, such as the runtime's own, begins with its first event."""
        self.run("INSERT INTO counters (scope) VALUES (?)", scope)
        return self.know_places(scope, 0, 0, 0, 0)
