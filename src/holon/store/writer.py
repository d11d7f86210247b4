"""The writer: one thread that owns the writing connection and lets waiting writes share one commit.

Each write runs in a savepoint of its own, so that one that fails takes nothing from the others; only a full disk takes
the whole commit, and everyone in it is told. Results are handed back after the commit: whoever has one has it on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from holon.core.errors import Fenced, HolonError, StoreUnavailable
from holon.core.transitions import Transition
from holon.store import sqlite
from holon.store.faults import FaultPlan
from holon.store.transaction import Tx

BATCH = 256


class Write(NamedTuple):
    fn: Callable[[Tx], Any]
    at: Transition | None
    #: Told the result, or the error, after the commit.
    settle: Callable[[Any, BaseException | None], None]


class Writer:
    def __init__(
        self,
        open_connection: Callable[[], sqlite.Connection],
        *,
        now_ms: Callable[[], int],
        translate: Callable[[sqlite.Error], HolonError],
        committed: Callable[[dict[str, int]], None],
        flushed: Callable[[], None],
        faults: FaultPlan | None,
    ) -> None:
        self._connection = open_connection()
        self._now_ms, self._translate, self._committed, self._flushed = now_ms, translate, committed, flushed
        self._faults = faults
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        self._fence: tuple[str, int] | None = None
        self._closed = False
        self._gate = threading.Lock()  # nothing may be handed in behind the end of the queue
        self._thread = threading.Thread(target=self._run, name="holon-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Write) -> None:
        with self._gate:
            if self._closed:
                raise closed()
            self._queue.put(write)

    def fence_with(self, name: str, fence: int) -> None:
        """From now on every commit checks that this process still holds the lease."""
        self._fence = (name, fence)

    def close(self) -> None:
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            try:
                while len(batch) < BATCH:
                    following = self._queue.get_nowait()
                    if following is None:
                        self._queue.put(None)
                        break
                    batch.append(following)
            except Empty:
                pass
            self._commit(batch)
            self._flushed()

    def _commit(self, batch: list[Write]) -> None:
        connection = self._connection
        outcomes: list[tuple[Any, BaseException | None]] = []
        emitted: dict[str, int] = {}
        done: list[Transition | None] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._check_fence()
            for write in batch:
                outcomes.append(self._run_one(write, emitted, done, alone=len(batch) == 1))
            if self._faults:
                self._faults.reached("before", done)
            connection.execute("COMMIT")
            if self._faults:
                self._faults.reached("after", done)
        except BaseException as error:  # whatever it is: this thread must live, and everybody must be told
            problem = self._translate(error) if isinstance(error, sqlite.Error) else error
            self._roll_back()
            outcomes, emitted = [(None, problem)] * len(batch), {}
        if emitted:
            self._committed(emitted)
        for write, (result, failure) in zip(batch, outcomes, strict=True):
            write.settle(result, failure)

    def _run_one(
        self, write: Write, emitted: dict[str, int], done: list[Transition | None], *, alone: bool
    ) -> tuple[Any, BaseException | None]:
        connection = self._connection
        tx = Tx(connection, self._now_ms(), write.at)
        if not alone:
            connection.execute("SAVEPOINT one")
        try:
            result = write.fn(tx)
            tx.flush_events()
        except BaseException as error:  # also a cancellation or an exit: it belongs to this write, not to the thread
            if not connection.in_transaction:  # a full disk may roll the whole transaction back by itself
                raise
            self._undo(alone=alone)
            return None, self._translate(error) if isinstance(error, sqlite.Error) else error
        if not alone:
            connection.execute("RELEASE one")
        emitted.update(tx.emitted)
        done.append(tx.at)
        return result, None

    def _undo(self, *, alone: bool) -> None:
        if alone:
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN")
        else:
            self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")

    def _roll_back(self) -> None:
        with suppress(sqlite.Error):  # after an I/O error SQLite may have rolled back by itself
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _check_fence(self) -> None:
        if self._fence is None:
            return
        name, fence = self._fence
        row = self._connection.execute("SELECT fence FROM leases WHERE name = ?", (name,)).fetchone()
        if row is None or row[0] != fence:
            raise Fenced(
                f"another process has taken over this home (lease {row[0] if row else 'gone'}, ours was {fence})",
                hint="this process must end; the newer one goes on",
            )


def closed() -> StoreUnavailable:
    return StoreUnavailable("the store is closed", hint="start the runtime again")
