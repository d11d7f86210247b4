"""The store: writes that share commits, reads on connections of their own, and who hears of what was committed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holon.core.clock import Clock, SystemClock
from holon.core.errors import HolonError, HomeUnusable
from holon.core.transitions import Transition
from holon.store import schema, sqlite
from holon.store.faults import FaultPlan
from holon.store.transaction import Tx
from holon.store.writer import Write, Writer, closed

T = TypeVar("T")
READERS = 4

#: Told, after a commit and on the listener's own loop, the newest event number of each log that grew.
Listener = Callable[[dict[str, int]], None]


class Store:
    """Durable state of one home. `write` for changes, `read` for looking; nothing else touches the database."""

    def __init__(self, path: Path, *, clock: Clock | None = None, faults: FaultPlan | None = None) -> None:
        self.path = path
        self.clock = clock or SystemClock()
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Listener]] = []
        self._returns: dict[asyncio.AbstractEventLoop, _Return] = {}
        self._closed = False
        _prepare_folder(path.parent)
        try:
            with closing(sqlite.connect(path)) as first:
                self.version = schema.migrate(first, path, self.clock.now_ms())
        except sqlite.Error as error:
            raise sqlite.translate(error, path) from error
        self._writer = Writer(
            lambda: sqlite.connect(path),
            now_ms=self.clock.now_ms,
            translate=lambda error: sqlite.translate(error, path),
            committed=self._tell_listeners,
            flushed=self._hand_back,
            faults=faults if faults is not None else FaultPlan.from_environment(),
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="holon-reader")
        self._local = threading.local()
        self._open_readers: list[sqlite.Connection] = []

    async def write(
        self, fn: Callable[[Tx], T], at: Transition | None = None, *, meanwhile: Callable[[T], object] | None = None
    ) -> T:
        """Runs `fn` in a transaction and returns its result once it is on disk. Waiting writes share a commit.

        `meanwhile` may be called with the result, before this returns, while the disk is at work: whatever is written
        from then on comes behind it. It is not called where many write, nor for a write that was refused. The commit
        may still fail: nothing may leave the process on its word.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        ready = None if meanwhile is None else partial(_call_soon, loop, meanwhile)
        back = lambda result, error: self._return(loop).settle(future, result, error)  # noqa: E731
        self._writer.submit(Write(fn, at, back, ready))
        return await future

    def write_now(self, fn: Callable[[Tx], T], at: Transition | None = None) -> T:
        """The same for callers without an event loop: it blocks."""
        future: Future[T] = Future()

        def settle(result: T, error: BaseException | None) -> None:
            future.set_exception(error) if error is not None else future.set_result(result)

        self._writer.submit(Write(fn, at, settle))
        return future.result()

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Runs `fn` on a connection that can only read, beside the writer and the other readers."""
        if self._closed:
            raise closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    def read_now(self, fn: Callable[[Tx], T]) -> T:
        """The same for callers without an event loop, on their own thread."""
        if self._closed:
            raise closed()
        return self._read(fn)

    @property
    def trouble(self) -> HolonError | None:
        """Why the disk did not take the last write that there was; nothing once it has taken one."""
        return self._writer.trouble

    async def try_again(self) -> None:
        """Writes what is there already, to see whether the disk takes writes again where nobody else has any. It is no
        step of anything and has no name: before and behind it everything is the same."""
        await self.write(lambda tx: tx.run("UPDATE schema_migrations SET version = version"))

    def room(self) -> int:
        """Free blocks on the disk: not how much fits, but whether there is more than there was."""
        try:
            return os.statvfs(self.path.parent).f_bfree
        except OSError:
            return 0

    def fence_with(self, name: str, fence: int) -> None:
        self._writer.fence_with(name, fence)

    def listen(self, listener: Listener) -> None:
        """Calls `listener` on the running loop after every commit that emitted events."""
        self._listeners.append((asyncio.get_running_loop(), listener))

    def size_bytes(self) -> int:
        """What the records take on disk."""
        return self.read_now(sqlite.size_bytes)

    async def give_back(self, pages: int = 1_000) -> int:
        """Cuts spare pages off the file, a slice at a time so that writers wait little; how many there still are."""
        spare = await self.read(sqlite.spare_pages)
        if spare == 0:
            return 0
        await asyncio.get_running_loop().run_in_executor(self._readers, self._cut_file, min(spare, pages))
        left = await self.read(sqlite.spare_pages)
        return left if left < spare else 0  # a file of an old home may not be able to shrink

    def close(self) -> None:
        """Ends after the writes and reads that were already handed in."""
        self._closed = True
        self._readers.shutdown()
        for connection in self._open_readers:
            connection.close()
        self._open_readers.clear()
        self._writer.close()  # last: only a connection that can write folds the log back into the file

    def _read(self, fn: Callable[[Tx], T]) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = sqlite.connect(self.path, read_only=True)
            self._open_readers.append(connection)
        try:
            connection.execute("BEGIN")
            try:
                return fn(Tx(connection, self.clock.now_ms()))
            finally:
                connection.execute("ROLLBACK")
        except sqlite.Error as error:
            raise sqlite.translate(error, self.path) from error

    def _cut_file(self, pages: int) -> None:
        try:
            with closing(sqlite.connect(self.path)) as connection:
                sqlite.give_back(connection, pages)
        except sqlite.Error as error:
            raise sqlite.translate(error, self.path) from error

    def _tell_listeners(self, emitted: dict[str, int]) -> None:
        for loop, listener in self._listeners:
            self._return(loop).news.append((listener, emitted))

    def _hand_back(self) -> None:
        """After a commit, one wake-up for each event loop that waits for something of it."""
        returns, self._returns = self._returns, {}
        for loop, back in returns.items():
            _call_soon(loop, back.arrive, loop)

    def _return(self, loop: asyncio.AbstractEventLoop) -> _Return:
        back = self._returns.get(loop)
        if back is None:
            back = self._returns[loop] = _Return()
        return back


class _Return:
    """What one event loop gets back from a commit: news for its listeners, results for those who wait."""

    __slots__ = ("news", "results")

    def __init__(self) -> None:
        self.news: list[tuple[Listener, dict[str, int]]] = []
        self.results: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []

    def settle(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self.results.append((future, result, error))

    def arrive(self, loop: asyncio.AbstractEventLoop) -> None:
        for listener, emitted in self.news:
            loop.call_soon(listener, emitted)  # before whoever waits, and apart: one that fails disturbs nobody
        for future, result, error in self.results:
            if future.done():  # whoever waited gave up
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)


def _call_soon(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: Any) -> None:
    with suppress(RuntimeError):  # that loop has ended; whoever waited on it is gone too
        loop.call_soon_threadsafe(fn, *args)


def _prepare_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # what is said to agents is nobody else's business
    except OSError as error:
        raise HomeUnusable(
            f"the folder {folder} cannot be made ({error.strerror})",
            hint="check the permissions of HOLON_HOME, or point HOLON_HOME at a folder that you may write",
        ) from error
