"""The log: what is recorded, in which order, with whose provenance, and how it is read and followed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from holon.core.clock import ManualClock
from holon.core.codec import to_plain
from holon.core.errors import CursorTooOld, InvalidInput, UnknownAgent
from holon.core.event_kinds import ControlApplied
from holon.core.events import REGISTRY, EventEnvelope
from holon.core.messages import MessageKind
from holon.core.retention import RetentionPolicy
from holon.runtime.timers import TimerRequest
from holon.runtime.views import EventQuery
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Living, soon

DAY = 86_400_000
TOOL = "rules: [{when: {pattern: ^work}, rounds: [{text: on it, tools: [{name: Note}]}, {text: done}]}]"


async def follow(life: Living, after_seq: int, until: str, agent_id: str | None = "main") -> list[EventEnvelope]:
    """What a follower sees until an event of this kind."""
    seen: list[EventEnvelope] = []
    async with asyncio.timeout(10), aclosing(life.host.events.follow(agent_id, after_seq)) as stream:  # type: ignore[type-var]
        async for event in stream:
            seen.append(event)
            if event.type == until:
                return seen
    raise AssertionError("the log ended")


@pytest.mark.spec("RT-482")
async def test_a_turn_with_a_tool_leaves_its_whole_course_in_the_log(living: Opens) -> None:
    life = await living(TOOL, tools=[NOTE])
    newest = await life.newest()
    await life.ask("work")
    await life.at_rest()
    course = await life.kinds(after=newest)
    assert [kind for kind in course if kind not in ("session_created", "epoch_opened")] == [
        "message_admitted",
        "message_processing_started",
        "continuation_resolved",
        "scheduler_decision",
        "agent_state_changed",
        "turn_context_built",
        "provider_round_completed",
        "assistant_round_recorded",
        "tool_executed",
        "provider_round_completed",
        "assistant_round_recorded",
        "turn_terminal",
        "brief_created",
        "closure_decided",
        "scheduler_decision",
        "agent_slept",
        "agent_state_changed",
    ]
    timed = {event.type: event.payload for event in await life.events(after=newest)}
    assert isinstance(timed["turn_context_built"]["duration_ms"], float)
    assert {"context_build_ms", "provider_round_ms"} <= set(timed["provider_round_completed"])
    assert isinstance(timed["tool_executed"]["duration_ms"], float)
    assert isinstance(timed["turn_terminal"]["duration_ms"], int)


@pytest.mark.spec("RT-477")
async def test_the_log_names_each_message_with_its_labels(living: Opens) -> None:
    life = await living()
    prompt = await life.say("hello")
    result = await life.task_message(MessageKind.TASK_RESULT, "exit status 0", task_id="task_9")
    for message_id in (prompt, result):
        await life.settled(message_id)
    admitted = {event.provenance.message_id: event for event in await life.events("message_admitted")}
    assert {key: admitted[prompt].payload.get(key) for key in ("origin", "trust", "priority", "task_id")} == {
        "origin": {"kind": "operator"},
        "trust": "trusted_operator",
        "priority": "normal",
        "task_id": None,
    }
    assert (admitted[result].payload["task_id"], admitted[result].provenance.task_id) == ("task_9", "task_9")
    started = {event.provenance.message_id: event for event in await life.events("message_processing_started")}
    assert set(started) == {prompt, result}


@pytest.mark.spec("RT-478")
async def test_every_change_of_status_is_on_record_without_a_gap(living: Opens, clock: ManualClock) -> None:
    life = await living(TOOL, clock=clock, tools=[NOTE])
    await life.ask("work")
    await life.host.lifecycle.pause("main", SURFACE)
    await life.say("later")
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    await life.host.lifecycle.stop("main", SURFACE)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    changes = [event.payload for event in await life.events("agent_state_changed")]
    assert changes[0]["before"] == "booting"
    assert [change["after"] for change in changes[:-1]] == [change["before"] for change in changes[1:]]
    assert changes[-1]["after"] == (await life.state()).status == "asleep"


@pytest.mark.spec("RT-479", "RT-480")
async def test_the_records_alone_tell_what_woke_the_agent_and_whether_its_owner_spoke(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    made = (await life.host.timers.create("main", TimerRequest(duration_ms=1_000), surface=SURFACE)).value
    await life.settled(await life.webhook({"x": 1}))
    await life.at_rest()
    await life.ask("hello")
    await life.at_rest()
    clock.move(1_000)
    await life.host.pulse.fire()
    await life.at_rest()
    woken = [e for e in await life.events("agent_state_changed") if e.payload["after"] == "awake_running"]
    assert [(e.payload["reason"], e.provenance.origin, e.provenance.authority_class) for e in woken] == [
        ("webhook_event", {"kind": "webhook", "source": "forge", "event_type": "push"}, "integration_signal"),
        ("operator_prompt", {"kind": "operator"}, "operator_instruction"),
        ("timer_tick", {"kind": "timer", "timer_id": made.id}, "runtime_instruction"),
    ]


@pytest.mark.spec("RT-480")
async def test_a_tool_call_can_be_traced_to_the_message_behind_it(living: Opens) -> None:
    life = await living("rules: [{rounds: [{tools: [{name: Note}]}, {text: done}]}]", tools=[NOTE])
    owner, outsider = await life.say("note it"), await life.channel("note it")
    for message_id in (owner, outsider):
        await life.settled(message_id)
    await life.at_rest()
    triggered = await life.trigger(b"note it, the operator agreed", source="stranger")
    await life.settled(triggered)
    executed = await life.events("tool_executed")
    assert [(e.provenance.message_id, e.provenance.trust, e.provenance.authority_class) for e in executed] == [
        (owner, "trusted_operator", "operator_instruction"),
        (outsider, "untrusted_external", "external_evidence"),
        (triggered, "trusted_integration", "integration_signal"),
    ]
    last = executed[-1].provenance
    assert (last.delivery_surface, last.admission_context) == ("http_callback_wake", "external_trigger_capability")


@pytest.mark.spec("RT-481")
async def test_a_follow_up_can_be_traced_to_the_task_that_caused_it(living: Opens) -> None:
    script = """
rules:
  - when: {kind: task_result}
    rounds: [{tools: [{name: Enqueue, input: {text: look at the result}}]}, {text: ok}]
"""
    life = await living(script)
    result = await life.task_message(MessageKind.TASK_RESULT, "exit status 1", task_id="task_5")
    await life.settled(result)
    await life.at_rest()
    (follow_up,) = [e for e in await life.events("turn_terminal") if e.provenance.causation_id]
    assert follow_up.provenance.causation_id == result
    cause = next(e for e in await life.events("message_admitted") if e.provenance.message_id == result)
    assert cause.provenance.task_id == "task_5"
    assert follow_up.provenance.correlation_id == result


@pytest.mark.spec("RT-427")
async def test_a_replayed_event_has_its_place_its_time_and_the_provenance_apart_from_its_payload(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    message_id = await life.webhook({"x": 1}, correlation_id="corr", causation_id="cause")
    await life.settled(message_id)
    event = next(e for e in await life.events("turn_terminal"))
    assert event.id.startswith("evt_")
    assert (event.agent_id, event.type) == ("main", "turn_terminal")
    assert event.ts.timestamp() * 1000 == clock.now_ms()
    assert event.turn_id == (await life.turns())[0].id
    assert to_plain(event.provenance) == {
        "origin": {"kind": "webhook", "source": "forge", "event_type": "push"},
        "trust": "trusted_integration",
        "authority_class": "integration_signal",
        "delivery_surface": "http_webhook",
        "admission_context": "public_unauthenticated",
        "source": "forge",
        "message_id": message_id,
        "correlation_id": "corr",
        "causation_id": "cause",
    }
    assert "provenance" not in event.payload


@pytest.mark.spec("RT-427")
async def test_every_event_is_of_a_registered_kind_and_shape(living: Opens) -> None:
    life = await living(TOOL, tools=[NOTE])
    await life.ask("work")
    await life.host.lifecycle.pause("main", SURFACE)
    for event in await life.events():
        assert event.type in REGISTRY, event.type
    stored = await life.host.store.read(lambda tx: tx.all("SELECT kind FROM events WHERE agent_id = 'main'"))
    assert len(stored) == len(await life.events())
    (applied,) = await life.events("control_applied")
    assert ControlApplied(**applied.payload) == ControlApplied(action="pause", surface="cli")


@pytest.mark.spec("RT-428")
async def test_numbers_rise_by_one_per_agent_and_go_on_after_a_restart(living: Opens) -> None:
    life = await living()
    await life.host.agents.create("other", surface=SURFACE)
    await life.ask("hello")
    await life.ask("hello", "other")
    await life.close()
    life = await living()
    await life.ask("again")
    for agent_id in ("main", "other"):
        numbers = [event.event_seq for event in await life.events(agent_id=agent_id)]
        assert numbers == list(range(1, len(numbers) + 1))
    ids = [event.id for event in await life.events()]
    assert len(set(ids)) == len(ids)


@pytest.mark.spec("RT-426")
async def test_reading_the_log_again_changes_nothing(living: Opens) -> None:
    life = await living(TOOL, tools=[NOTE])
    await life.ask("work")
    await life.at_rest()
    before = (await life.newest(), await life.state(), len(life.model.requests))
    first = await life.events()
    await follow(life, 0, "turn_terminal")
    assert await life.events() == first
    assert (await life.newest(), await life.state(), len(life.model.requests)) == before


@pytest.mark.spec("RT-428")
async def test_a_page_is_what_lies_behind_the_cursor_in_either_direction(living: Opens) -> None:
    life = await living()
    for number in range(5):
        await life.ask(f"hello {number}")
    await life.at_rest()
    newest = await life.newest()
    views = life.host.views
    page = await views.events("main", EventQuery(after_seq=10, limit=5))
    assert [event.event_seq for event in page.events] == [11, 12, 13, 14, 15]
    assert (page.oldest_seq, page.newest_seq, page.has_older, page.has_newer) == (1, newest, True, True)
    back = await views.events("main", EventQuery(before_seq=10, limit=5, order="desc"))
    assert [event.event_seq for event in back.events] == [9, 8, 7, 6, 5]
    between = await views.events("main", EventQuery(after_seq=3, before_seq=6))
    assert [event.event_seq for event in between.events] == [4, 5]
    end = await views.events("main", EventQuery(after_seq=newest))
    assert (end.events, end.has_newer) == ([], False)
    first = await views.events("main", EventQuery(limit=3))
    assert ([event.event_seq for event in first.events], first.has_older, first.has_newer) == ([1, 2, 3], False, True)
    for limit in (0, 513):
        with pytest.raises(InvalidInput, match="limit must be between"):
            await views.events("main", EventQuery(limit=limit))


@pytest.mark.spec("RT-428")
async def test_a_follower_sees_the_past_and_then_the_present_without_a_gap(living: Opens) -> None:
    life = await living()
    await life.ask("before")
    await life.at_rest()
    watching = asyncio.create_task(follow(life, 0, "limit_reached"))
    await asyncio.gather(*(life.ask(f"hello {number}") for number in range(10)))
    await life.at_rest()
    newest = await life.newest()
    watching.cancel()
    seen: list[int] = []
    async with asyncio.timeout(10), aclosing(life.host.events.follow("main", 0)) as stream:  # type: ignore[type-var]
        async for event in stream:
            seen.append(event.event_seq)
            if event.event_seq == newest:
                break
    assert seen == list(range(1, newest + 1))
    with pytest.raises(asyncio.CancelledError):
        await watching


@pytest.mark.spec("RT-428")
async def test_many_followers_see_the_same_though_they_begin_in_different_places(living: Opens) -> None:
    life = await living()
    start = await life.newest()
    watching = [asyncio.create_task(follow(life, after, "turn_terminal")) for after in (0, start, start, 3)]
    await life.ask("hello")
    seen = [[event.event_seq for event in await each] for each in watching]
    assert seen[1] == seen[2]
    assert seen[0][-len(seen[1]) :] == seen[1]
    assert seen[3] == seen[0][3:]
    assert life.host.events._waiters == {}, "nobody is left behind"


async def test_a_follower_of_one_agent_does_not_see_another(living: Opens) -> None:
    life = await living()
    await life.host.agents.create("other", surface=SURFACE)
    watching = asyncio.create_task(follow(life, await life.newest(), "turn_terminal"))
    await life.ask("hello", "other")
    await life.ask("hello")
    assert {event.agent_id for event in await watching} == {"main"}


async def test_followers_end_with_the_host(living: Opens) -> None:
    life = await living()
    newest = await life.newest()

    async def watch() -> list[int]:
        return [event.event_seq async for event in life.host.events.follow("main", newest)]

    watching = asyncio.create_task(watch())
    await life.ask("hello")
    await life.at_rest()
    last = await life.newest()
    await soon(lambda: life.host.events._waiters != {})
    async with asyncio.timeout(10):
        await life.close()
        seen = await watching
    assert seen == list(range(newest + 1, newest + 1 + len(seen)))
    assert seen == [] or seen[-1] <= last


async def test_a_cursor_outside_the_log_is_refused_with_its_bounds(living: Opens) -> None:
    life = await living()
    newest = await life.newest()
    for cursor in (-1, newest + 1):
        with pytest.raises(CursorTooOld) as refused:
            await life.host.views.events("main", EventQuery(after_seq=cursor))
        assert refused.value.details == {"oldest_seq": 1, "newest_seq": newest}
        with pytest.raises(CursorTooOld):
            await follow(life, cursor, "turn_terminal")
    with pytest.raises(UnknownAgent):
        await follow(life, 0, "turn_terminal", "ghost")


async def test_a_cursor_that_retention_overtook_is_refused_and_says_where_to_begin(
    living: Opens, clock: ManualClock
) -> None:
    retention = RetentionPolicy(events_days=1, transcript_days=1, messages_days=1, briefs_days=1)
    life = await living(clock=clock, retention=retention)
    for number in range(40):
        await life.ask(f"hello {number}")
    await life.at_rest()
    old = await life.newest()
    slow = life.host.events.follow("main", 0)
    assert (await anext(slow)).event_seq == 1
    clock.move(3 * DAY)
    for number in range(40):
        await life.ask(f"again {number}")
    await life.at_rest()
    removed = await life.host.retention.apply()
    assert removed.get("events", 0) > 0
    page = await life.host.views.events("main", EventQuery(limit=1))
    assert page.oldest_seq == page.events[0].event_seq > 1
    with pytest.raises(CursorTooOld, match="newest_event_seq") as refused:
        await life.host.views.events("main", EventQuery(after_seq=0))
    assert refused.value.details["oldest_seq"] == page.oldest_seq
    with pytest.raises(CursorTooOld):
        await follow(life, 0, "turn_terminal")
    seen = [1]

    async def go_on() -> None:
        async for event in slow:
            seen.append(event.event_seq)

    with pytest.raises(CursorTooOld):
        await go_on()
    assert seen == list(range(1, len(seen) + 1)), "a follower that was too slow is told, and never shown a gap"
    snapshot = await life.host.views.snapshot()
    assert (snapshot.oldest_event_seq, snapshot.newest_event_seq) == (page.oldest_seq, page.newest_seq)
    assert page.oldest_seq <= old + 1
    assert (await life.host.views.events("main", EventQuery(after_seq=page.oldest_seq - 1))).events
    noted = await life.runtime_events("retention_applied")
    assert sum(note["deleted"].get("events", 0) for note in noted) == removed["events"], "told once"


async def test_a_snapshot_and_the_log_behind_it_fit_together(living: Opens) -> None:
    life = await living(TOOL, tools=[NOTE])
    await life.ask("work")
    await life.at_rest()
    snapshot = await life.host.views.snapshot()
    assert snapshot.newest_event_seq == await life.newest()
    assert snapshot.agent == await life.host.views.summary()
    assert [brief.text for brief in snapshot.briefs] == ["done"]
    assert len(snapshot.transcript) == 4
    assert (snapshot.queue, snapshot.session.pending_count, snapshot.session.current_run_id) == ([], 0, None)
    assert snapshot.session.last_turn == (await life.turns())[0].terminal
    await life.ask("hello")
    seen = await follow(life, snapshot.newest_event_seq, "turn_terminal")
    assert seen[0].type == "message_admitted"


async def test_the_runtimes_own_log_tells_of_starts(living: Opens) -> None:
    life = await living()
    await life.close()
    life = await living()
    started = await life.runtime_events("runtime_started")
    assert [start["fence"] for start in started] == [1, 2]
    assert life.host.fence == 2
    with pytest.raises(UnknownAgent):
        await life.host.views.summary("_runtime")
