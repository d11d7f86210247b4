"""The writer: one thread that owns the writing connection and lets waiting writes share one commit.

A write that fails takes nothing from the others, though they may be run again for it: a write is a function of its
transaction and of nothing else that changes. Only a full disk takes the whole commit, and everyone in it is told.
Results are handed back after the commit: whoever has one has it on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from holon.core.errors import Fenced, HolonError, HomeUnusable, StoreUnavailable
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
    #: Called with the result when it has run alone and its commit begins: a good time to prepare what will follow.
    meanwhile: Callable[[Any], None] | None = None


class Done(NamedTuple):
    """A write that has run and is not yet committed."""

    result: Any
    failure: BaseException | None
    #: The step that it turned out to be.
    at: Transition | None


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
        #: Why the disk did not take the last write that there was. A commit that changes something ends it.
        self.trouble: HolonError | None = None
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
        changes = self._connection.total_changes
        try:
            done, emitted = self._run_all(batch)
            steps = [one.at for one in done if one.failure is None]
            if self._faults:
                self._faults.reached("before", steps)
            if len(batch) == 1 and batch[0].meanwhile is not None and steps:
                batch[0].meanwhile(done[0].result)
            self._connection.execute("COMMIT")
            if self._faults:
                self._faults.reached("after", steps)
        except BaseException as error:  # whatever it is: this thread must live, and everybody must be told
            problem = self._in_our_words(error)
            self._roll_back()
            done, emitted = [Done(None, problem, write.at) for write in batch], {}
        self._note_trouble(done, changed=self._connection.total_changes > changes)
        if emitted:
            self._committed(emitted)
        for write, (result, failure, _) in zip(batch, done, strict=True):
            write.settle(result, failure)

    def _run_all(self, batch: list[Write]) -> tuple[list[Done], dict[str, int]]:
        """Runs the writes as one transaction, up to the commit, and says which logs have grown.

        This is all there is as long as all goes well, or a write is refused before it did anything. A savepoint for
        each would copy every page that each of them touches; so there are savepoints only once they are needed.
        """
        tx = self._begin()
        done: list[Done] = []
        for write in batch:
            before = self._connection.total_changes + tx.noted
            done.append(self._run_one(tx, write.fn, write.at))
            if done[-1].failure is not None and self._connection.total_changes + tx.noted > before:
                break
        else:
            flushed = self._run_one(tx, Tx.flush_events)
            if flushed.failure is None:
                return done, tx.emitted
            done = [flushed]
        self._connection.execute("ROLLBACK")
        tx = self._begin()
        return (done, {}) if len(batch) == 1 else self._run_apart(tx.now_ms, batch)

    def _run_apart(self, now_ms: int, batch: list[Write]) -> tuple[list[Done], dict[str, int]]:
        """Runs each write in a savepoint of its own: one that fails half-way leaves nothing."""
        done: list[Done] = []
        emitted: dict[str, int] = {}
        for write in batch:
            tx = Tx(self._connection, now_ms)
            self._connection.execute("SAVEPOINT one")
            done.append(self._run_one(tx, partial(_and_flush, write.fn), write.at))
            if done[-1].failure is None:
                emitted.update(tx.emitted)
            else:
                self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
        return done, emitted

    def _run_one(self, tx: Tx, fn: Callable[[Tx], Any], at: Transition | None = None) -> Done:
        tx.at = at
        try:
            return Done(fn(tx), None, tx.at)
        except BaseException as error:  # also a cancellation or an exit: it belongs to this write, not to the thread
            if not self._connection.in_transaction:  # a full disk may roll the whole transaction back by itself
                raise
            return Done(None, self._in_our_words(error), tx.at)

    def _begin(self) -> Tx:
        self._connection.execute("BEGIN IMMEDIATE")
        self._check_fence()
        return Tx(self._connection, self._now_ms())

    def _in_our_words(self, error: BaseException) -> BaseException:
        return self._translate(error) if isinstance(error, sqlite.Error) else error

    def _note_trouble(self, done: list[Done], *, changed: bool) -> None:
        """A commit that changes nothing touches no disk: it says nothing about it."""
        found = [one.failure for one in done if isinstance(one.failure, StoreUnavailable | HomeUnusable)]
        if found:
            self.trouble = found[-1]
        elif changed and any(one.failure is None for one in done):
            self.trouble = None

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


def _and_flush(fn: Callable[[Tx], Any], tx: Tx) -> Any:
    result = fn(tx)
    tx.flush_events()
    return result


def closed() -> StoreUnavailable:
    return StoreUnavailable("the store is closed", hint="start the runtime again")
