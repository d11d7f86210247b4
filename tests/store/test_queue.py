"""The queue: served by priority and arrival, claimed with an attempt number, and counted beside the agent."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.clock import ManualClock
from holon.core.codec import dumps, to_plain
from holon.core.messages import AuthorityClass, JsonBody, MessageEnvelope, Priority, QueueStatus
from holon.store import Store, Tx, agents, queue
from tests.core.samples import ORIGINS, envelope, full, identity, state
from tests.store.calls import read, write


def put(store: Store, message: MessageEnvelope, source_key: str | None = None) -> MessageEnvelope:
    write(store, queue.append, message, source_key=source_key)
    return message


def claim(store: Store, agent_id: str = "main", run_id: str = "run_1") -> queue.Claimed | None:
    return write(store, queue.claim_head, agent_id, run_id)


def pending(store: Store, agent_id: str = "main") -> int:
    stored = read(store, agents.get, agent_id)
    assert stored is not None
    assert stored.state.pending == stored.counters.pending
    return stored.counters.pending


def entry(store: Store, message_id: str) -> Any:
    found = read(store, queue.entry, message_id)
    assert found is not None
    return found


def drain(store: Store, agent_id: str = "main") -> list[str]:
    ids = []
    while claimed := claim(store, agent_id):
        ids.append(claimed.envelope.id)
    return ids


@pytest.mark.spec("RT-035")
def test_messages_are_claimed_by_priority_whatever_the_order_of_arrival(store: Store):
    for priority in ("background", "normal", "next", "interject"):
        put(store, envelope(text=priority, priority=Priority(priority)))
    served = []
    while claimed := claim(store):
        served.append(claimed.envelope.text)
    assert served == ["interject", "next", "normal", "background"]


@pytest.mark.spec("RT-036")
@pytest.mark.parametrize("priority", Priority)
def test_messages_of_one_priority_are_claimed_in_the_order_of_arrival(store: Store, priority: Priority):
    sent = [put(store, envelope(priority=priority)).id for _ in range(20)]
    assert drain(store) == sent


@pytest.mark.spec("RT-035", "RT-036")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(Priority), st.just("claim")), max_size=25))
def test_the_head_is_always_the_first_arrived_of_the_most_urgent(steps: list[Any]):
    """Arrivals and claims in any order, against a list that is sorted by hand."""
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder) / "holon.sqlite3")) as store:
        write(store, agents.insert, identity(), state())
        waiting: list[tuple[int, int, str]] = []
        for place, step in enumerate(steps):
            if step == "claim":
                claimed = claim(store)
                expected = waiting.pop(0)[2] if waiting else None
                assert (claimed.envelope.id if claimed else None) == expected
            else:
                message = put(store, envelope(priority=step))
                waiting = sorted([*waiting, (step.lane, place, message.id)])
            listed = read(store, queue.waiting, "main")
            assert [one.envelope.id for one in listed] == [id_ for _, _, id_ in waiting]
            assert pending(store) == len(waiting)


def test_each_agent_has_a_queue_of_its_own(store: Store):
    mine, others = put(store, envelope("main")), put(store, envelope("other"))
    assert read(store, queue.agents_with_waiting) == ["main", "other"]
    assert drain(store, "other") == [others.id]
    assert drain(store, "main") == [mine.id]


def test_an_append_tells_how_many_wait(store: Store):
    assert [write(store, queue.append, envelope()) for _ in range(3)] == [1, 2, 3]
    claim(store)
    assert write(store, queue.append, envelope()) == 3


def test_a_claim_has_its_run_and_its_attempt_and_is_taken_once(store: Store, clock: ManualClock):
    message = put(store, envelope())
    clock.move(250)
    claimed = claim(store, run_id="run_7")
    assert claimed is not None
    assert claimed.envelope == message
    assert (claimed.entry.status, claimed.entry.run_id, claimed.entry.attempt) == ("dequeued", "run_7", 1)
    assert (claimed.entry.updated_at - claimed.entry.created_at).total_seconds() == 0.25
    assert claim(store) is None
    assert pending(store) == 0
    assert [one.message_id for one in read(store, queue.open_claims)] == [message.id]


def test_a_claim_that_a_dead_process_left_is_taken_up_with_one_attempt_more(store: Store, path: Path):
    message = put(store, envelope())
    claim(store, run_id="run_7")
    store.close()
    with closing(Store(path)) as again:
        taken = write(again, queue.claim_again, message.id)
        assert taken is not None
        assert (taken.entry.run_id, taken.entry.attempt, taken.envelope) == ("run_7", 2, message)


def test_only_a_claimed_message_can_be_claimed_again(store: Store):
    waiting, done = put(store, envelope()), put(store, envelope(priority=Priority.NEXT))
    claim(store)
    write(store, queue.settle, done.id, QueueStatus.PROCESSED)
    for message_id in (waiting.id, done.id, "msg_unknown"):
        assert write(store, queue.claim_again, message_id) is None
    assert entry(store, waiting.id).attempt == 0


@pytest.mark.parametrize("status", ["processed", "aborted", "dropped"])
def test_a_settled_message_is_at_its_end(store: Store, status: str):
    message = put(store, envelope())
    claim(store)
    write(store, queue.settle, message.id, QueueStatus(status))
    assert entry(store, message.id).status == status
    assert claim(store) is None
    assert read(store, queue.open_claims) == []
    assert pending(store) == 0


def test_a_message_that_waits_cannot_be_settled_past_the_count(store: Store):
    message = put(store, envelope())
    write(store, queue.settle, message.id, QueueStatus.PROCESSED)
    assert entry(store, message.id).status == "queued"
    assert pending(store) == 1


def test_a_message_that_is_put_back_waits_in_its_old_place(store: Store):
    first, second = put(store, envelope()), put(store, envelope())
    claim(store)
    write(store, queue.put_back, "main", first.id)
    assert pending(store) == 2
    write(store, queue.put_back, "main", second.id)  # it waits: there is nothing to put back
    assert pending(store) == 2
    assert drain(store) == [first.id, second.id]
    assert entry(store, first.id).attempt == 2


@pytest.mark.parametrize("status", ["interjected", "dropped"])
def test_a_message_that_waits_can_be_taken_out_once(store: Store, status: str):
    first, message = put(store, envelope()), put(store, envelope())
    taking: Callable[[Tx], bool] = lambda tx: queue.take_waiting(  # noqa: E731 - twice the same
        tx, "main", message.id, QueueStatus(status), "run_3"
    )
    assert store.write_now(taking) is True
    assert store.write_now(taking) is False
    found = entry(store, message.id)
    assert (found.status, found.run_id, found.attempt) == (status, "run_3", 0)
    assert pending(store) == 1
    assert drain(store) == [first.id]


def test_a_claimed_message_or_another_agents_cannot_be_taken_out(store: Store):
    claimed, others = put(store, envelope()), put(store, envelope("other"))
    claim(store)
    for message_id in (claimed.id, others.id, "msg_unknown"):
        assert not write(store, queue.take_waiting, "main", message_id, QueueStatus.DROPPED)
    assert (pending(store, "main"), pending(store, "other")) == (0, 1)


def test_what_waits_of_one_source_is_found_until_it_is_claimed_or_taken_out(store: Store):
    ticks = [put(store, envelope(), source_key="timer:1").id for _ in range(3)]
    put(store, envelope(), source_key="timer:2")
    put(store, envelope())
    assert read(store, queue.waiting_from, "timer:1") == ticks
    assert drain(store)[:1] == ticks[:1]
    assert read(store, queue.waiting_from, "timer:1") == []


@pytest.mark.spec("RT-006")
@pytest.mark.parametrize("origin", ORIGINS)
def test_every_origin_comes_out_of_the_queue_as_structured_data(store: Store, origin: str):
    put(store, envelope(origin=ORIGINS[origin]))
    claimed = claim(store)
    assert claimed is not None
    assert claimed.envelope.origin == ORIGINS[origin]


def test_a_json_body_comes_out_of_the_queue_as_a_json_value(store: Store):
    value = {"action": "opened", "labels": ["a", None], "number": 7, "draft": False}
    put(store, envelope(body=JsonBody(value=value)))
    claimed = claim(store)
    assert claimed is not None
    assert claimed.envelope.body == JsonBody(value=value)


@pytest.mark.spec("RT-044")
def test_what_was_given_at_intake_is_there_after_a_restart(store: Store, path: Path):
    sent = [
        put(store, envelope(origin=origin, priority=priority)) for origin in ORIGINS.values() for priority in Priority
    ]
    sent.append(put(store, full(MessageEnvelope, agent_id="main", priority=Priority.BACKGROUND)))
    store.close()
    with closing(Store(path)) as again:
        listed = [claimed.envelope for claimed in read(again, queue.waiting, "main")]
    assert sorted(listed, key=lambda one: one.id) == sorted(sent, key=lambda one: one.id)


@pytest.mark.spec("RT-045")
def test_the_intake_log_only_grows_and_is_never_rewritten(store: Store, path: Path):
    def log() -> list[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as connection:
            return list(connection.execute("SELECT id, envelope FROM messages ORDER BY id"))

    for _ in range(4):
        put(store, envelope())
    before = log()
    claimed = [claim(store), claim(store)]
    for one, status in zip(claimed, (QueueStatus.PROCESSED, QueueStatus.ABORTED), strict=True):
        assert one is not None
        write(store, queue.settle, one.entry.message_id, status)
    put(store, envelope())
    assert log()[:4] == before
    assert len(log()) == 5


@pytest.mark.spec("RT-018")
def test_a_message_that_was_stored_without_an_authority_class_is_read_from_the_queue(store: Store, path: Path):
    put(store, message := envelope(origin=ORIGINS["webhook"]))
    old = to_plain(message)
    del old["authority_class"]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET envelope = ?", (dumps(old),))
    assert read(store, queue.message, message.id) == message
    claimed = claim(store)
    assert claimed is not None
    assert claimed.envelope.authority_class is AuthorityClass.INTEGRATION_SIGNAL


def test_messages_are_found_by_id_and_unknown_ones_are_left_out(store: Store):
    one, two = put(store, envelope()), put(store, envelope("other"))
    assert read(store, queue.messages, [one.id, two.id, "msg_x"]) == {one.id: one, two.id: two}
    assert read(store, queue.messages, []) == {}
    assert read(store, queue.message, "msg_x") is None
    assert read(store, queue.entry, "msg_x") is None
