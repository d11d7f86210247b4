"""Writes that wait share a commit, fail alone, and are told of their result only when it is on disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from holon.core.errors import QueueFull, StoreMisused, StoreUnavailable
from holon.core.event_kinds import ControlApplied
from holon.store import Store, Tx
from holon.store.writer import BATCH
from tests.store import wal


def keep(key: str) -> Callable[[Tx], str]:
    """A write that leaves one row."""

    def write(tx: Tx) -> str:
        tx.run("INSERT INTO idempotency VALUES ('test', ?, '', '', 0)", key)
        return key

    return write


def kept(path: Path) -> set[str]:
    """What another process would see."""
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT key FROM idempotency")}


class Gate:
    """A write that holds the writer until it is let go, so that others gather behind it."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, tx: Tx) -> None:
        self.entered.set()
        assert self.opened.wait(30)


async def gathered(store: Store, writes: list[Callable[[Tx], Any]]) -> list[Any]:
    """Runs the writes so that all of them wait at the same time; results or errors in their order."""
    gate = Gate()
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    rest = [asyncio.create_task(store.write(write)) for write in writes]
    await asyncio.sleep(0)  # each task hands its write in
    gate.opened.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


@pytest.mark.parametrize(("writes", "commits"), [(1, 2), (200, 2), (BATCH, 2), (BATCH + 1, 3)])
async def test_writes_that_wait_together_share_one_commit(store: Store, path: Path, writes: int, commits: int):
    await store.write(keep("first"))
    before = wal.commits(path)
    keys = [f"key {n}" for n in range(writes)]
    assert await gathered(store, [keep(key) for key in keys]) == keys
    # The gate changed nothing, so its own commit left no frame.
    assert wal.commits(path) - before == commits - 1
    assert kept(path) == {"first", *keys}


async def test_writes_one_after_the_other_have_a_commit_each(store: Store, path: Path):
    before = wal.commits(path)
    for n in range(5):
        await store.write(keep(str(n)))
    assert wal.commits(path) - before == 5


async def test_a_write_that_fails_takes_nothing_from_those_it_shares_a_commit_with(store: Store, path: Path):
    def refused(tx: Tx) -> None:
        keep("refused")(tx)
        tx.emit("main", ControlApplied(action="refused", surface="test"))
        raise QueueFull("too many")

    def broken(tx: Tx) -> None:
        keep("broken")(tx)
        keep("broken")(tx)  # the same key twice: the schema refuses it

    def cancelled(tx: Tx) -> None:
        keep("cancelled")(tx)
        raise asyncio.CancelledError

    def noted(tx: Tx) -> str:
        tx.emit("main", ControlApplied(action="noted", surface="test"))
        return keep("noted")(tx)

    before = wal.commits(path)
    results = await gathered(store, [keep("a"), refused, broken, noted, cancelled, keep("z")])
    assert [type(result) for result in results] == [
        str, QueueFull, StoreMisused, str, asyncio.CancelledError, str,
    ]  # fmt: skip
    assert kept(path) == {"a", "noted", "z"}
    assert wal.commits(path) - before == 1
    rows = await store.read(lambda tx: tx.all("SELECT seq, payload FROM events WHERE agent_id = 'main'"))
    assert [row[0] for row in rows] == [1]
    assert '"noted"' in rows[0][1]


def put_off(key: str) -> Callable[[Tx], str]:
    """A write whose row is written later, together with those of others."""

    def write(tx: Tx) -> str:
        tx.insert_later("INSERT INTO idempotency VALUES ('test', ?, '', '', 0)", key)
        return key

    return write


def look(tx: Tx) -> int:
    row = tx.one("SELECT count(*) FROM idempotency")
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("between", [look, keep("changes"), put_off("later"), None])
async def test_a_row_that_was_put_off_and_is_refused_is_the_failure_of_its_own_write(
    store: Store, path: Path, between: Callable[[Tx], Any] | None
):
    await store.write(keep("taken"))
    writes = [put_off("taken"), put_off("good"), put_off("good too"), *([between] if between else []), put_off("last")]
    results = await gathered(store, writes)
    told = {result for result in results if isinstance(result, str)}
    assert [n for n, result in enumerate(results) if isinstance(result, BaseException)] == [0]
    assert isinstance(results[0], StoreMisused)
    assert kept(path) == {"taken"} | told
    assert {"good", "good too", "last"} <= told


async def test_whoever_takes_no_notice_of_a_refused_row_hides_it_from_nobody(store: Store, path: Path):
    def careless(tx: Tx) -> str:
        with suppress(sqlite3.Error):
            look(tx)
        return keep("careless")(tx)

    def deaf(tx: Tx) -> str:
        with suppress(sqlite3.Error):
            look(tx)
        return "deaf"

    await store.write(keep("taken"))
    results = await gathered(store, [put_off("taken"), put_off("good"), deaf, careless, put_off("last")])
    assert [type(result) for result in results] == [StoreMisused, str, str, str, str]
    assert kept(path) == {"taken", "good", "careless", "last"}


@pytest.mark.parametrize("error", [QueueFull("x"), ValueError("x"), SystemExit(3), asyncio.CancelledError()])
async def test_a_write_that_fails_alone_leaves_nothing_and_the_next_one_works(
    store: Store, path: Path, error: BaseException
):
    def failing(tx: Tx) -> None:
        keep("lost")(tx)
        raise error

    with pytest.raises(type(error)):
        await store.write(failing)
    assert await store.write(keep("next")) == "next"
    assert kept(path) == {"next"}


async def test_a_result_is_handed_back_only_after_the_commit(store: Store, path: Path):
    gate, second = Gate(), Gate()
    holding = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    early = asyncio.create_task(store.write(keep("early")))
    late = asyncio.create_task(store.write(second))  # shares its commit with `early`, and holds it up
    await asyncio.sleep(0)
    gate.opened.set()
    await holding
    await asyncio.to_thread(second.entered.wait, 30)
    # The write itself is done, the commit is not: nobody was told, and nobody else sees it.
    await asyncio.sleep(0.01)
    assert not early.done()
    assert kept(path) == set()
    second.opened.set()
    assert await early == "early"
    assert kept(path) == {"early"}
    await late


async def test_events_are_published_after_their_commit_with_the_newest_number_of_each_log(store: Store, path: Path):
    heard: list[dict[str, int]] = []
    seen: list[bool] = []

    def listen(emitted: dict[str, int]) -> None:
        with closing(sqlite3.connect(path)) as connection:
            on_disk = dict(connection.execute("SELECT agent_id, MAX(seq) FROM events GROUP BY agent_id"))
        heard.append(emitted)
        seen.append(all(on_disk[agent_id] >= newest for agent_id, newest in emitted.items()))

    def emit(*agents: str) -> Callable[[Tx], None]:
        def write(tx: Tx) -> None:
            for agent_id in agents:
                tx.emit(agent_id, ControlApplied(action="x", surface="test"))

        return write

    store.listen(listen)
    await gathered(store, [emit("main"), emit("other", "main"), emit("main")])
    await store.write(emit("other"))
    await store.write(keep("quiet"))
    await asyncio.sleep(0)
    assert heard == [{"main": 3, "other": 1}, {"other": 2}]
    assert seen == [True, True]


async def test_a_listener_of_a_loop_that_has_ended_disturbs_nobody(store: Store):
    def other_loop() -> None:
        async def listen() -> None:
            store.listen(lambda emitted: None)

        asyncio.run(listen())

    await asyncio.to_thread(other_loop)
    await store.write(lambda tx: tx.emit("main", ControlApplied(action="x", surface="test")))
    assert await store.write(keep("still works")) == "still works"


async def test_whoever_gave_up_waiting_holds_nobody_else_up(store: Store, path: Path):
    gate = Gate()
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    impatient = asyncio.create_task(store.write(keep("impatient")))
    patient = asyncio.create_task(store.write(keep("patient")))
    await asyncio.sleep(0)
    impatient.cancel()
    gate.opened.set()
    assert await patient == "patient"
    await first
    assert kept(path) == {"impatient", "patient"}  # it was handed in: it happens, though nobody waits for it


async def test_closing_ends_after_what_was_handed_in_and_says_so_afterwards(store: Store, path: Path):
    waiting = [asyncio.create_task(store.write(keep(str(n)))) for n in range(50)]
    await asyncio.sleep(0)
    await asyncio.to_thread(store.close)
    assert set(await asyncio.gather(*waiting)) == kept(path) == {str(n) for n in range(50)}
    for call in (store.write(keep("late")), store.read(lambda tx: 1)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await asyncio.wait_for(call, 10)
    for blocking in (store.write_now, store.read_now):
        with pytest.raises(StoreUnavailable, match="closed"):
            blocking(keep("late"))
    store.close()


def test_closing_while_threads_write_leaves_nobody_waiting(store: Store, path: Path):
    def writes(thread: int) -> list[str]:
        done = []
        try:
            for n in range(10_000):
                done.append(store.write_now(keep(f"{thread}-{n}")))
        except StoreUnavailable:
            return done
        raise AssertionError("the store was not closed")

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(writes, thread) for thread in range(4)]
        while len(kept(path)) < 20:
            pass
        store.close()
        acknowledged = {key for future in running for key in future.result(timeout=30)}
    assert kept(path) == acknowledged
