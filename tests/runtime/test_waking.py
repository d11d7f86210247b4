"""Sleep and waking: what ends a rest, and what becomes of hints that something changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon.core.agents import AgentStatus
from holon.core.clock import ManualClock, moment
from holon.core.closures import ClosureOutcome, ContinuationClass, WaitingReason
from holon.core.codec import from_plain
from holon.core.errors import AgentStopped
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    CallbackOrigin,
    DeliverySurface,
    JsonBody,
    MessageEnvelope,
    MessageKind,
    Priority,
    SystemOrigin,
    TextBody,
    TimerOrigin,
    Trust,
)
from holon.core.tasks import TaskKind, TaskStatus
from holon.core.transcripts import TranscriptKind
from holon.core.triggers import HintDisposition, WakeHint
from holon.runtime.waking import WakeRequest
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Gate, Living

REST = """
rules:
  - when: {pattern: "^rest (\\\\d+)"}
    rounds: [{text: good night, tools: [{name: Sleep, input: {reason: until it is built, duration_ms: DURATION}}]}]
  - when: {pattern: "^rest"}
    rounds: [{text: good night, tools: [{name: Sleep, input: {reason: nothing to do}}]}]
  - when: {pattern: "^nap and go on"}
    rounds: [{tools: [{name: Sleep, input: {duration_ms: 50}}, {name: Wait}]}, {text: still here}]
"""


def resting(duration_ms: int) -> str:
    return REST.replace("DURATION", str(duration_ms))


async def wake(life: Living, reason: str = "look", **more: Any) -> HintDisposition:
    request = WakeRequest(reason=reason, **more)
    return (await life.host.waking.wake("main", request, surface=SURFACE)).disposition


async def deliver(life: Living, payload: bytes = b"", **more: Any) -> HintDisposition:
    return await life.deliver(payload, **more)


async def ticks(life: Living) -> list[MessageEnvelope]:
    return [envelope for envelope in await life.messages() if envelope.kind is MessageKind.SYSTEM_TICK]


def carried(tick: MessageEnvelope) -> list[WakeHint]:
    assert isinstance(tick.body, JsonBody)
    return from_plain(tick.body.value["wake_hints"], list[WakeHint])


# What wakes


@pytest.mark.spec("RT-128", "RT-479")
async def test_each_of_these_kinds_wakes_a_sleeper_and_is_remembered_as_the_reason(living: Opens) -> None:
    life = await living()
    arrivals = {
        "operator_prompt": life.say("hello"),
        "channel_event": life.channel("hello"),
        "webhook_event": life.webhook({"x": 1}),
        "callback_event": life.admit(  # as older records have it: a delivery of today comes as the tick below
            MessageKind.CALLBACK_EVENT,
            CallbackOrigin(descriptor_id="trig_1"),
            "x",
            DeliverySurface.HTTP_CALLBACK_ENQUEUE,
            AdmissionContext.EXTERNAL_TRIGGER_CAPABILITY,
        ),
        "timer_tick": life.tick(),
        "task_result": life.task_message(MessageKind.TASK_RESULT, "done"),
        "task_status": life.task_message(MessageKind.TASK_STATUS, "half done"),
        "system_tick:wake_hint": life.trigger(b"news"),
    }
    for reason, arrival in arrivals.items():
        assert await life.status() is AgentStatus.ASLEEP
        newest = await life.newest()
        await life.settled(await arrival)
        await life.at_rest()
        assert (await life.state()).last_wake_reason == reason
        woken = [e for e in await life.events("agent_state_changed", after=newest) if e.payload["before"] == "asleep"]
        assert [e.payload["reason"] for e in woken] == ([] if reason == "task_status" else [reason])
        assert len(await life.events("message_processing_started", after=newest)) == 1


@pytest.mark.spec("RT-129")
async def test_an_agent_with_more_to_do_does_not_fall_asleep(living: Opens) -> None:
    life = await living(resting(0))
    await life.host.lifecycle.pause("main", SURFACE)
    await life.say("rest")
    await life.say("hello")
    newest = await life.newest()
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    assert len(await life.events("agent_slept", after=newest)) == 1
    kinds = await life.kinds(after=newest)
    assert kinds.index("agent_slept") > max(n for n, kind in enumerate(kinds) if kind == "turn_terminal")


@pytest.mark.spec("RT-129")
async def test_a_follow_up_queued_in_the_round_that_rests_keeps_the_agent_awake(living: Opens) -> None:
    script = """
rules:
  - when: {kind: operator_prompt}
    rounds:
      - tools: [{name: Enqueue, input: {text: check again}}]
      - tools: [{name: Sleep, input: {reason: later}}]
"""
    life = await living(script)
    newest = await life.newest()
    await life.ask("watch it")
    await life.at_rest()
    steps = [e.payload["after"] for e in await life.events("agent_state_changed", after=newest)]
    assert steps == ["awake_running", "awake_idle", "awake_running", "asleep"]


# Sleep


@pytest.mark.spec("RT-130", "RT-131")
async def test_sleep_without_a_duration_rests_until_something_comes(living: Opens, clock: ManualClock) -> None:
    life = await living(resting(0), clock=clock)
    clock.move(5_000)
    await life.ask("rest")
    state = (await life.at_rest()).agent
    assert (state.status, state.sleeping_until, state.active_task_ids) == (AgentStatus.ASLEEP, None, [])
    assert state.sleep is not None
    assert (state.sleep.since, state.sleep.reason, state.sleep.expected_wake) == (
        moment(clock.now_ms()),
        "nothing to do",
        None,
    )
    clock.move(365 * 86_400_000)
    await life.host.pulse.fire()
    assert len(await life.turns()) == 1
    assert await life.status() is AgentStatus.ASLEEP
    slept = (await life.events("agent_slept"))[-1]
    assert slept.payload == {"reason": "nothing to do"}
    assert (await life.ask("hello")).turn is not None


@pytest.mark.spec("RT-130", "RT-132")
async def test_sleep_with_a_duration_ends_after_it_and_the_agent_is_told(living: Opens, clock: ManualClock) -> None:
    life = await living(resting(60_000), clock=clock)
    await life.ask("rest 60")
    summary = await life.at_rest()
    due = moment(clock.now_ms() + 60_000)
    assert summary.agent.sleeping_until == due
    assert summary.agent.sleep is not None
    assert (summary.agent.sleep.reason, summary.agent.sleep.expected_wake) == ("until it is built", "a timer")
    assert (summary.closure.outcome, summary.closure.waiting_reason) == (
        ClosureOutcome.WAITING,
        WaitingReason.AWAITING_TIMER,
    )
    (job,) = await life.tasks()
    assert (job.kind, job.status, job.due_at) == (TaskKind.SLEEP_JOB, TaskStatus.RUNNING, due)
    clock.move(59_999)
    await life.host.pulse.fire()
    assert len(await life.messages()) == 1
    clock.move(1)
    await life.host.pulse.fire()
    await life.at_rest()
    tick = (await life.messages())[-1]
    assert (tick.kind, tick.origin, tick.trust) == (
        MessageKind.TIMER_TICK,
        TimerOrigin(timer_id=job.id),
        Trust.TRUSTED_SYSTEM,
    )
    assert "60000 ms" in tick.text
    assert "until it is built" in life.model.shown
    state = await life.state()
    assert (state.sleeping_until, state.active_task_ids, state.last_wake_reason) == (None, [], "timer_tick")
    assert [task.status for task in await life.tasks()] == [TaskStatus.COMPLETED]
    assert (await life.at_rest()).closure.outcome is ClosureOutcome.COMPLETED


@pytest.mark.spec("RT-133")
async def test_a_duration_of_zero_is_no_duration(living: Opens) -> None:
    life = await living(resting(0))
    await life.ask("rest 0")
    state = (await life.at_rest()).agent
    assert (state.sleeping_until, state.active_task_ids) == (None, [])
    assert await life.tasks() == []
    (entry,) = await life.transcript(TranscriptKind.TOOL_RESULTS)
    assert msgspec.json.decode(entry.data["results"][0]["content"]) == {
        "ok": True,
        "reason": "until it is built",
        "duration_ms": None,
    }


async def test_a_negative_duration_is_refused_and_told_to_the_model(living: Opens) -> None:
    script = 'rules: [{rounds: [{tools: [{name: Sleep, input: {duration_ms: -5}}]}, {text: "{result}"}]}]'
    life = await living(script)
    await life.ask("rest")
    (brief,) = await life.briefs()
    assert "invalid_tool_input" in brief.text
    assert "duration_ms" in brief.text
    assert await life.tasks() == []


@pytest.mark.spec("RT-134")
async def test_the_schema_of_sleep_offers_positive_durations_and_advises_to_leave_it_out(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    (spec,) = [tool for tool in life.model.requests[0].tools if tool.name == "Sleep"]
    duration = spec.input_schema["properties"]["duration_ms"]
    assert duration["minimum"] == 1
    assert "Leave it out" in duration["description"]
    assert "leave it out" in spec.description
    assert "duration_ms" not in spec.input_schema.get("required", [])


@pytest.mark.spec("RT-136", "RT-148")
async def test_no_tool_makes_ticks_or_triggers(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    names = {tool.name for tool in life.model.requests[0].tools}
    assert "Sleep" in names
    assert not [name for name in names if "tick" in name.lower() or "trigger" in name.lower()]


@pytest.mark.spec("RT-132")
async def test_a_bounded_sleep_ends_on_time_after_a_restart(living: Opens, clock: ManualClock) -> None:
    life = await living(resting(60_000), clock=clock)
    await life.ask("rest 60")
    await life.at_rest()
    await life.close()
    clock.move(10_000)
    life = await living(resting(60_000), clock=clock)
    await life.host.pulse.fire()
    assert len(await life.messages()) == 1
    clock.move(50_000)
    await life.host.pulse.fire()
    await life.at_rest()
    assert [turn.turn_index for turn in await life.turns()] == [1, 2]
    assert (await life.state()).last_wake_reason == "timer_tick"


async def test_a_sleep_that_ended_while_the_host_was_down_ends_at_the_start(living: Opens, clock: ManualClock) -> None:
    life = await living(resting(60_000), clock=clock)
    await life.ask("rest 60")
    await life.at_rest()
    await life.close()
    clock.move(3_600_000)
    life = await living(resting(60_000), clock=clock, booted=False)
    await life.event("task_status_updated")
    await life.at_rest()
    assert len(await life.turns()) == 2


async def test_a_newer_sleep_takes_the_place_of_an_older_one(living: Opens, clock: ManualClock) -> None:
    life = await living(resting(60_000), clock=clock)
    await life.ask("rest 60")
    clock.move(30_000)
    await life.ask("rest 60")
    jobs = sorted(await life.tasks(), key=lambda task: task.id)
    assert [job.status for job in jobs] == [TaskStatus.CANCELLED, TaskStatus.RUNNING]
    state = await life.state()
    assert (state.active_task_ids, state.sleeping_until) == ([jobs[1].id], moment(clock.now_ms() + 60_000))
    clock.move(30_000)
    await life.host.pulse.fire()
    assert len(await life.turns()) == 2, "the older one no longer fires"


async def test_sleep_beside_another_call_does_not_end_the_turn(living: Opens, clock: ManualClock) -> None:
    gate = Gate()
    life = await living(resting(0), clock=clock, tools=[gate.tool])
    message_id = await life.say("nap and go on")
    await gate.entered()
    clock.move(50)
    await life.host.pulse.fire()
    assert [m.kind for m in await life.waiting()] == [MessageKind.TIMER_TICK], "it waits for the turn's end"
    gate.open()
    status = await life.settled(message_id)
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert (status.turn.round, status.turn.terminal.last_assistant_message) == (2, "still here")
    await life.at_rest()
    assert len(await life.turns()) == 2


async def test_a_paused_sleeper_is_woken_after_the_pause(living: Opens, clock: ManualClock) -> None:
    life = await living(resting(1_000), clock=clock)
    await life.ask("rest 1")
    await life.at_rest()
    await life.host.lifecycle.pause("main", SURFACE)
    clock.move(1_000)
    await life.host.pulse.fire()
    assert [m.kind for m in await life.waiting()] == [MessageKind.TIMER_TICK]
    assert len(life.model.requests) == 1
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    assert len(await life.turns()) == 2


# Hints


@pytest.mark.spec("RT-114", "RT-117", "RT-138", "RT-142")
async def test_a_plain_hint_to_a_sleeper_is_one_tick_at_once_and_a_sign_of_life_only(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(resting(0), clock=clock)
    await life.ask("rest")
    before = (await life.at_rest()).agent
    clock.move(1_000)
    assert await wake(life, "the disk may be full", source="monitor") is HintDisposition.TRIGGERED
    after = (await life.at_rest()).agent
    (tick,) = await ticks(life)
    assert (tick.origin, tick.priority) == (SystemOrigin(subsystem="wake_hint"), Priority.NEXT)
    assert (tick.delivery_surface, tick.admission_context) == (
        DeliverySurface.RUNTIME_SYSTEM,
        AdmissionContext.RUNTIME_OWNED,
    )
    assert [hint.reason for hint in carried(tick)] == ["the disk may be full"]
    assert after.last_continuation is not None
    assert after.last_continuation.class_ is ContinuationClass.LIVENESS_ONLY
    assert after.last_wake_reason == "system_tick:wake_hint"
    assert len(life.model.requests) == 1, "no model turn"
    entries = await life.transcript(TranscriptKind.INCOMING_MESSAGE)
    assert [entry.related_message_id for entry in entries] != [tick.id]
    assert await life.hints() == []
    assert after.sleep == before.sleep, "it rests for the same reason and since the same moment as before"


@pytest.mark.spec("RT-115", "RT-117")
async def test_a_hint_with_content_leads_to_a_turn(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    disposition = await deliver(life, b'{"build": "red"}', content_type="application/json", source="ci")
    assert disposition is HintDisposition.TRIGGERED
    await life.at_rest()
    (tick,) = await ticks(life)
    assert [turn.message_id for turn in await life.turns()][-1] == tick.id
    assert '"build":"red"' in life.model.shown
    resolution = (await life.state()).last_continuation
    assert resolution is not None
    assert (resolution.class_, resolution.model_visible) == (ContinuationClass.LOCAL_CONTINUATION, True)


@pytest.mark.spec("RT-114", "RT-115")
async def test_a_hint_without_payload_is_plain_whoever_sends_it(living: Opens) -> None:
    life = await living()
    assert await deliver(life, b"", content_type="application/json", source="ci") is HintDisposition.TRIGGERED
    await life.at_rest()
    assert len(await ticks(life)) == 1
    assert life.model.requests == []


@pytest.mark.spec("RT-137", "RT-139", "RT-141", "RT-142")
async def test_hints_to_a_running_agent_wait_and_become_one_tick_when_it_is_done(living: Opens) -> None:
    gate = Gate()
    life = await living("rules: [{when: {pattern: ^work}, rounds: [{tools: [{name: Wait}]}]}]", tools=[gate.tool])
    message_id = await life.say("work")
    await gate.entered()
    newest = await life.newest()
    for number in range(3):
        assert await wake(life, f"hint {number}") is HintDisposition.COALESCED
    assert await ticks(life) == []
    assert (await life.state()).pending == 0
    assert (await life.state()).pending_wake_hints == 3
    assert "message_admitted" not in await life.kinds(after=newest)
    gate.open()
    await life.settled(message_id)
    state = (await life.at_rest()).agent
    (tick,) = await ticks(life)
    assert [hint.reason for hint in carried(tick)] == ["hint 0", "hint 1", "hint 2"]
    assert (state.pending_wake_hints, await life.hints()) == (0, [])
    assert len(life.model.requests) == 2, "plain hints make no turn"


@pytest.mark.spec("RT-141", "RT-143")
async def test_of_a_large_burst_the_newest_are_kept_with_their_payloads_and_the_others_counted(living: Opens) -> None:
    life = await living(limits=Limits(wake_hints=16))
    life.model.hold()
    message_id = await life.say("think")
    await life.model.asked()
    for number in range(25):
        assert await deliver(life, f"news {number}".encode(), source="ci") is HintDisposition.COALESCED
    assert [hint.body for hint in await life.hints()] == [TextBody(text=f"news {n}") for n in range(9, 25)]
    state = await life.state()
    assert (state.pending_wake_hints, state.coalesced_wake_hints) == (16, 9)
    life.model.release()
    await life.settled(message_id)
    await life.at_rest()
    (tick,) = await ticks(life)
    assert isinstance(tick.body, JsonBody)
    assert tick.body.value["also_coalesced"] == 9
    assert [hint.body for hint in carried(tick)] == [TextBody(text=f"news {n}") for n in range(9, 25)]
    assert "news 24" in life.model.shown
    state = await life.state()
    assert (state.pending_wake_hints, state.coalesced_wake_hints, len(await life.turns())) == (0, 0, 2)


async def test_large_payloads_come_in_several_ticks_and_none_is_lost(living: Opens) -> None:
    life = await living()
    life.model.hold()
    message_id = await life.say("think")
    await life.model.asked()
    payloads = [f"{number} " + "x" * 100_000 for number in range(5)]
    for payload in payloads:
        await deliver(life, payload.encode(), source="ci")
    life.model.release()
    await life.settled(message_id)
    await life.at_rest()
    found = [[hint.body for hint in carried(tick)] for tick in await ticks(life)]
    assert [len(bodies) for bodies in found] == [2, 2, 1]
    assert [body for bodies in found for body in bodies] == [TextBody(text=payload) for payload in payloads]
    assert ((await life.state()).pending_wake_hints, await life.hints()) == (0, [])


@pytest.mark.spec("RT-137", "RT-140")
async def test_hints_to_a_paused_agent_are_kept_and_looked_at_after_the_pause(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    assert await wake(life, "one") is HintDisposition.COALESCED
    assert await deliver(life, b"two") is HintDisposition.COALESCED
    assert (await ticks(life), (await life.state()).pending_wake_hints) == ([], 2)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.event("turn_terminal")
    await life.at_rest()
    (tick,) = await ticks(life)
    assert [hint.reason for hint in carried(tick)] == ["one", "external trigger delivery"]
    assert len(await life.turns()) == 1


@pytest.mark.spec("RT-137", "RT-140")
async def test_hints_outlive_a_restart_of_the_host(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    await deliver(life, b"while you were out")
    kept = await life.hints()
    await life.close()
    life = await living()
    assert await life.hints() == kept
    await life.host.lifecycle.resume("main", SURFACE)
    await life.event("turn_terminal")
    assert "while you were out" in life.model.shown


@pytest.mark.spec("RT-137")
async def test_hints_of_an_agent_that_was_about_to_look_when_the_process_ended_are_looked_at(living: Opens) -> None:
    """Resumed, but not dispatched any more: the state on disk is `awake_idle` with hints, and an empty queue."""
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    await deliver(life, b"do not lose me")
    await life.change(lambda state: msgspec.structs.replace(state, status=AgentStatus.AWAKE_IDLE))
    await life.close()
    life = await living(booted=False)
    await life.event("turn_terminal")
    assert "do not lose me" in life.model.shown


@pytest.mark.spec("RT-140")
async def test_a_hint_to_an_agent_that_still_boots_is_kept_for_when_it_is_ready(living: Opens, tmp_path: Any) -> None:
    life = await living()
    (tmp_path / "agents" / "late").write_text("in the way")  # its home cannot be made
    await life.host.agents.create("late", surface=SURFACE)
    assert await life.status("late") is AgentStatus.BOOTING
    outcome = await life.host.waking.wake("late", WakeRequest(reason="early"), surface=SURFACE)
    assert outcome.disposition is HintDisposition.COALESCED
    assert (await life.state("late")).pending_wake_hints == 1


@pytest.mark.spec("RT-079")
async def test_waking_a_stopped_agent_says_to_resume_it_and_leaves_it_stopped(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.stop("main", SURFACE)
    with pytest.raises(AgentStopped) as refused:
        await wake(life)
    assert refused.value.hint == "run 'holon agent resume main'"
    with pytest.raises(AgentStopped, match="holon agent resume main"):
        await deliver(life, b"news")
    assert await life.status() is AgentStatus.STOPPED
    assert (await life.hints(), await ticks(life)) == ([], [])


@pytest.mark.spec("RT-143")
async def test_a_hint_keeps_all_that_came_with_it(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    await life.host.lifecycle.pause("main", SURFACE)
    trigger = await life.host.triggers.ensure("main")
    await deliver(
        life,
        b'{"id": 7}',
        content_type="application/json; charset=utf-8",
        source="forge",
        resource="repo/7",
        correlation_id="corr",
        causation_id="cause",
    )
    (hint,) = await life.hints()
    assert hint == WakeHint(
        id=hint.id,
        agent_id="main",
        created_at=moment(clock.now_ms()),
        reason="external trigger delivery from forge",
        source="forge",
        resource="repo/7",
        external_trigger_id=trigger.external_trigger_id,
        delivery_mode="wake_hint",
        content_type="application/json; charset=utf-8",
        body=JsonBody(value={"id": 7}),
        correlation_id="corr",
        causation_id="cause",
    )
    await life.host.lifecycle.resume("main", SURFACE)
    await life.event("turn_terminal")
    (tick,) = await ticks(life)
    assert carried(tick) == [hint]
    assert tick.source_refs == {"external_trigger_id": trigger.external_trigger_id, "resource": "repo/7"}
    assert (tick.correlation_id, tick.causation_id) == ("corr", "cause")


@pytest.mark.spec("RT-162")
async def test_hints_are_not_starved_by_an_agent_that_keeps_itself_busy(living: Opens) -> None:
    script = """
rules:
  - when: {kind: system_tick}
    rounds: [{text: "saw it"}]
  - rounds: [{tools: [{name: Enqueue, input: {text: again}}]}, {text: once more}]
"""
    life = await living(script, limits=Limits(self_turns=8, self_turns_free=8))
    life.model.hold()
    await life.say("begin")
    await life.model.asked()
    await deliver(life, b"look at me")
    life.model.release()
    await life.event("limit_reached")
    order = [envelope.kind for envelope in await life.messages()]
    first = [turn.message_id for turn in await life.turns()][:4]
    tick = (await ticks(life))[0]
    assert tick.id in first, order
    assert "saw it" in [brief.text for brief in await life.briefs()]


@pytest.mark.spec("RT-139", "RT-141")
async def test_hints_that_come_while_a_tick_waits_are_carried_by_one_more(living: Opens) -> None:
    life = await living()
    life.model.hold()
    await deliver(life, b"first")
    await life.model.asked()
    for number in range(4):
        assert await deliver(life, f"late {number}".encode()) is HintDisposition.COALESCED
    life.model.release()
    await life.event("turn_terminal", count=2)
    await life.at_rest()
    assert [len(carried(tick)) for tick in await ticks(life)] == [1, 4]


async def test_what_happened_to_a_hint_is_on_record(living: Opens) -> None:
    life = await living()
    await wake(life, "now")
    await life.at_rest()
    await life.host.lifecycle.pause("main", SURFACE)
    await wake(life, "later")
    asked = [(e.payload["reason"], e.payload["disposition"]) for e in await life.events("wake_requested")]
    assert asked == [("now", "triggered"), ("later", "coalesced")]
    (stored,) = await life.events("wake_hint_stored")
    assert (stored.payload["reason"], stored.payload["pending"]) == ("later", 1)
    (triggered,) = await life.events("wake_hint_triggered")
    assert triggered.payload["reasons"] == ["now"]
