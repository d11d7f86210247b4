"""Limits: on by default, met in words that say what to do, and announced once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from holon.core.agents import AgentStatus
from holon.core.clock import ManualClock
from holon.core.limits import Limits
from holon.core.messages import MessageKind, QueueStatus
from holon.core.turns import TerminalKind
from holon.runtime.timers import TimerRequest
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Gate, Living, soon
from tests.runtime.test_waking import deliver

HOUR = 3_600_000

#: Calls a tool in every round, as long as it is let.
RESTLESS = """
rules:
  - when: {pattern: "^loop"}
    rounds: [ROUNDS]
""".replace(
    "ROUNDS", ", ".join("{tools: [{name: Note}], usage: {input_tokens: 90, output_tokens: 10}}" for _ in range(9))
)

#: Queues a follow-up in every turn: it drives itself on.
SELF_DRIVEN = """
rules:
  - when: {kind: internal_followup}
    rounds: [{tools: [{name: Enqueue, input: {text: again}}]}, {text: "again"}]
  - when: {pattern: "^begin"}
    rounds: [{tools: [{name: Enqueue, input: {text: again}}]}, {text: "begun"}]
"""


async def limits_met(life: Living) -> list[str]:
    return [event.payload["limit"] for event in await life.events("limit_reached")]


async def self_turns(life: Living) -> int:
    kinds = {envelope.id: envelope.kind for envelope in await life.messages()}
    return sum(kinds[turn.message_id] is MessageKind.INTERNAL_FOLLOWUP for turn in await life.turns())


async def still(life: Living, agent_id: str = "main") -> None:
    """Until no worker is busy with the agent."""
    await soon(lambda: agent_id not in life.host.dispatcher.working)


async def test_a_turn_ends_at_its_limit_of_rounds_and_says_what_to_do(living: Opens) -> None:
    life = await living(RESTLESS, tools=[NOTE], limits=Limits(rounds_per_turn=3))
    status = await life.ask("loop")
    assert len(life.model.requests) == 3
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.kind is TerminalKind.ABORTED
    (brief,) = await life.briefs()
    assert brief.text == (
        "the turn reached its limit of 3 (rounds_per_turn); ask for less at a time, or raise limits.rounds_per_turn"
    )
    (error,) = await life.events("runtime_error")
    assert error.payload["failure_artifact"]["metadata"] == {"limit": "rounds_per_turn", "value": "3"}
    assert (await life.ask("hello")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_a_turn_ends_at_its_limit_of_tokens(living: Opens) -> None:
    life = await living(RESTLESS, tools=[NOTE], limits=Limits(tokens_per_turn=250))
    await life.ask("loop")
    assert len(life.model.requests) == 3, "the third round passes the limit, a fourth is not begun"
    (brief,) = await life.briefs()
    assert "limit of 250 (tokens_per_turn)" in brief.text
    assert "raise limits.tokens_per_turn" in brief.text


async def test_tokens_that_a_turn_used_before_a_restart_count(living: Opens) -> None:
    second_waits = RESTLESS.replace("Note", "Wait", 2).replace("Wait", "Note", 1)
    gate, limits = Gate(), Limits(tokens_per_turn=250)
    life = await living(second_waits, tools=[NOTE, gate.tool], limits=limits)
    message_id = await life.say("loop")
    await gate.entered()
    assert [request.round for request in life.model.requests] == [1, 2]
    await life.close()
    life = await living(second_waits, tools=[NOTE, gate.tool], limits=limits, booted=False)
    await life.settled(message_id)
    assert [request.round for request in life.model.requests] == [3], "the third round passes the limit"
    assert "limit of 250 (tokens_per_turn)" in (await life.briefs())[0].text


async def test_turns_per_hour_hold_the_agent_until_the_hour_is_over(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock, limits=Limits(turns_per_hour=3))
    for number in range(3):
        await life.ask(f"turn {number}")
        clock.move(60_000)
    late = await life.say("one too many")
    (event,) = [await life.event("limit_reached")]
    assert (event.payload["limit"], event.payload["value"]) == ("turns_per_hour", 3)
    assert "raise limits.turns_per_hour" in event.payload["advice"]
    await still(life)
    await life.say("and one more")
    await still(life)
    assert len(life.model.requests) == 3
    assert await limits_met(life) == ["turns_per_hour"], "it is said once"
    state = await life.state()
    assert (state.status, state.pending, state.held_by) == (AgentStatus.ASLEEP, 2, "turns_per_hour")
    clock.move(HOUR - 3 * 60_000)
    life.host.dispatcher.kick("main")
    await life.settled(late)
    await still(life)
    assert len(life.model.requests) == 4, "the first turn is an hour ago, the second is not yet"


async def test_a_held_agent_stays_held_after_a_restart(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock, limits=Limits(turns_per_hour=1))
    await life.ask("one")
    waits = await life.say("two")
    await life.event("limit_reached")
    await life.close()
    life = await living(clock=clock, limits=Limits(turns_per_hour=1), booted=False)
    await still(life)
    assert life.model.requests == []
    assert await limits_met(life) == ["turns_per_hour"]
    clock.move(HOUR)
    life.host.dispatcher.kick("main")
    await life.settled(waits)


async def test_a_clock_that_is_set_back_does_not_hold_an_agent_for_ever(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock, limits=Limits(turns_per_hour=1))
    await life.ask("one")
    clock.move(-10 * HOUR)
    assert (await life.ask("two")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_an_agent_that_drives_itself_on_waits_longer_and_longer(living: Opens, clock: ManualClock) -> None:
    limits = Limits(self_turns_free=2, self_turns=50, self_turn_backoff_cap_ms=3_000)
    life = await living(SELF_DRIVEN, clock=clock, limits=limits)
    await life.ask("begin")
    await life.event("limit_reached")
    await still(life)
    assert await self_turns(life) == 2
    for number, delay in enumerate((1_000, 2_000, 3_000, 3_000), start=3):
        clock.move(delay - 1)
        life.host.dispatcher.kick("main")
        await still(life)
        assert await self_turns(life) == number - 1
        clock.move(1)
        life.host.dispatcher.kick("main")
        await still(life)
        assert await self_turns(life) == number
    advice = [event.payload["advice"] for event in await life.events("limit_reached")]
    assert all("growing pause" in said for said in advice)


async def test_the_pause_ends_by_itself(living: Opens) -> None:
    life = await living(SELF_DRIVEN, limits=Limits(self_turns_free=1, self_turns=2, self_turn_backoff_cap_ms=800))
    await life.ask("begin")

    async def all_met() -> bool:
        return await limits_met(life) == ["self_turns_free", "self_turns"]

    await life.until(all_met)
    assert await self_turns(life) == 2


async def test_after_its_last_self_turn_only_the_outside_moves_the_agent(living: Opens, clock: ManualClock) -> None:
    life = await living(SELF_DRIVEN, clock=clock, limits=Limits(self_turns_free=3, self_turns=3))
    await life.ask("begin")
    event = await life.event("limit_reached")
    assert (event.payload["limit"], event.payload["value"]) == ("self_turns", 3)
    assert event.payload["advice"] == (
        "it wakes itself without new evidence; send it a prompt, or raise limits.self_turns"
    )
    await still(life)
    clock.move(365 * 24 * HOUR)
    life.host.dispatcher.kick("main")
    await life.host.pulse.watch()
    await still(life)
    assert await self_turns(life) == 3
    answered = await life.ask("how are you?")
    assert answered.queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    await life.event("limit_reached", count=2)
    assert await self_turns(life) == 6, "new evidence from outside begins the count anew"


async def test_a_prompt_is_found_behind_however_many_follow_ups(living: Opens) -> None:
    """The advice is to send a prompt: it must work although the agent has filled its own queue."""
    many = ", ".join("{name: Enqueue, input: {text: more}}" for _ in range(70))
    script = f"""
rules:
  - when: {{pattern: "^fill"}}
    rounds: [{{tools: [{many}]}}, {{text: full}}]
"""
    life = await living(script, limits=Limits(self_turns_free=1, self_turns=1))
    await life.ask("fill")
    await life.event("limit_reached")
    assert (await life.state()).pending == 69
    assert (await life.ask("help")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["timer", "webhook", "hint"])
async def test_evidence_from_outside_is_never_held_back_as_a_self_turn(
    living: Opens, clock: ManualClock, kind: str
) -> None:
    life = await living(SELF_DRIVEN, clock=clock, limits=Limits(self_turns_free=1, self_turns=1))
    await life.ask("begin")
    await life.event("limit_reached")
    await still(life)
    turns = len(await life.turns())
    if kind == "timer":
        await life.host.timers.create("main", TimerRequest(duration_ms=1), surface=SURFACE)
        clock.move(1)
        await life.host.pulse.fire()
    elif kind == "webhook":
        await life.webhook({"x": 1})
    else:
        await deliver(life, b"news")
    await life.event("turn_terminal", count=turns + 1)


async def test_a_sleeper_that_only_wakes_itself_counts_as_driving_itself(living: Opens, clock: ManualClock) -> None:
    script = "rules: [{rounds: [{tools: [{name: Sleep, input: {duration_ms: 10}}]}]}]"
    life = await living(script, clock=clock, limits=Limits(self_turns_free=2, self_turns=2))
    await life.ask("rest for ever")
    await life.at_rest()
    for _ in range(2):
        clock.move(10)
        await life.host.pulse.fire()
        await life.at_rest()
    clock.move(10)
    await life.host.pulse.fire()
    await life.event("limit_reached")
    assert len(await life.turns()) == 3


async def test_the_watchdog_tells_of_a_stall_once_and_of_the_next_one_again(living: Opens) -> None:
    script = """
rules:
  - rounds: [{tools: [{name: Wait}]}, {text: done}]
"""
    gate = Gate()
    life = await living(script, tools=[gate.tool], limits=Limits(stall_ms=1))
    message_id = await life.say("work")
    await gate.entered()
    await asyncio.sleep(0.005)
    for _ in range(3):
        await life.host.pulse.watch()
    stalled = await life.event("agent_stalled")
    assert len(await life.events("agent_stalled")) == 1
    assert stalled.payload["last_progress"] == "running Wait"
    assert "holon agent abort main" in stalled.payload["advice"]
    (turn,) = await life.turns()
    assert stalled.turn_id == turn.id
    life.model.hold()
    gate.open()
    await life.model.asked()
    await asyncio.sleep(0.005)
    await life.host.pulse.watch()
    again = await life.event("agent_stalled", count=2)
    assert again.payload["last_progress"] == "waiting for scripted/test, round 2"
    life.model.release()
    await life.settled(message_id)


async def test_a_wait_that_a_call_asked_for_is_no_stall_until_it_is_over(living: Opens) -> None:
    """The command says itself that it may take five seconds; the other tool may wait for 50 ms, and does for ever."""
    script = """
rules:
  - when: {pattern: "^run"}
    rounds:
      - tools: [{name: ExecCommand, input: {cmd: "touch begun; sleep 0.3", login: false, yield_time_ms: 5000}}]
      - text: done
  - rounds: [{tools: [{name: Wait}]}, {text: done}]
"""
    gate = Gate()
    slow = msgspec.structs.replace(gate.tool, waits_ms=lambda _asked: 50)
    life = await living(script, tools=[slow], limits=Limits(stall_ms=10))
    message_id = await life.say("run it")
    await soon((life.host.settings.agents_dir / "main" / "begun").exists)
    await asyncio.sleep(0.05)
    await life.host.pulse.watch()
    await life.settled(message_id)
    assert [event.payload["last_progress"] for event in await life.events("agent_stalled")] == []
    message_id = await life.say("wait")
    await gate.entered()
    await asyncio.sleep(0.07)
    await life.host.pulse.watch()
    assert (await life.event("agent_stalled")).payload["stalled_ms"] >= 60
    gate.open()
    await life.settled(message_id)


@pytest.mark.parametrize(
    ("tool", "arguments", "waits_ms"),
    [
        ("ExecCommand", {"cmd": "make", "yield_time_ms": 600_000}, 600_000),
        ("ExecCommand", {"cmd": "make"}, 10_000),
        ("ExecCommandBatch", {"items": [{"cmd": "a", "yield_time_ms": 5}, {"cmd": "b", "yield_time_ms": 7}]}, 12),
        ("TaskOutput", {"task_id": "task_1", "timeout_ms": 3_600_000}, 3_600_000),
        ("TaskOutput", {"task_id": "task_1", "timeout_ms": 3_600_000, "block": False}, 0),
        ("TaskStatus", {"task_id": "task_1"}, 0),
        ("ExecCommand", {"cmd": 1}, 0),
        ("Unknown", {}, 0),
    ],
)
async def test_how_long_a_call_may_wait_by_its_own_word(
    living: Opens, tool: str, arguments: dict[str, object], waits_ms: int
) -> None:
    life = await living(booted=False)
    assert life.host.registry.waits_ms(tool, arguments) == waits_ms


async def test_the_watchdog_is_silent_where_all_is_well(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    await life.host.lifecycle.pause("main", SURFACE)
    await life.say("waits on purpose")
    await life.host.pulse.watch()
    assert await life.events("agent_stalled") == []


async def test_the_watchdog_finds_work_that_nobody_was_told_of(living: Opens) -> None:
    """A wake-up that was lost costs a moment, not the message."""
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    message_id = await life.say("forgotten")
    await life.change(lambda state: msgspec.structs.replace(state, status=AgentStatus.AWAKE_IDLE))
    assert life.model.requests == []
    await life.host.pulse.watch()
    await life.settled(message_id)


async def test_turns_at_the_same_time_are_bounded(living: Opens) -> None:
    life = await living(limits=Limits(concurrent_turns=2))
    names = [f"agent-{number}" for number in range(4)]
    for name in names:
        await life.host.agents.create(name, surface=SURFACE)
        await life.at_rest(name)
    life.model.hold()
    asked = [await life.say("hello", name) for name in names]
    await life.model.asked(2)
    status = await life.host.runtime_status()
    assert status.activity.processing_agent_count == 2
    life.model.release()
    for name, message_id in zip(names, asked, strict=True):
        await life.settled(message_id, name)
    assert len(life.model.requests) == 4


async def test_a_round_that_takes_too_long_ends_as_a_timeout(living: Opens) -> None:
    life = await living(
        "rules: [{rounds: [{text: late, delay_ms: 60000}]}]", limits=Limits(round_timeout_ms=5), model_fallbacks=[]
    )
    await life.ask("hello")
    (error,) = await life.events("runtime_error")
    assert error.payload["failure_artifact"]["kind"] == "timeout"
