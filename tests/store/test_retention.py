"""Retention: what is old goes, what is in use stays, the dry run changes nothing, and a limit on size is kept."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.agents import RegistryStatus
from holon.core.clock import ManualClock, SystemClock, moment
from holon.core.event_kinds import ControlApplied
from holon.core.events import RUNTIME_SCOPE
from holon.core.ids import new_id
from holon.core.ledger import CallRecord
from holon.core.messages import QueueStatus
from holon.core.models import Prices
from holon.core.retention import RetentionFamily, RetentionPlan, RetentionPolicy, RetentionReason
from holon.core.tasks import TaskRecord, TaskStatus
from holon.core.timers import Timer, TimerStatus
from holon.core.transcripts import TranscriptKind
from holon.core.turns import TurnPhase
from holon.store import (
    Store,
    Tx,
    agents,
    briefs,
    calls,
    epochs,
    events,
    queue,
    retention,
    tasks,
    timers,
    transcript,
    turns,
)
from holon.store.histories import NEWEST
from tests.core.samples import envelope, full, identity, state
from tests.store.calls import read, write
from tests.store.lives import DAY_MS, begin, counts, everything, live, move_window, settle

POLICY = RetentionPolicy()
#: So short that only what is protected stays.
SHORT = RetentionPolicy(events_days=1, transcript_days=1, messages_days=1, briefs_days=1, idempotency_days=1)


def plan(store: Store, policy: RetentionPolicy = POLICY, size_bytes: int = 0) -> RetentionPlan:
    return read(store, retention.plan, policy, size_bytes)


def rows(found: RetentionPlan) -> dict[str, int]:
    return {cut.family.value: cut.rows for cut in found.families if cut.rows}


def apply(store: Store, found: RetentionPlan, limit: int = 5_000) -> dict[str, int]:
    """All batches, added up."""
    removed: dict[str, int] = {}
    while batch := write(store, retention.apply, found, limit):
        for family, number in batch.items():
            removed[family] = removed.get(family, 0) + number
    return removed


def keep_going(store: Store) -> None:
    """The model's window is far ahead, so that it protects nothing by itself."""
    write(store, move_window, "main", 1_000_000)


def test_a_young_store_has_nothing_to_remove(store: Store, clock: ManualClock):
    live(store, clock, 20)
    assert rows(plan(store)) == {"idempotency": 13}


def test_the_dry_run_changes_nothing_and_says_what_would_go(store: Store, clock: ManualClock, path: Path):
    live(store, clock, 400)
    keep_going(store)
    before = everything(path)
    found = plan(store)
    assert everything(path) == before
    assert rows(found) == {
        "idempotency": 393,
        "events": 400 * 3 - NEWEST,  # the newest 200 reach further back than 30 days
        "transcript": 2 * 220,
        "messages": 220,
        "briefs": 35,
    }
    assert {cut.family: cut.before for cut in found.families} == {
        RetentionFamily.IDEMPOTENCY: moment(clock.now_ms() - 7 * DAY_MS),
        RetentionFamily.EVENTS: moment(clock.now_ms() - 30 * DAY_MS),
        RetentionFamily.TRANSCRIPT: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.CALLS: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.EPOCHS: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.BRIEFS: moment(clock.now_ms() - 365 * DAY_MS),
        RetentionFamily.MESSAGES: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.TIMERS: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.TASKS: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.LOADS: moment(clock.now_ms() - 180 * DAY_MS),
        RetentionFamily.SUMS: moment(clock.now_ms() - 400 * DAY_MS),
        RetentionFamily.AGENTS: moment(clock.now_ms() - 30 * DAY_MS),
    }
    assert (found.reason, found.short_bytes) == (RetentionReason.AGE, 0)


@pytest.mark.parametrize("limit", [5_000, 37])
def test_a_pass_removes_exactly_what_the_dry_run_said(store: Store, clock: ManualClock, path: Path, limit: int):
    live(store, clock, 300)
    keep_going(store)
    live(store, clock, 90, agent_id="other")
    found, before = plan(store), counts(path)
    assert apply(store, found, limit) == rows(found)
    after = counts(path)
    gone = {table: before[table] - after[table] for table in before if before[table] != after[table]}
    expected = rows(found) | {"queue": rows(found)["messages"]}
    expected |= {"turns": rows(found)["messages"], "tool_calls": rows(found)["messages"]}
    notes = len(read(store, events.after, RUNTIME_SCOPE, 0, 500))
    assert gone.pop("counters", -1) == -1  # the runtime has a log of its own now
    assert gone.pop("events") == expected.pop("events") - notes
    assert gone == expected
    assert plan(store).rows == 0
    assert write(store, retention.apply, found) == {}


def test_a_batch_is_bounded_and_noted_with_what_it_removed(store: Store, clock: ManualClock):
    live(store, clock, 300)
    keep_going(store)
    found = plan(store)
    batches = []
    while batch := write(store, retention.apply, found, 100):
        batches.append(batch)
    assert len(batches) > 5
    assert all(sum(batch.values()) <= 100 for batch in batches)
    notes = read(store, events.after, RUNTIME_SCOPE, 0, 500)
    assert [(note.kind, note.payload) for note in notes] == [
        ("retention_applied", {"deleted": batch, "reason": "age"}) for batch in batches
    ]


def test_the_start_of_a_log_is_told_so_that_an_old_cursor_can_be_refused(store: Store, clock: ManualClock):
    live(store, clock, 300)
    keep_going(store)
    found = plan(store)
    while write(store, retention.apply, found, 50):
        bounds = read(store, events.bounds, "main")
        first = read(store, events.after, "main", 0, 1)[0]
        assert bounds == (first.event_seq, 900)
    assert bounds.oldest == 900 - NEWEST + 1
    write(store, live_once, "main")
    assert read(store, events.bounds, "main") == (bounds.oldest, 903)


def live_once(tx: Tx, agent_id: str) -> None:
    settle(tx, begin(tx, agent_id))


def test_what_waits_or_is_claimed_stays_however_old_it_is(store: Store, clock: ManualClock):
    waiting, claimed = (envelope(id=new_id("msg", clock.now_ms())) for _ in range(2))
    write(store, queue.append, claimed)
    write(store, queue.claim_head, "main", "run_1")
    write(store, queue.append, waiting)
    clock.move(3_000 * DAY_MS)
    assert apply(store, plan(store, SHORT, 10)) == {}
    assert [one.message_id for one in read(store, queue.open_claims)] == [claimed.id]
    assert [one.envelope for one in read(store, queue.waiting, "main")] == [waiting]


def test_a_message_that_waited_for_long_and_was_settled_lately_stays(store: Store, clock: ManualClock):
    message = envelope(id=new_id("msg", clock.now_ms()))
    write(store, queue.append, message)
    clock.move(300 * DAY_MS)
    write(store, queue.claim_head, "main", "run_1")
    write(store, queue.settle, message.id, QueueStatus.PROCESSED)
    assert plan(store).rows == 0
    clock.move(181 * DAY_MS)
    assert rows(plan(store)) == {"messages": 1}


@pytest.mark.parametrize("max_bytes", [0, 1])
def test_an_open_turn_keeps_its_message_its_transcript_and_its_calls(store: Store, clock: ManualClock, max_bytes: int):
    """Also where the store is far too big, and the turn has more entries than an agent keeps anyway."""
    turn = write(store, begin)

    def more(tx: Tx) -> None:
        for round_ in range(2, 300):
            transcript.append(tx, "main", TranscriptKind.ASSISTANT_ROUND, {}, turn_id=turn.id, round_=round_)

    store.write_now(more)
    interjected = envelope(id=new_id("msg", clock.now_ms()))
    write(store, queue.append, interjected)
    write(store, queue.take_waiting, "main", interjected.id, QueueStatus.INTERJECTED, turn.run_id)
    clock.move(1_000 * DAY_MS)
    live(store, clock, 5, agent_id="other")
    policy = msgspec.structs.replace(SHORT, max_bytes=max_bytes)
    apply(store, plan(store, policy, 10_000_000))
    assert read(store, queue.message, turn.message_id) is not None
    assert read(store, queue.message, interjected.id) is not None
    assert read(store, turns.get, turn.id) == turn
    assert len(read(store, turns.calls, turn.id)) == 1
    assert len(read(store, transcript.after, "main", 0, 1_000)) == 300


def test_what_the_models_window_shows_stays_with_its_messages(store: Store, clock: ManualClock):
    live(store, clock, 150)
    write(store, move_window, "main", 20)  # entries 21 to 300: more than an agent keeps anyway
    clock.move(2_000 * DAY_MS)
    apply(store, plan(store, SHORT))
    kept = read(store, transcript.after, "main", 0, 1_000)
    assert [entry.seq for entry in kept] == list(range(21, 301))
    shown = [entry.related_message_id for entry in kept if entry.related_message_id]
    assert len(shown) == 140
    assert set(read(store, queue.messages, shown)) == set(shown)


def test_the_newest_of_an_agent_stay_whatever_their_age_with_the_messages_that_they_name(
    store: Store, clock: ManualClock
):
    live(store, clock, 250)
    keep_going(store)
    clock.move(2_000 * DAY_MS)
    apply(store, plan(store, SHORT))
    log = read(store, events.after, "main", 0, 1_000)
    assert [event.event_seq for event in log] == list(range(750 - NEWEST + 1, 751))
    assert all(found.provenance.origin for found in store.read_now(lambda tx: events.envelopes(tx, log)))
    entries = read(store, transcript.after, "main", 0, 1_000)
    assert [entry.seq for entry in entries] == list(range(500 - NEWEST + 1, 501))
    assert len(read(store, briefs.recent, "main", 1_000)) == NEWEST
    named = {entry.related_message_id for entry in entries} | {event.message_id for event in log}
    stored = {row[0] for row in store.read_now(lambda tx: tx.all("SELECT id FROM messages"))}
    assert stored == named - {None}


def test_an_archived_agent_keeps_nothing_for_its_newest_sake(store: Store, clock: ManualClock, path: Path):
    live(store, clock, 3)
    write(store, agents.save_identity, identity(status=RegistryStatus.ARCHIVED))
    clock.move(400 * DAY_MS)
    assert apply(store, plan(store)) == {
        "idempotency": 3, "events": 9, "transcript": 6, "briefs": 3, "messages": 3,
    }  # fmt: skip
    assert read(store, events.bounds, "main") == (10, 9)
    assert counts(path)["agents"] == 2


def test_timers_and_tasks_go_when_they_have_ended_and_stay_while_they_have_not(store: Store, clock: ManualClock):
    born = moment(clock.now_ms())
    parent = write(store, begin)
    write(store, settle, parent)

    def make(tx: Tx) -> None:
        for status in TimerStatus:
            timers.save(tx, _timer(tx, status, status))
        timers.save(
            tx, _timer(tx, TimerStatus.COMPLETED, "fired lately", last_fired_at=moment(tx.now_ms + 390 * DAY_MS))
        )
        for task_status in TaskStatus:
            task = full(
                TaskRecord,
                id=new_id("task", tx.now_ms),
                agent_id="main",
                status=task_status,
                created_at=born,
                updated_at=born,
                parent_message_id=parent.message_id,
            )
            tasks.save(tx, task)

    store.write_now(make)
    clock.move(200 * DAY_MS)
    live(store, clock, 100)  # so that the parent is far from the newest
    clock.move(100 * DAY_MS)
    found = plan(store)
    assert {family: rows(found)[family] for family in ("timers", "tasks")} == {"timers": 2, "tasks": 3}
    apply(store, found)
    left = read(store, timers.of_agent, "main")
    assert {timer.summary for timer in left} == {"active", "fired lately"}
    assert {task.status for task in read(store, tasks.of_agent, "main")} == set(TaskStatus) - {
        "completed", "failed", "cancelled",
    }  # fmt: skip
    assert read(store, queue.message, parent.message_id) is not None


def _timer(tx: Tx, status: TimerStatus, summary: str, **changes: Any) -> Timer:
    born = {"created_at": moment(tx.now_ms), "last_fired_at": moment(tx.now_ms)} | changes
    return full(Timer, id=new_id("timer", tx.now_ms), agent_id="main", status=status, summary=summary, **born)


def prompted(store: Store, clock: ManualClock, days: int) -> None:
    """A call to a model a day, in an epoch of ten days each, beginning with number 1."""

    def day(tx: Tx, n: int) -> None:
        epoch = n // 10 + 1
        if n % 10 == 0:
            epochs.insert(tx, "main", epoch, full(Timer))  # any record: the store does not look into a head
        calls.insert(tx, full(CallRecord, agent_id="main", seq=n + 1, epoch=epoch), full(Prices))
        agents.save_state(tx, state(total_model_rounds=n + 1, epoch=epoch, window_after=1_000_000))

    for n in range(days):
        write(store, day, n)
        clock.move(DAY_MS)


def test_calls_go_with_the_transcript_and_an_epoch_goes_with_its_last_call(store: Store, clock: ManualClock):
    prompted(store, clock, 405)
    found = plan(store)
    assert {family: rows(found)[family] for family in ("calls", "epochs")} == {"calls": 205, "epochs": 20}
    apply(store, found)
    left = read(store, calls.recent, "main", 1_000)
    assert [call.seq for call in left] == list(range(405, 205, -1))
    kept = [number for number in range(1, 42) if read(store, epochs.get, "main", number, Timer) is not None]
    assert kept == list(range(21, 42))
    assert {call.epoch for call in left} == set(kept)


def test_the_epoch_that_stands_stays_with_the_newest_calls_however_old_they_are(store: Store, clock: ManualClock):
    prompted(store, clock, 15)
    clock.move(5_000 * DAY_MS)
    assert rows(plan(store, SHORT)).keys() == {"sums"}
    write(store, agents.save_identity, identity(status=RegistryStatus.ARCHIVED))
    assert rows(plan(store, SHORT)) == {"calls": 15, "epochs": 2, "sums": 60}


def test_a_message_stays_for_as_long_as_events_of_its_time_do(store: Store, clock: ManualClock):
    live(store, clock, 300)
    keep_going(store)
    found = plan(store, RetentionPolicy(events_days=250, transcript_days=20, messages_days=10))
    assert rows(found)["messages"] == 50
    assert rows(found)["transcript"] == 2 * 300 - NEWEST


def test_retention_that_is_switched_off_removes_nothing(store: Store, clock: ManualClock):
    live(store, clock, 400)
    found = plan(store, RetentionPolicy(enabled=False, max_bytes=1), 10_000_000)
    assert (found.rows, found.short_bytes) == (0, 0)
    assert write(store, retention.apply, found) == {}


def test_a_plan_can_be_sent_and_comes_back_equal(store: Store, clock: ManualClock):
    live(store, clock, 300)
    found = plan(store)
    assert msgspec.json.decode(msgspec.json.encode(found), type=RetentionPlan) == found


# Clocks


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=NEWEST, max_size=NEWEST + 60), st.integers(1, 90))
def test_with_a_clock_that_only_goes_ahead_exactly_the_old_events_go(
    tmp_path_factory: Any, steps: list[int], days: int
):
    path = tmp_path_factory.mktemp("home") / "holon.sqlite3"
    clock = ManualClock()
    with closing(Store(path, clock=clock)) as store:
        write(store, agents.insert, identity(), state())
        born = []
        for step in steps:
            clock.move(step * DAY_MS)
            born.append(clock.now_ms())
        emit_at(store, born)
        found = plan(store, RetentionPolicy(events_days=days))
        old = [moment_ms for moment_ms in born[:-NEWEST] if moment_ms < clock.now_ms() - days * DAY_MS]
        assert rows(found).get("events", 0) == len(old)
        apply(store, found)
        left = read(store, events.after, "main", 0, 1_000)
        assert [event.event_seq for event in left] == list(range(len(old) + 1, len(steps) + 1))
        assert read(store, events.bounds, "main") == (len(old) + 1, len(steps))


def emit(tx: Tx, agent_id: str) -> None:
    tx.emit(agent_id, ControlApplied(action="x", surface="test"))


def emit_at(store: Store, moments: list[int]) -> None:
    """An event of `main` at each moment, in one commit."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for now_ms in moments:
            tx = Tx(connection, now_ms)
            emit(tx, "main")
            tx.flush_events()
        connection.execute("COMMIT")


def test_a_clock_that_ran_ahead_for_a_while_does_not_stop_retention(store: Store, clock: ManualClock):
    """The entries of that while have times in the future; they go with their neighbours."""
    start = clock.now_ms()
    emit_at(store, [start] * 50 + [start + 3_650 * DAY_MS] * 100 + [start] * 50)
    clock.move(40 * DAY_MS)
    emit_at(store, [clock.now_ms()] * NEWEST)
    assert apply(store, plan(store)) == {"events": 200}


def test_where_a_clock_was_set_back_young_entries_are_not_taken_for_old_ones(store: Store, clock: ManualClock):
    """A machine without a clock of its own wakes up in the past, writes, and is corrected."""
    start = clock.now_ms()
    clock.move(100 * DAY_MS)
    now = clock.now_ms()
    emit_at(store, [start] * 20 + [now] * 20 + [now - 5_000 * DAY_MS] * 200 + [now] * NEWEST)
    young_from = clock.now_ms() - 30 * DAY_MS
    before = [event for event in read(store, events.after, "main", 0, 1_000) if event.created_at >= moment(young_from)]
    apply(store, plan(store))
    after = read(store, events.after, "main", 0, 1_000)
    assert [event for event in after if event.created_at >= moment(young_from)] == before
    assert after[0].event_seq == read(store, events.bounds, "main").oldest == 21


# Size


async def test_a_store_that_is_too_big_is_brought_below_its_limit_oldest_first(store: Store, clock: ManualClock):
    live(store, clock, 400, text="x" * 3_000)
    keep_going(store)
    size = store.size_bytes()
    policy = RetentionPolicy(
        max_bytes=size // 2, events_days=1_000, transcript_days=1_000, messages_days=1_000, briefs_days=1_000
    )
    assert rows(plan(store, policy, 0)).keys() <= {"idempotency"}
    found = plan(store, policy, size)
    assert (found.reason, found.short_bytes) == (RetentionReason.SIZE, 0)
    removed = await retention.enforce(store, policy)
    assert store.size_bytes() <= policy.max_bytes
    assert removed["transcript"] < 2 * 400 - NEWEST, "more was taken than the limit asked for"
    left = [entry.seq for entry in read(store, transcript.after, "main", 0, 1_000)]
    assert left == list(range(left[0], 801))
    assert read(store, events.after, RUNTIME_SCOPE, 0, 1)[0].payload["reason"] == "size"


async def test_a_limit_that_cannot_be_kept_leaves_what_is_protected_and_says_so(store: Store, clock: ManualClock):
    live(store, clock, 300, text="x" * 2_000)
    keep_going(store)
    open_turn = write(store, begin)
    clock.move(DAY_MS)
    policy = RetentionPolicy(max_bytes=1)
    assert plan(store, policy, store.size_bytes()).short_bytes > 0
    await retention.enforce(store, policy)
    assert len(read(store, transcript.after, "main", 0, 1_000)) == NEWEST
    assert len(read(store, events.after, "main", 0, 1_000)) == NEWEST
    assert read(store, turns.get, open_turn.id) == open_turn
    assert await retention.enforce(store, policy) == {}


async def test_no_limit_on_size_is_no_limit(store: Store, clock: ManualClock):
    live(store, clock, 25, text="x" * 2_000)
    keep_going(store)
    assert rows(plan(store, RetentionPolicy(max_bytes=0), 10**15)).keys() <= {"idempotency"}


async def test_a_pass_lets_others_write_and_gives_the_disk_back_what_it_freed(
    store: Store, clock: ManualClock, path: Path
):
    live(store, clock, 700, text="x" * 3_000)
    keep_going(store)
    policy = RetentionPolicy(events_days=1, transcript_days=1, messages_days=1, briefs_days=1)
    running = asyncio.create_task(retention.enforce(store, policy))
    written = 0
    while not running.done():
        await store.write(lambda tx: emit(tx, "other"))
        written += 1
    removed = await running
    assert removed["transcript"] == 1_400 - NEWEST
    assert written > 3
    assert len(read(store, events.after, "other", 0, 100_000)) == written
    store.close()
    file_bytes = (await asyncio.to_thread(path.stat)).st_size
    with closing(Store(path)) as again:
        assert file_bytes <= again.size_bytes() * 1.2


# Crashes

PROGRAM = """
import asyncio, sys
from pathlib import Path
from holon.core.retention import RetentionPolicy
from holon.store import Store, retention
store = Store(Path(sys.argv[1]))
retention.BATCH_ROWS = 100
asyncio.run(retention.enforce(store, RetentionPolicy(events_days=1, transcript_days=1, messages_days=1)))
"""


@pytest.mark.parametrize("kill_at", ["before:1", "after:1", "before:3", "after:3"])
def test_a_pass_that_is_killed_leaves_whole_batches_and_is_finished_by_the_next(tmp_path: Path, kill_at: str):
    path = tmp_path / "holon.sqlite3"
    clock = ManualClock(SystemClock().now_ms() - 300 * DAY_MS)
    with closing(Store(path, clock=clock)) as store:
        write(store, agents.insert, identity(), state())
        live(store, clock, 250)
        keep_going(store)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        env={**os.environ, "HOLON_KILL_AT": f"retention.apply:{kill_at}"},
        check=False,
        timeout=60,
    )
    assert ran.returncode == -9
    with closing(Store(path)) as store:
        moment_, nth = kill_at.split(":")
        batches = int(nth) - (moment_ == "before")
        assert len(read(store, events.after, RUNTIME_SCOPE, 0)) == batches
        assert read(store, events.bounds, "main").oldest == read(store, events.after, "main", 0, 1)[0].event_seq
        hanging = "SELECT COUNT(*) FROM turns t LEFT JOIN messages m ON m.id = t.message_id WHERE m.id IS NULL"
        assert store.read_now(lambda tx: tx.one(hanging)) == (0,)
    assert subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=False, timeout=60).returncode == 0
    with closing(Store(path)) as store:
        assert len(read(store, events.after, "main", 0, 1_000)) == NEWEST
        assert {turn.phase for turn in read(store, turns.recent, "main", 1_000)} == {TurnPhase.TERMINAL}
