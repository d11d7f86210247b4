"""The event log: numbers without gaps, in the order of emission, paged by number, with the provenance of the cause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holon.core.clock import ManualClock, moment
from holon.core.event_kinds import ControlApplied, TaskCreated
from holon.core.events import RUNTIME_SCOPE, EventEnvelope, EventProvenance
from holon.core.messages import AdmissionContext, MessageEnvelope
from holon.store import Store, Tx, events, queue
from holon.store.events import Bounds
from tests.core.samples import ORIGINS, envelope, full
from tests.store.calls import read, write


def note(action: str) -> ControlApplied:
    return ControlApplied(action=action, surface="test")


def emit(store: Store, agent_id: str, *actions: str) -> None:
    def write(tx: Tx) -> None:
        for action in actions:
            tx.emit(agent_id, note(action))

    store.write_now(write)


def replay(store: Store) -> list[EventEnvelope]:
    return store.read_now(lambda tx: events.envelopes(tx, events.after(tx, "main", 0)))


def actions(store: Store, agent_id: str, after: int = 0, limit: int = 500) -> list[tuple[int, str]]:
    found = read(store, events.after, agent_id, after, limit)
    return [(event.event_seq, event.payload["action"]) for event in found]


async def test_events_of_concurrent_writes_have_numbers_without_gaps_and_keep_each_writes_order(store: Store):
    def write(n: int) -> Callable[[Tx], None]:
        def run(tx: Tx) -> None:
            for part in range(3):
                tx.emit("main" if n % 2 else "other", note(f"{n}.{part}"))
                tx.emit(RUNTIME_SCOPE, note(f"{n}.{part}"))
            if n % 7 == 0:
                raise KeyError(n)

        return run

    await asyncio.gather(*(store.write(write(n)) for n in range(120)), return_exceptions=True)
    kept = [n for n in range(120) if n % 7]
    for agent_id, mine in (("main", [n for n in kept if n % 2]), ("other", [n for n in kept if n % 2 == 0])):
        found = actions(store, agent_id, limit=1_000)
        assert [seq for seq, _ in found] == list(range(1, 3 * len(mine) + 1))
        assert [action for _, action in found] == [f"{n}.{part}" for n in mine for part in range(3)]
        assert read(store, events.bounds, agent_id) == Bounds(1, 3 * len(mine))
    assert [seq for seq, _ in actions(store, RUNTIME_SCOPE, limit=1_000)] == list(range(1, 3 * len(kept) + 1))


@pytest.mark.spec("RT-428")
def test_replay_from_a_cursor_gives_what_is_greater_in_order_and_numbers_rise_after_a_restart(store: Store, path: Path):
    emit(store, "main", "a", "b", "c")
    emit(store, "other", "elsewhere")
    assert actions(store, "main", after=1) == [(2, "b"), (3, "c")]
    store.close()
    with closing(Store(path)) as again:
        emit(again, "main", "d")
        assert actions(again, "main", after=2) == [(3, "c"), (4, "d")]
        assert actions(again, "main", after=4) == []
        assert read(again, events.bounds, "main") == Bounds(1, 4)


def test_pages_forward_and_backward_meet(store: Store):
    emit(store, "main", *(str(n) for n in range(25)))
    forward, cursor = [], 0
    while page := actions(store, "main", cursor, limit=4):
        forward += page
        cursor = page[-1][0]
    backward: list[int] = []
    before: int | None = None
    while found := read(store, events.before, "main", before, limit=4):
        backward += [event.event_seq for event in found]
        before = found[-1].event_seq
    assert [seq for seq, _ in forward] == list(range(1, 26)) == backward[::-1]


def test_an_agent_without_events_has_empty_bounds(store: Store):
    assert read(store, events.bounds, "main") == Bounds(1, 0)
    assert read(store, events.bounds, "nobody") == Bounds(1, 0)
    assert read(store, events.before, "main", None) == []


@pytest.mark.spec("RT-427")
def test_a_replayed_event_carries_the_provenance_of_the_message_that_caused_it(store: Store, clock: ManualClock):
    cause = full(
        MessageEnvelope,
        agent_id="main",
        origin=ORIGINS["webhook"],
        admission_context=AdmissionContext.CONTROL_AUTHENTICATED,
        metadata={"transport": "http", "reply_route": "route_1"},
    )

    def write(tx: Tx) -> None:
        queue.append(tx, cause)
        tx.emit("main", note("x"), message_id=cause.id, turn_id="turn_1")

    store.write_now(write)
    found = replay(store)
    assert found == [
        EventEnvelope(
            id=found[0].id,
            event_seq=1,
            ts=moment(clock.now_ms()),
            agent_id="main",
            type="control_applied",
            turn_id="turn_1",
            payload={"action": "x", "surface": "test"},
            provenance=EventProvenance(
                origin={"kind": "webhook", "source": "github", "event_type": "push"},
                trust=cause.trust,
                authority_class=cause.authority_class,
                delivery_surface=cause.delivery_surface,
                admission_context=cause.admission_context,
                transport="http",
                source="github",
                reply_route="route_1",
                message_id=cause.id,
                task_id=cause.task_id,
                work_item_id=cause.work_item_id,
                correlation_id=cause.correlation_id,
                causation_id=cause.causation_id,
            ),
        )
    ]
    assert found[0].id.startswith("evt_")


def test_what_an_unknown_caller_says_of_its_way_in_is_no_provenance(store: Store):
    cause = full(
        MessageEnvelope,
        agent_id="main",
        admission_context=AdmissionContext.PUBLIC_UNAUTHENTICATED,
        metadata={"transport": "the operator's own terminal", "reply_route": ["not", "a", "route"]},
    )

    def write(tx: Tx) -> None:
        queue.append(tx, cause)
        tx.emit("main", note("x"), message_id=cause.id)

    store.write_now(write)
    (event,) = replay(store)
    assert (event.provenance.transport, event.provenance.reply_route) == (None, None)


def test_an_event_whose_message_is_gone_still_names_it(store: Store):
    store.write_now(lambda tx: tx.emit("main", TaskCreated(task_id="task_1", task_kind="x"), message_id="msg_gone"))
    (found,) = replay(store)
    assert found.provenance == EventProvenance(message_id="msg_gone", task_id="task_1")


def test_reading_events_changes_nothing(store: Store, path: Path):
    message = envelope()
    write(store, queue.append, message)
    emit(store, "main", "a")
    before = store.read_now(lambda tx: tx.all("SELECT * FROM counters ORDER BY scope"))
    replay(store)
    assert store.read_now(lambda tx: tx.all("SELECT * FROM counters ORDER BY scope")) == before
