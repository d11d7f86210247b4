"""Readers see one moment, see what is committed, and change nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from holon.core.clock import ManualClock
from holon.core.errors import HolonError
from holon.store import Store, Tx


def _count(tx: Tx) -> int:
    row = tx.one("SELECT COUNT(*) FROM idempotency")
    assert row is not None
    return int(row[0])


def _add(tx: Tx) -> None:
    tx.run("INSERT INTO idempotency SELECT 'test', COUNT(*), '', '', 0 FROM idempotency")


async def test_a_read_sees_one_moment_while_others_write(store: Store):
    looked, written = threading.Event(), threading.Event()

    def twice(tx: Tx) -> tuple[int, int]:
        first = _count(tx)
        looked.set()
        assert written.wait(30)
        return first, _count(tx)

    await store.write(_add)
    reading = asyncio.create_task(store.read(twice))
    await asyncio.to_thread(looked.wait, 30)
    await store.write(_add)
    written.set()
    assert await reading == (1, 1)
    assert await store.read(_count) == 2


async def test_a_read_does_not_wait_for_the_writer_and_sees_nothing_of_an_open_write(store: Store):
    inside, go_on = threading.Event(), threading.Event()

    def slow(tx: Tx) -> None:
        _add(tx)
        inside.set()
        assert go_on.wait(30)

    writing = asyncio.create_task(store.write(slow))
    await asyncio.to_thread(inside.wait, 30)
    assert await store.read(_count) == 0
    go_on.set()
    await writing
    assert await store.read(_count) == 1


async def test_a_write_that_was_acknowledged_is_seen_by_every_later_read(store: Store):
    for n in range(1, 30):
        await store.write(_add)
        assert set(await asyncio.gather(*(store.read(_count) for _ in range(4)))) == {n}
        assert store.read_now(_count) == n


async def test_a_reader_cannot_write(store: Store):
    with pytest.raises(HolonError):
        await store.read(_add)
    assert await store.read(_count) == 0


async def test_an_error_in_a_read_is_the_callers_and_the_next_read_works(store: Store):
    def failing(tx: Tx) -> int:
        _count(tx)
        raise KeyError("x")

    for _ in range(10):
        with pytest.raises(KeyError):
            await store.read(failing)
    assert await store.read(_count) == 0


async def test_a_transaction_has_one_moment_of_time(store: Store, clock: ManualClock):
    def moments(tx: Tx) -> tuple[int, int]:
        before = tx.now_ms
        clock.move(1_000)
        return before, tx.now_ms

    before, after = await store.write(moments)
    assert before == after
    assert await store.write(lambda tx: tx.now_ms) == before + 1_000


async def test_the_size_is_that_of_the_records(store: Store, path: Path):
    before = store.size_bytes()
    await store.write(lambda tx: tx.run("INSERT INTO idempotency VALUES ('t', 'k', '', ?, 0)", "x" * 1_000_000))
    grown = store.size_bytes()
    assert 1_000_000 <= grown - before < 1_100_000
    await store.write(lambda tx: tx.run("DELETE FROM idempotency"))
    assert store.size_bytes() == before
    assert before % 4_096 == 0
