"""Lifecycle: pause, resume, stop and abort, and what a restart makes of each."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest

from holon.core.agents import AgentStatus
from holon.core.briefs import BriefKind
from holon.core.clock import Clock
from holon.core.closures import ClosureOutcome
from holon.core.errors import AgentStopped, NoCurrentRun, StaleRun, UnknownAgent
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    JsonBody,
    MessageKind,
    OperatorOrigin,
    Priority,
    QueueStatus,
)
from holon.core.turns import TerminalKind, ToolCallStatus, TurnPhase
from holon.runtime.lifecycle import AbortOutcome, ControlAction, ControlOutcome
from holon.runtime.timers import TimerRequest
from holon.runtime.triggers import Delivery
from holon.store import Store, Tx, turns
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Gate, Living

WORK = """
rules:
  - when: {pattern: "^work"}
    rounds: [{text: on it, tools: [{name: Wait}, {name: Note}]}, {text: done}]
"""


class Ticking:
    """A clock that never says the same twice: two events of one moment are of one transaction."""

    def __init__(self) -> None:
        self._moments = count(1_767_225_600_000)

    def now_ms(self) -> int:
        return next(self._moments)


async def working(living: Opens, gate: Gate, clock: Clock | None = None) -> tuple[Living, str]:
    """A host whose agent stands at a tool that does not end."""
    life = await living(WORK, clock=clock, tools=[gate.tool, NOTE])
    message_id = await life.say("work")
    await gate.entered()
    return life, message_id


# Pause and resume


@pytest.mark.spec("RT-074")
async def test_a_paused_agent_works_off_what_waited_when_it_is_resumed(living: Opens) -> None:
    life = await living()
    paused = await life.host.lifecycle.pause("main", SURFACE)
    assert paused == ControlOutcome(
        agent_id="main", action=ControlAction.PAUSE, status=AgentStatus.PAUSED, changed=True
    )
    first, second = await life.say("one"), await life.webhook({"two": 2})
    life.host.dispatcher.kick("main")
    await life.host.pulse.watch()
    assert life.model.requests == []
    resumed = await life.host.lifecycle.resume("main", SURFACE)
    assert (resumed.status, resumed.changed) == (AgentStatus.AWAKE_IDLE, True)
    for message_id in (first, second):
        assert (await life.settled(message_id)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert len(life.model.requests) == 2


@pytest.mark.spec("RT-074")
async def test_a_pause_lets_the_running_turn_end_and_holds_the_next(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    waits = await life.say("hello")
    await life.host.lifecycle.pause("main", SURFACE)
    gate.open()
    status = await life.settled(message_id)
    assert status.queue is not None
    assert status.queue.status is QueueStatus.PROCESSED
    summary = await life.at_rest()
    assert (summary.agent.status, summary.agent.pending, summary.agent.current_run_id) == (AgentStatus.PAUSED, 1, None)
    assert summary.lifecycle.resume_required
    await life.host.lifecycle.resume("main", SURFACE)
    await life.settled(waits)


async def test_resuming_an_agent_whose_turn_still_runs_says_so(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    await life.host.lifecycle.pause("main", SURFACE)
    resumed = await life.host.lifecycle.resume("main", SURFACE)
    assert resumed.status is AgentStatus.AWAKE_RUNNING
    gate.open()
    await life.settled(message_id)
    assert (await life.at_rest()).agent.status is AgentStatus.ASLEEP
    assert len(await life.turns()) == 1


async def test_commands_that_change_nothing_say_so(living: Opens) -> None:
    life = await living()
    assert (await life.host.lifecycle.resume("main", SURFACE)).changed is False
    await life.host.lifecycle.pause("main", SURFACE)
    assert (await life.host.lifecycle.pause("main", SURFACE)).changed is False
    await life.host.lifecycle.stop("main", SURFACE)
    assert (await life.host.lifecycle.stop("main", SURFACE)).changed is False
    stopped = await life.host.lifecycle.pause("main", SURFACE)
    assert (stopped.status, stopped.changed) == (AgentStatus.STOPPED, False), "pause is no way out of stopped"
    details = [event.payload.get("detail") for event in await life.events("control_applied")]
    assert details == ["nothing changed", None, "nothing changed", None, "nothing changed", "nothing changed"]


@pytest.mark.spec("RT-050", "RT-001")
@pytest.mark.parametrize(
    ("surface", "delivery", "context"),
    [
        ("cli", DeliverySurface.CLI_PROMPT, AdmissionContext.LOCAL_PROCESS),
        ("http", DeliverySurface.HTTP_CONTROL_PROMPT, AdmissionContext.CONTROL_AUTHENTICATED),
    ],
)
async def test_each_command_is_a_control_message_of_the_operator(
    living: Opens, surface: str, delivery: DeliverySurface, context: AdmissionContext
) -> None:
    life = await living()
    for action in (ControlAction.PAUSE, ControlAction.STOP, ControlAction.RESUME):
        await life.host.lifecycle.control("main", action, surface)
    messages = await life.messages()
    assert [(m.kind, m.body) for m in messages] == [
        (MessageKind.CONTROL, JsonBody(value={"action": "pause"})),
        (MessageKind.CONTROL, JsonBody(value={"action": "stop"})),
        (MessageKind.CONTROL, JsonBody(value={"action": "resume"})),
    ]
    assert {(m.origin, m.delivery_surface, m.admission_context) for m in messages} == {
        (OperatorOrigin(), delivery, context)
    }
    assert [(await life.settled(m.id)).queue.status for m in messages] == [QueueStatus.PROCESSED] * 3  # type: ignore[union-attr]
    applied = [(e.payload["action"], e.provenance.message_id) for e in await life.events("control_applied")]
    assert applied == [(action, m.id) for action, m in zip(("pause", "stop", "resume"), messages, strict=True)]
    assert (await life.at_rest()).agent.pending == 0


async def test_commands_to_an_agent_that_is_not_there_are_refused(living: Opens) -> None:
    life = await living()
    for command in (life.host.lifecycle.pause, life.host.lifecycle.resume, life.host.lifecycle.stop):
        with pytest.raises(UnknownAgent):
            await command("ghost", SURFACE)


# Stop


@pytest.mark.spec("RT-077", "RT-080", "RT-089")
async def test_stop_ends_the_run_refuses_messages_and_outlives_a_restart(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    waits = await life.say("hello")
    stopped = await life.host.lifecycle.stop("main", SURFACE)
    assert (stopped.status, stopped.changed) == (AgentStatus.STOPPED, True)
    status = await life.settled(message_id)
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert (status.turn.terminal.kind, status.turn.terminal.reason) == (
        TerminalKind.ABORTED,
        "aborted by the operator",
    )
    with pytest.raises(AgentStopped):
        await life.say("more")
    assert gate.ended == 0
    await life.close()
    life = await living(WORK, tools=[gate.tool, NOTE])
    assert await life.status() is AgentStatus.STOPPED
    assert [m.id for m in await life.waiting()] == [waits], "what had been admitted is kept"
    assert life.model.requests == []


@pytest.mark.spec("RT-078")
async def test_resume_after_stop_and_restart_gives_the_agent_a_live_loop(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    waits = await life.say("from before")
    await life.host.lifecycle.stop("main", SURFACE)
    await life.close()
    life = await living()
    await life.host.lifecycle.resume("main", SURFACE)
    assert (await life.settled(waits)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert (await life.ask("and after")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert len(life.model.requests) == 2


@pytest.mark.spec("RT-077")
async def test_a_paused_agent_is_paused_after_a_restart_and_its_running_turn_goes_on(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    await life.host.lifecycle.pause("main", SURFACE)
    await life.close()
    life = await living(WORK, tools=[gate.tool, NOTE], booted=False)
    assert (await life.settled(message_id)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert await life.status() is AgentStatus.PAUSED


# Abort


@pytest.mark.spec("RT-089", "RT-102")
async def test_an_abort_while_a_tool_runs_ends_the_tool_and_the_agent_goes_on_with_what_waits(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    waits = await life.say("hello")
    run_id = (await life.state()).current_run_id
    assert run_id is not None
    outcome = await life.host.lifecycle.abort("main", run_id=run_id, surface=SURFACE)
    assert outcome == AbortOutcome(agent_id="main", run_id=run_id, aborted=True, mode="abort")
    status = await life.settled(message_id)
    assert status.queue is not None
    assert status.turn is not None
    assert status.queue.status is QueueStatus.ABORTED
    assert [call.status for call in await life.calls(status.turn.id)] == [
        ToolCallStatus.INTERRUPTED,
        ToolCallStatus.REQUESTED,
    ]
    assert (gate.begun, gate.ended) == (1, 0)
    assert (await life.settled(waits)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    briefs = [(brief.kind, brief.related_message_id, brief.text) for brief in await life.briefs()]
    assert briefs == [
        (BriefKind.FAILURE, message_id, "aborted by the operator"),
        (BriefKind.RESULT, waits, "hello"),
    ]
    assert [e.payload for e in await life.events("current_run_aborted")] == [{"run_id": run_id, "mode": "abort"}]
    assert [e.provenance.message_id for e in await life.events("message_processing_aborted")] == [message_id]


async def test_an_abort_while_the_model_thinks_takes_no_answer_any_more(living: Opens) -> None:
    life = await living()
    life.model.hold()
    message_id = await life.say("think")
    await life.model.asked()
    await life.host.lifecycle.abort("main", surface=SURFACE)
    status = await life.settled(message_id)
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.kind is TerminalKind.ABORTED
    life.model.release()
    assert (await life.at_rest()).closure.outcome is ClosureOutcome.FAILED
    assert await life.events("provider_round_completed") == []
    assert (await life.ask("hello")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert (await life.at_rest()).closure.outcome is ClosureOutcome.COMPLETED


async def test_an_abort_of_another_run_is_refused_and_changes_nothing(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    with pytest.raises(StaleRun, match="leave run_id out"):
        await life.host.lifecycle.abort("main", run_id="run_of_yesterday", surface=SURFACE)
    gate.open()
    assert (await life.settled(message_id)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    with pytest.raises(NoCurrentRun, match="runs nothing now"):
        await life.host.lifecycle.abort("main", surface=SURFACE)
    assert await life.events("current_run_aborted") == []


@pytest.mark.spec("RT-077")
async def test_stop_after_abort_does_both_in_one_step(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate, clock=Ticking())
    await life.say("hello")
    newest = await life.newest()
    await life.host.lifecycle.abort("main", mode="stop_after_abort", surface=SURFACE)
    await life.settled(message_id)
    summary = await life.at_rest()
    assert (summary.agent.status, summary.agent.pending) == (AgentStatus.STOPPED, 1)
    assert len(life.model.requests) == 1
    by_time: dict[object, set[str]] = {}
    for event in await life.events("current_run_aborted", "control_applied", after=newest):
        by_time.setdefault(event.ts, set()).add(event.type)
    assert list(by_time.values()) == [{"current_run_aborted", "control_applied"}]


async def test_an_abort_that_was_asked_for_before_a_crash_is_settled_by_the_restart(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)

    def mark(tx: Tx) -> None:  # what the first transaction of an abort leaves, if the process dies right after it
        (turn,) = turns.open_turns(tx)
        turns.save(tx, msgspec.structs.replace(turn, abort_requested=True))

    await life.host.store.write(mark)
    await life.close()
    life = await living(WORK, tools=[gate.tool, NOTE], booted=False)
    status = await life.settled(message_id)
    assert status.queue is not None
    assert status.queue.status is QueueStatus.ABORTED
    assert life.model.requests == []
    assert [brief.text for brief in await life.briefs()] == ["aborted by the operator"]


async def test_a_turn_that_waits_to_be_taken_up_can_be_aborted_without_another_round(living: Opens) -> None:
    """Two open turns, one slot: the second waits for the first, and is ended meanwhile."""
    life = await living(limits=Limits(concurrent_turns=4))
    await life.host.agents.create("other", surface=SURFACE)
    await life.at_rest("other")
    life.model.hold()
    asked = {name: await life.say("think", name) for name in ("main", "other")}
    await life.model.asked(2)
    await life.close()
    life = await living(limits=Limits(concurrent_turns=1), booted=False, held=True)
    await life.model.asked()
    (running,) = life.host.dispatcher.live
    (waiting,) = {"main", "other"} - {running}
    await life.host.lifecycle.abort(waiting, surface=SURFACE)
    life.model.release()
    await life.settled(asked[running], running)
    status = await life.settled(asked[waiting], waiting)
    assert status.queue is not None
    assert status.queue.status is QueueStatus.ABORTED
    assert [request.agent_id for request in life.model.requests] == [running]


# Restart


@pytest.mark.spec("RT-425")
async def test_a_shutdown_ends_the_process_and_stops_no_agent(living: Opens) -> None:
    life = await living()
    await life.host.agents.create("other", surface=SURFACE)
    await life.ask("hello")
    await life.host.request_shutdown("http")
    assert life.host.shutdown_requested.is_set()
    assert await life.runtime_events("runtime_service_shutdown_requested") == [{"surface": "http"}]
    await life.close()
    life = await living()
    await life.at_rest("other")
    assert {entry.status for entry in await life.host.views.agents()} == {AgentStatus.ASLEEP}
    assert (await life.ask("still there?")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_a_turn_that_a_shutdown_left_open_goes_on_and_the_call_that_ran_is_not_run_again(living: Opens) -> None:
    gate = Gate()
    life, message_id = await working(living, gate)
    rounds = len(life.model.requests)
    await life.close()
    life = await living(WORK, tools=[gate.tool, NOTE], booted=False)
    status = await life.settled(message_id)
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert (status.turn.terminal.kind, status.turn.terminal.last_assistant_message) == (TerminalKind.COMPLETED, "done")
    assert (rounds, [request.round for request in life.model.requests]) == (1, [2]), "no round is asked for twice"
    assert gate.begun == 1
    assert [call.status for call in await life.calls(status.turn.id)] == [
        ToolCallStatus.INTERRUPTED,
        ToolCallStatus.COMPLETED,
    ]
    (resumed,) = await life.events("turn_resumed")
    assert (resumed.payload["phase"], resumed.payload["attempt"]) == ("tools", 2)
    assert [e.payload["tool_name"] for e in await life.events("tool_call_interrupted")] == ["Wait"]
    assert (await life.runtime_events("runtime_started"))[-1]["resumed_turns"] == 1
    assert len(await life.turns()) == 1


async def test_orderly_restarts_never_quarantine_a_message(living: Opens) -> None:
    life = await living()
    life.model.hold()
    message_id = await life.say("take your time")
    await life.model.asked()
    for _ in range(4):
        await life.close()
        life = await living(booted=False, held=True)
        await life.model.asked()
    (turn,) = await life.turns()
    assert (turn.phase, turn.crashes) == (TurnPhase.ROUND_BEGUN, 0)
    life.model.release()
    assert (await life.settled(message_id)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


def as_after_a_crash(home: Path) -> None:
    """Makes of an orderly end what a crash leaves: open turns that nobody marked as suspended."""

    def forget(tx: Tx) -> None:
        for turn in turns.open_turns(tx):
            turns.save(tx, msgspec.structs.replace(turn, suspended=False))

    store = Store(home / "state" / "holon.sqlite3")
    store.write_now(forget)
    store.close()


async def test_a_turn_that_brings_the_process_down_again_and_again_is_set_aside(living: Opens, tmp_path: Path) -> None:
    life = await living(limits=Limits(crash_attempts=3))
    await life.host.lifecycle.pause("main", SURFACE)
    message_id, waits = await life.say("poison"), await life.say("hello")
    life.model.hold()
    await life.host.lifecycle.resume("main", SURFACE)
    await life.model.asked()
    for crashes in (1, 2):
        await life.close()
        as_after_a_crash(tmp_path)
        life = await living(booted=False, held=True)
        await life.model.asked()
        assert (await life.turns())[0].crashes == crashes
    await life.close()
    as_after_a_crash(tmp_path)
    life = await living(booted=False)
    status = await life.settled(message_id)
    assert status.queue is not None
    assert status.queue.status is QueueStatus.DROPPED
    (brief,) = [brief for brief in await life.briefs() if brief.kind is BriefKind.FAILURE]
    assert brief.related_message_id == message_id
    assert "send it again, changed" in brief.text
    assert len(await life.events("message_quarantined")) == 1
    assert (await life.runtime_events("runtime_started"))[-1]["quarantined"] == 1
    assert (await life.settled(waits)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert [request.round for request in life.model.requests] == [1], "the poison is not tried a fourth time"


# All at once


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_done_to_an_agent_at_once_nothing_is_lost_and_nothing_stays_open(
    living: Opens, seed: int
) -> None:
    """Messages, hints, timers, pauses and aborts on top of each other; the watchdog does not get to help."""
    script = "rules: [{when: {pattern: ^work}, rounds: [{tools: [{name: Note}]}, {text: done}]}]"
    life = await living(script, tools=[NOTE])
    token = (await life.host.triggers.ensure("main")).trigger_url.rsplit("/", 1)[1]
    chance, sent = random.Random(seed), list[str]()

    async def say(number: int) -> None:
        priority = chance.choice(list(Priority))
        sent.append(await life.say(f"{chance.choice(('work', 'hello'))} {number}", priority=priority))

    async def knock(number: int) -> None:
        sent.append(await life.webhook({"number": number}))

    async def hint(number: int) -> None:
        delivery = Delivery(payload=f"news {number}".encode() if number % 2 else b"")
        await life.host.triggers.deliver(token, delivery, descriptor_mode="wake_hint")

    async def timer(_number: int) -> None:
        await life.host.timers.create("main", TimerRequest(duration_ms=1), surface=SURFACE)

    async def hold(_number: int) -> None:
        await life.host.lifecycle.pause("main", SURFACE)
        await asyncio.sleep(chance.random() / 200)
        await life.host.lifecycle.resume("main", SURFACE)

    async def abort(_number: int) -> None:
        with suppress(NoCurrentRun):
            await life.host.lifecycle.abort("main", surface=SURFACE)

    actions = [say, say, knock, hint, hint, timer, hold, abort]
    for round_ in range(12):
        await asyncio.gather(*(chance.choice(actions)(round_ * 8 + number) for number in range(8)))
        await asyncio.sleep(chance.random() / 200)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.until(lambda: no_timer_left(life))
    state = (await life.at_rest()).agent
    assert (state.pending, state.pending_wake_hints, await life.hints()) == (0, 0, [])
    assert (state.current_run_id, state.current_turn_id, state.status) == (None, None, AgentStatus.ASLEEP)
    for message_id in sent:
        status = (await life.settled(message_id)).queue
        assert status is not None
        assert status.status in (QueueStatus.PROCESSED, QueueStatus.INTERJECTED, QueueStatus.ABORTED)
    assert all(turn.phase is TurnPhase.TERMINAL for turn in await life.turns())
    led = [turn.message_id for turn in await life.turns()]
    assert len(led) == len(set(led)), "no message leads to two turns"
    changes = [event.payload for event in await life.events("agent_state_changed")]
    assert [change["after"] for change in changes[:-1]] == [change["before"] for change in changes[1:]]
    results = [brief.related_message_id for brief in await life.briefs() if brief.kind is not BriefKind.ACK]
    assert len(results) == len(set(results)), "one brief a turn"


async def no_timer_left(life: Living) -> bool:
    return (await life.host.views.summary()).active_timer_count == 0
