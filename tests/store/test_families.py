"""What the record families of the store write, they read back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from holon.core.agents import AgentIdentity, AgentState, AgentStatus, RegistryStatus, Visibility
from holon.core.briefs import Brief
from holon.core.clock import ManualClock, moment, to_ms
from holon.core.errors import IdempotencyMismatch, StoreMisused
from holon.core.ids import new_id
from holon.core.tasks import TaskRecord, TaskStatus
from holon.core.timers import Timer, TimerStatus
from holon.core.transcripts import TranscriptKind
from holon.core.triggers import ExternalTrigger, TriggerStatus, WakeHint
from holon.core.turns import ToolCall, ToolCallStatus, Turn, TurnPhase
from holon.store import Store, Tx, agents, briefs, idempotency, outbox, tasks, timers, transcript, triggers, turns
from tests.core.samples import full, identity, smallest, state
from tests.store.calls import read, write, write_all


@pytest.mark.spec("RT-069")
def test_agent_state_survives_a_restart_with_every_field(store: Store, path: Path):
    saved = full(AgentState, id="main", pending=0)
    fresh = AgentState(id="main")
    unset = {name for name in AgentState.__struct_fields__ if getattr(saved, name) == getattr(fresh, name)}
    assert unset == {"id", "pending"}
    write(store, agents.save_state, saved)
    store.close()
    with closing(Store(path)) as again:
        stored = read(again, agents.get, "main")
    assert stored is not None
    assert stored.state == saved


def test_an_identity_is_saved_with_every_field_and_listed_by_what_it_says(store: Store):
    archived = full(AgentIdentity, agent_id="main", status=RegistryStatus.ARCHIVED)
    write(store, agents.save_identity, archived)
    stored = read(store, agents.get, "main")
    assert stored is not None
    assert stored.identity == archived
    assert [one.identity.agent_id for one in read(store, agents.listing)] == ["other"]


def test_agents_are_listed_by_page_visibility_parent_and_status(store: Store):
    child = identity("child", visibility=Visibility.PRIVATE, parent_agent_id="main")
    write(store, agents.insert, child, state("child", status=AgentStatus.ASLEEP))

    def ids(found: list[agents.StoredAgent]) -> list[str]:
        return [one.identity.agent_id for one in found]

    assert ids(read(store, agents.listing)) == ["child", "main", "other"]
    assert ids(read(store, agents.listing, after="child", limit=1)) == ["main"]
    assert ids(read(store, agents.listing, visibility=Visibility.PUBLIC)) == ["main", "other"]
    assert ids(read(store, agents.children, "main")) == ["child"]
    assert read(store, agents.ids_in_status, [AgentStatus.ASLEEP, AgentStatus.PAUSED]) == ["child"]
    assert read(store, agents.count_by_status) == {"asleep": 1, "booting": 2}
    assert read(store, agents.get, "nobody") is None


def test_an_agent_cannot_be_inserted_twice(store: Store):
    with pytest.raises(StoreMisused):
        write(store, agents.insert, identity(), state(status=AgentStatus.STOPPED))
    stored = read(store, agents.get, "main")
    assert stored is not None
    assert stored.state.status is AgentStatus.BOOTING


@pytest.mark.spec("RT-124")
def test_a_brief_comes_back_with_every_field(store: Store):
    brief = full(Brief, agent_id="main")
    write(store, briefs.insert, brief)
    assert read(store, briefs.get, "main", brief.id) == brief


def test_a_brief_keeps_its_work_item_and_loads_without_one(store: Store):
    bound = smallest(Brief, id=new_id("brief"), agent_id="main", work_item_id="work_1")
    free = smallest(Brief, id=new_id("brief"), agent_id="main")
    for brief in (bound, free):
        write(store, briefs.insert, brief)
    found = read(store, briefs.recent, "main")
    assert [brief.work_item_id for brief in found] == ["work_1", None]


def test_recent_briefs_are_the_newest_in_order_even_of_one_millisecond(store: Store):
    made = [smallest(Brief, id=new_id("brief", 5), agent_id="main", text=str(n)) for n in range(30)]

    def write(tx: Tx) -> None:
        for brief in made:
            briefs.insert(tx, brief)

    store.write_now(write)
    assert read(store, briefs.recent, "main", 5) == made[-5:]
    assert read(store, briefs.recent, "other") == []


def test_a_turn_is_saved_found_by_message_and_open_until_its_end(store: Store):
    turn = full(Turn, id="turn_1", agent_id="main", message_id="msg_1", turn_index=1, phase=TurnPhase.ROUND_BEGUN)
    later = msgspec.structs.replace(turn, id="turn_2", turn_index=2)
    write_all(store, turns.insert, [turn, later])
    assert read(store, turns.get, "turn_1") == turn
    assert read(store, turns.by_message, "msg_1") == later
    assert read(store, turns.open_turns) == [turn, later]
    ended = msgspec.structs.replace(turn, phase=TurnPhase.TERMINAL)
    write(store, turns.save, ended)
    assert read(store, turns.open_turns) == [later]
    assert read(store, turns.recent, "main", 5) == [later, ended]
    assert read(store, turns.started_at, "main", 1) == to_ms(turn.started_at)
    assert read(store, turns.started_at, "main", 9) is None


def test_two_turns_of_an_agent_cannot_have_one_index(store: Store):
    turn = full(Turn, id="turn_1", agent_id="main", turn_index=1)
    write(store, turns.insert, turn)
    with pytest.raises(StoreMisused):
        write(store, turns.insert, msgspec.structs.replace(turn, id="turn_2"))


def test_tool_calls_are_kept_in_the_order_of_the_round(store: Store):
    calls = [
        full(ToolCall, turn_id="turn_1", round=round_, ordinal=ordinal, status=ToolCallStatus.REQUESTED)
        for round_ in (1, 2)
        for ordinal in (0, 1)
    ]
    write(store, turns.insert_calls, calls[::-1])
    assert read(store, turns.calls, "turn_1") == calls
    done = msgspec.structs.replace(calls[3], status=ToolCallStatus.COMPLETED, result="done")
    write(store, turns.save_call, done)
    assert read(store, turns.calls, "turn_1", 2) == [calls[2], done]


def test_the_transcript_is_numbered_and_read_by_window(store: Store, clock: ManualClock):
    def write(tx: Tx) -> list[int]:
        return [
            transcript.append(tx, "main", TranscriptKind.INCOMING_MESSAGE, {"n": n}, message_id=f"msg_{n}")
            for n in range(6)
        ]

    assert store.write_now(write) == [1, 2, 3, 4, 5, 6]
    assert [entry.seq for entry in read(store, transcript.window, "main", limit=2)] == [5, 6]
    older = read(store, transcript.window, "main", before_seq=3)
    assert [(entry.seq, entry.related_message_id, entry.data) for entry in older] == [
        (1, "msg_0", {"n": 0}),
        (2, "msg_1", {"n": 1}),
    ]
    assert older[0].created_at == moment(clock.now_ms())
    assert [entry.seq for entry in read(store, transcript.after, "main", 4)] == [5, 6]
    assert read(store, transcript.window, "other") == []


def test_an_assistant_round_has_its_tokens_at_the_top_and_in_its_data(store: Store):
    data = {"stop_reason": "end_turn", "token_usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}}
    write(store, transcript.append, "main", TranscriptKind.ASSISTANT_ROUND, data, turn_id="turn_1", round_=2)
    (entry,) = read(store, transcript.window, "main")
    assert (entry.input_tokens, entry.output_tokens, entry.stop_reason) == (11, 7, "end_turn")
    assert (entry.turn_id, entry.round, entry.data) == ("turn_1", 2, data)


def test_timers_are_due_in_order_while_they_are_active(store: Store):
    def timer(n: int) -> Timer:
        return full(
            Timer,
            id=f"timer_{n}",
            agent_id="main",
            status=TimerStatus.ACTIVE,
            next_fire_at=moment(n * 1_000),
        )

    first, second, third = timer(1), timer(2), timer(3)
    write_all(store, timers.save, [third, first, second])
    assert read(store, timers.get, "timer_2") == second
    assert read(store, timers.due, 2_000) == [first, second]
    assert read(store, timers.next_due_ms) == 1_000
    ended = msgspec.structs.replace(first, status=TimerStatus.COMPLETED, next_fire_at=None)
    write(store, timers.save, ended)
    assert read(store, timers.due, 2_000) == [second]
    assert read(store, timers.of_agent, "main") == [third, second, ended]
    assert read(store, timers.of_agent, "main", active_only=True) == [third, second]
    assert read(store, timers.has_active, "main")
    assert not read(store, timers.has_active, "other")


def test_tasks_are_live_until_their_end_and_due_while_they_run(store: Store):
    sleeping = full(TaskRecord, id="task_1", agent_id="main", status=TaskStatus.RUNNING, due_at=moment(1_000))
    command = full(TaskRecord, id="task_2", agent_id="main", status=TaskStatus.RUNNING, due_at=None)
    write_all(store, tasks.save, [sleeping, command])
    assert read(store, tasks.get, "task_1") == sleeping
    assert read(store, tasks.due, 1_000) == [sleeping]
    assert read(store, tasks.due, 999) == []
    assert read(store, tasks.next_due_ms) == 1_000
    assert read(store, tasks.live, "main") == [sleeping, command]
    for status in TaskStatus:
        changed = msgspec.structs.replace(command, status=status)
        write(store, tasks.save, changed)
        assert (changed in read(store, tasks.live, "main")) is not status.terminal
        assert read(store, tasks.count_live) == (1 if status.terminal else 2)
    assert [task.id for task in read(store, tasks.of_agent, "main", limit=1)] == ["task_2"]


def test_an_agent_has_one_active_trigger(store: Store):
    first = full(ExternalTrigger, external_trigger_id="trig_1", target_agent_id="main", status=TriggerStatus.ACTIVE)
    second = msgspec.structs.replace(first, external_trigger_id="trig_2")
    write(store, triggers.save, first)
    assert read(store, triggers.active, "main") == first
    with pytest.raises(StoreMisused):
        write(store, triggers.save, second)
    revoked = msgspec.structs.replace(first, status=TriggerStatus.REVOKED)
    write_all(store, triggers.save, [revoked, second])
    assert read(store, triggers.active, "main") == second
    assert read(store, triggers.get, "trig_1") == revoked


def test_wake_hints_wait_in_order_with_their_payloads(store: Store):
    hints = [full(WakeHint, id=new_id("hint", 5), agent_id="main", reason=str(n)) for n in range(20)]
    write_all(store, triggers.add_hint, hints)
    assert read(store, triggers.hints, "main") == hints
    assert read(store, triggers.agents_with_hints) == ["main"]
    write(store, triggers.drop_hints, "main", [hint.id for hint in hints[:19]])
    assert read(store, triggers.hints, "main") == hints[19:]


def test_a_request_that_is_sent_again_gets_the_first_answer(store: Store):
    request = {"text": "hello", "priority": "next"}
    print_ = idempotency.fingerprint(request)
    assert write(store, idempotency.seen, "main", "key-1", print_) is None
    write(store, idempotency.remember, "main", "key-1", print_, "msg_1")
    again = idempotency.fingerprint({"priority": "next", "text": "hello"})
    assert write(store, idempotency.seen, "main", "key-1", again) == "msg_1"
    assert write(store, idempotency.seen, "other", "key-1", print_) is None
    assert write(store, idempotency.seen, "main", "key-2", print_) is None


def test_another_request_under_the_same_key_is_refused_and_told_what_to_do(store: Store):
    write(store, idempotency.remember, "main", "key-1", idempotency.fingerprint({"text": "a"}), "m")
    with pytest.raises(IdempotencyMismatch, match=r"'key-1' was used for another request.*take a new key"):
        write(store, idempotency.seen, "main", "key-1", idempotency.fingerprint({"text": "b"}))


def test_errands_are_kept_in_order_until_they_are_done(store: Store, clock: ManualClock):
    def put(tx: Tx) -> list[str]:
        return [outbox.put(tx, "index", {"n": n}) for n in range(50)]

    ids = store.write_now(put)
    due = read(store, outbox.due)
    assert [(errand.id, errand.topic, errand.payload, errand.attempts) for errand in due] == [
        (id_, "index", {"n": n}, 0) for n, id_ in enumerate(ids)
    ]
    write(store, outbox.done, ids[0])
    write(store, outbox.postpone, ids[1], 5_000)
    assert [errand.id for errand in read(store, outbox.due)] == ids[2:]
    clock.move(5_000)
    last = read(store, outbox.due)[-1]
    assert (last.id, last.attempts) == (ids[1], 1)


def test_an_errand_goes_with_the_write_that_asked_for_it(store: Store):
    def failing(tx: Tx) -> None:
        outbox.put(tx, "index", {})
        raise KeyError("x")

    with pytest.raises(KeyError):
        store.write_now(failing)
    assert read(store, outbox.due) == []
