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


@pytest.mark.spec("RT-069")
def test_agent_state_survives_a_restart_with_every_field(store: Store, path: Path):
    saved = full(AgentState, id="main", pending=0)
    fresh = AgentState(id="main")
    unset = {name for name in AgentState.__struct_fields__ if getattr(saved, name) == getattr(fresh, name)}
    assert unset == {"id", "pending"}
    store.write_now(lambda tx: agents.save_state(tx, saved))
    store.close()
    with closing(Store(path)) as again:
        stored = again.read_now(lambda tx: agents.get(tx, "main"))
    assert stored is not None
    assert stored.state == saved


def test_an_identity_is_saved_with_every_field_and_listed_by_what_it_says(store: Store):
    archived = full(AgentIdentity, agent_id="main", status=RegistryStatus.ARCHIVED)
    store.write_now(lambda tx: agents.save_identity(tx, archived))
    stored = store.read_now(lambda tx: agents.get(tx, "main"))
    assert stored is not None
    assert stored.identity == archived
    assert [one.identity.agent_id for one in store.read_now(agents.listing)] == ["other"]


def test_agents_are_listed_by_page_visibility_parent_and_status(store: Store):
    child = identity("child", visibility=Visibility.PRIVATE, parent_agent_id="main")
    store.write_now(lambda tx: agents.insert(tx, child, state("child", status=AgentStatus.ASLEEP)))

    def ids(found: list[agents.StoredAgent]) -> list[str]:
        return [one.identity.agent_id for one in found]

    assert ids(store.read_now(agents.listing)) == ["child", "main", "other"]
    assert ids(store.read_now(lambda tx: agents.listing(tx, after="child", limit=1))) == ["main"]
    assert ids(store.read_now(lambda tx: agents.listing(tx, visibility=Visibility.PUBLIC))) == ["main", "other"]
    assert ids(store.read_now(lambda tx: agents.children(tx, "main"))) == ["child"]
    assert store.read_now(lambda tx: agents.ids_in_status(tx, [AgentStatus.ASLEEP, AgentStatus.PAUSED])) == ["child"]
    assert store.read_now(agents.count_by_status) == {"asleep": 1, "booting": 2}
    assert store.read_now(lambda tx: agents.get(tx, "nobody")) is None


def test_an_agent_cannot_be_inserted_twice(store: Store):
    with pytest.raises(StoreMisused):
        store.write_now(lambda tx: agents.insert(tx, identity(), state(status=AgentStatus.STOPPED)))
    stored = store.read_now(lambda tx: agents.get(tx, "main"))
    assert stored is not None
    assert stored.state.status is AgentStatus.BOOTING


@pytest.mark.spec("RT-124")
def test_a_brief_comes_back_with_every_field(store: Store):
    brief = full(Brief, agent_id="main")
    store.write_now(lambda tx: briefs.insert(tx, brief))
    assert store.read_now(lambda tx: briefs.get(tx, "main", brief.id)) == brief


@pytest.mark.spec("RT-125")
def test_a_brief_keeps_its_work_item_and_loads_without_one(store: Store):
    bound = smallest(Brief, id=new_id("brief"), agent_id="main", work_item_id="work_1")
    free = smallest(Brief, id=new_id("brief"), agent_id="main")
    for brief in (bound, free):
        store.write_now(lambda tx, brief=brief: briefs.insert(tx, brief))
    found = store.read_now(lambda tx: briefs.recent(tx, "main"))
    assert [brief.work_item_id for brief in found] == ["work_1", None]


def test_recent_briefs_are_the_newest_in_order_even_of_one_millisecond(store: Store):
    made = [smallest(Brief, id=new_id("brief", 5), agent_id="main", text=str(n)) for n in range(30)]

    def write(tx: Tx) -> None:
        for brief in made:
            briefs.insert(tx, brief)

    store.write_now(write)
    assert store.read_now(lambda tx: briefs.recent(tx, "main", 5)) == made[-5:]
    assert store.read_now(lambda tx: briefs.recent(tx, "other")) == []


def test_a_turn_is_saved_found_by_message_and_open_until_its_end(store: Store):
    turn = full(Turn, id="turn_1", agent_id="main", message_id="msg_1", turn_index=1, phase=TurnPhase.ROUND_BEGUN)
    later = msgspec.structs.replace(turn, id="turn_2", turn_index=2)
    store.write_now(lambda tx: (turns.insert(tx, turn), turns.insert(tx, later)))
    assert store.read_now(lambda tx: turns.get(tx, "turn_1")) == turn
    assert store.read_now(lambda tx: turns.by_message(tx, "msg_1")) == later
    assert store.read_now(turns.open_turns) == [turn, later]
    ended = msgspec.structs.replace(turn, phase=TurnPhase.TERMINAL)
    store.write_now(lambda tx: turns.save(tx, ended))
    assert store.read_now(turns.open_turns) == [later]
    assert store.read_now(lambda tx: turns.recent(tx, "main", 5)) == [later, ended]
    assert store.read_now(lambda tx: turns.started_at(tx, "main", 1)) == to_ms(turn.started_at)
    assert store.read_now(lambda tx: turns.started_at(tx, "main", 9)) is None


def test_two_turns_of_an_agent_cannot_have_one_index(store: Store):
    turn = full(Turn, id="turn_1", agent_id="main", turn_index=1)
    store.write_now(lambda tx: turns.insert(tx, turn))
    with pytest.raises(StoreMisused):
        store.write_now(lambda tx: turns.insert(tx, msgspec.structs.replace(turn, id="turn_2")))


def test_tool_calls_are_kept_in_the_order_of_the_round(store: Store):
    calls = [
        full(ToolCall, turn_id="turn_1", round=round_, ordinal=ordinal, status=ToolCallStatus.REQUESTED)
        for round_ in (1, 2)
        for ordinal in (0, 1)
    ]
    store.write_now(lambda tx: turns.insert_calls(tx, calls[::-1]))
    assert store.read_now(lambda tx: turns.calls(tx, "turn_1")) == calls
    done = msgspec.structs.replace(calls[3], status=ToolCallStatus.COMPLETED, result="done")
    store.write_now(lambda tx: turns.save_call(tx, done))
    assert store.read_now(lambda tx: turns.calls(tx, "turn_1", 2)) == [calls[2], done]


def test_the_transcript_is_numbered_and_read_by_window(store: Store, clock: ManualClock):
    def write(tx: Tx) -> list[int]:
        return [
            transcript.append(tx, "main", TranscriptKind.INCOMING_MESSAGE, {"n": n}, message_id=f"msg_{n}")
            for n in range(6)
        ]

    assert store.write_now(write) == [1, 2, 3, 4, 5, 6]
    assert [entry.seq for entry in store.read_now(lambda tx: transcript.window(tx, "main", limit=2))] == [5, 6]
    older = store.read_now(lambda tx: transcript.window(tx, "main", before_seq=3))
    assert [(entry.seq, entry.related_message_id, entry.data) for entry in older] == [
        (1, "msg_0", {"n": 0}),
        (2, "msg_1", {"n": 1}),
    ]
    assert older[0].created_at == moment(clock.now_ms())
    assert [entry.seq for entry in store.read_now(lambda tx: transcript.after(tx, "main", 4))] == [5, 6]
    assert store.read_now(lambda tx: transcript.window(tx, "other")) == []


def test_an_assistant_round_has_its_tokens_at_the_top_and_in_its_data(store: Store):
    data = {"stop_reason": "end_turn", "token_usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}}
    store.write_now(
        lambda tx: transcript.append(tx, "main", TranscriptKind.ASSISTANT_ROUND, data, turn_id="turn_1", round_=2)
    )
    (entry,) = store.read_now(lambda tx: transcript.window(tx, "main"))
    assert (entry.input_tokens, entry.output_tokens, entry.stop_reason) == (11, 7, "end_turn")
    assert (entry.turn_id, entry.round, entry.data) == ("turn_1", 2, data)


def test_timers_are_due_in_order_while_they_are_active(store: Store):
    def timer(n: int, **changes: object) -> Timer:
        return full(
            Timer,
            id=f"timer_{n}",
            agent_id="main",
            status=TimerStatus.ACTIVE,
            next_fire_at=moment(n * 1_000),
            **changes,
        )

    first, second, third = timer(1), timer(2), timer(3)
    store.write_now(lambda tx: [timers.save(tx, one) for one in (third, first, second)])
    assert store.read_now(lambda tx: timers.get(tx, "timer_2")) == second
    assert store.read_now(lambda tx: timers.due(tx, 2_000)) == [first, second]
    assert store.read_now(timers.next_due_ms) == 1_000
    ended = msgspec.structs.replace(first, status=TimerStatus.COMPLETED, next_fire_at=None)
    store.write_now(lambda tx: timers.save(tx, ended))
    assert store.read_now(lambda tx: timers.due(tx, 2_000)) == [second]
    assert store.read_now(lambda tx: timers.of_agent(tx, "main")) == [third, second, ended]
    assert store.read_now(lambda tx: timers.of_agent(tx, "main", active_only=True)) == [third, second]
    assert store.read_now(lambda tx: timers.has_active(tx, "main"))
    assert not store.read_now(lambda tx: timers.has_active(tx, "other"))


def test_tasks_are_live_until_their_end_and_due_while_they_run(store: Store):
    sleeping = full(TaskRecord, id="task_1", agent_id="main", status=TaskStatus.RUNNING, due_at=moment(1_000))
    command = full(TaskRecord, id="task_2", agent_id="main", status=TaskStatus.RUNNING, due_at=None)
    store.write_now(lambda tx: (tasks.save(tx, sleeping), tasks.save(tx, command)))
    assert store.read_now(lambda tx: tasks.get(tx, "task_1")) == sleeping
    assert store.read_now(lambda tx: tasks.due(tx, 1_000)) == [sleeping]
    assert store.read_now(lambda tx: tasks.due(tx, 999)) == []
    assert store.read_now(tasks.next_due_ms) == 1_000
    assert store.read_now(lambda tx: tasks.live(tx, "main")) == [sleeping, command]
    for status in TaskStatus:
        changed = msgspec.structs.replace(command, status=status)
        store.write_now(lambda tx, changed=changed: tasks.save(tx, changed))
        assert (changed in store.read_now(lambda tx: tasks.live(tx, "main"))) is not status.terminal
        assert store.read_now(tasks.count_live) == (1 if status.terminal else 2)
    assert [task.id for task in store.read_now(lambda tx: tasks.of_agent(tx, "main", limit=1))] == ["task_2"]


def test_an_agent_has_one_active_trigger(store: Store):
    first = full(ExternalTrigger, external_trigger_id="trig_1", target_agent_id="main", status=TriggerStatus.ACTIVE)
    second = msgspec.structs.replace(first, external_trigger_id="trig_2")
    store.write_now(lambda tx: triggers.save(tx, first))
    assert store.read_now(lambda tx: triggers.active(tx, "main")) == first
    with pytest.raises(StoreMisused):
        store.write_now(lambda tx: triggers.save(tx, second))
    revoked = msgspec.structs.replace(first, status=TriggerStatus.REVOKED)
    store.write_now(lambda tx: (triggers.save(tx, revoked), triggers.save(tx, second)))
    assert store.read_now(lambda tx: triggers.active(tx, "main")) == second
    assert store.read_now(lambda tx: triggers.get(tx, "trig_1")) == revoked


def test_wake_hints_wait_in_order_with_their_payloads(store: Store):
    hints = [full(WakeHint, id=new_id("hint", 5), agent_id="main", reason=str(n)) for n in range(20)]
    store.write_now(lambda tx: [triggers.add_hint(tx, hint) for hint in hints])
    assert store.read_now(lambda tx: triggers.hints(tx, "main")) == hints
    assert store.read_now(triggers.agents_with_hints) == ["main"]
    store.write_now(lambda tx: triggers.drop_hints(tx, "main", [hint.id for hint in hints[:19]]))
    assert store.read_now(lambda tx: triggers.hints(tx, "main")) == hints[19:]


def test_a_request_that_is_sent_again_gets_the_first_answer(store: Store):
    request = {"text": "hello", "priority": "next"}
    print_ = idempotency.fingerprint(request)
    assert store.write_now(lambda tx: idempotency.seen(tx, "main", "key-1", print_)) is None
    store.write_now(lambda tx: idempotency.remember(tx, "main", "key-1", print_, "msg_1"))
    again = idempotency.fingerprint({"priority": "next", "text": "hello"})
    assert store.write_now(lambda tx: idempotency.seen(tx, "main", "key-1", again)) == "msg_1"
    assert store.write_now(lambda tx: idempotency.seen(tx, "other", "key-1", print_)) is None
    assert store.write_now(lambda tx: idempotency.seen(tx, "main", "key-2", print_)) is None


def test_another_request_under_the_same_key_is_refused_and_told_what_to_do(store: Store):
    store.write_now(lambda tx: idempotency.remember(tx, "main", "key-1", idempotency.fingerprint({"text": "a"}), "m"))
    with pytest.raises(IdempotencyMismatch, match=r"'key-1' was used for another request.*take a new key"):
        store.write_now(lambda tx: idempotency.seen(tx, "main", "key-1", idempotency.fingerprint({"text": "b"})))


def test_errands_are_kept_in_order_until_they_are_done(store: Store, clock: ManualClock):
    def put(tx: Tx) -> list[str]:
        return [outbox.put(tx, "index", {"n": n}) for n in range(50)]

    ids = store.write_now(put)
    due = store.read_now(outbox.due)
    assert [(errand.id, errand.topic, errand.payload, errand.attempts) for errand in due] == [
        (id_, "index", {"n": n}, 0) for n, id_ in enumerate(ids)
    ]
    store.write_now(lambda tx: outbox.done(tx, ids[0]))
    store.write_now(lambda tx: outbox.postpone(tx, ids[1], 5_000))
    assert [errand.id for errand in store.read_now(outbox.due)] == ids[2:]
    clock.move(5_000)
    last = store.read_now(outbox.due)[-1]
    assert (last.id, last.attempts) == (ids[1], 1)


def test_an_errand_goes_with_the_write_that_asked_for_it(store: Store):
    def failing(tx: Tx) -> None:
        outbox.put(tx, "index", {})
        raise KeyError("x")

    with pytest.raises(KeyError):
        store.write_now(failing)
    assert store.read_now(outbox.due) == []
