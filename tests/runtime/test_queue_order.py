"""The order of the queue as agents live it: lanes, arrival, and who may break into a turn that runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from holon.core.briefs import BriefKind
from holon.core.messages import (
    AdmissionContext,
    AuthorityClass,
    ChannelOrigin,
    DeliverySurface,
    MessageKind,
    Priority,
    QueueStatus,
    SystemOrigin,
    Trust,
)
from holon.core.transcripts import TranscriptKind
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Gate, Living

INTERJECT, NEXT, NORMAL, BACKGROUND = Priority

#: `work` waits at a tool, then says what the tool said; everything else is echoed.
WORK = """
rules:
  - when: {pattern: "^work"}
    rounds: [{text: on it, tools: [{name: Wait, input: {text: a}}]}, {text: "done: {result}"}]
"""


async def processed(life: Living) -> list[str]:
    """The texts of the messages that turns were begun for, in that order."""
    envelopes = {envelope.id: envelope.text for envelope in await life.messages()}
    return [envelopes[turn.message_id] for turn in await life.turns()]


@pytest.mark.spec("RT-035", "RT-036")
async def test_what_waits_is_served_by_lane_and_in_a_lane_by_arrival(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    for number in (1, 2):
        for priority in (BACKGROUND, NORMAL, NEXT, INTERJECT):
            await life.say(f"{priority} {number}", priority=priority)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    assert await processed(life) == [
        # The first turn is the first interjection's; the second one breaks into it.
        "interject 1",
        "next 1",
        "next 2",
        "normal 1",
        "normal 2",
        "background 1",
        "background 2",
    ]
    interjected = [m.id for m in await life.messages() if m.text == "interject 2"]
    assert (await life.settled(interjected[0])).queue.status is QueueStatus.INTERJECTED  # type: ignore[union-attr]


@pytest.mark.spec("RT-035", "RT-036")
async def test_outsiders_are_served_by_lane_and_arrival_too(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    for number in (1, 2):
        for priority in (BACKGROUND, NORMAL, NEXT, INTERJECT):
            await life.channel(f"{priority} {number}", priority=priority)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    assert await processed(life) == [f"{priority} {number}" for priority in Priority for number in (1, 2)]


@pytest.mark.spec("RT-034")
async def test_unspecified_priority_is_normal(living: Opens) -> None:
    life = await living()
    assert (await life.ask("hello")).envelope.priority is Priority.NORMAL


@pytest.mark.spec("RT-037")
async def test_next_is_taken_after_the_current_turn_and_before_what_waited_longer(living: Opens) -> None:
    gate = Gate()
    life = await living(WORK, tools=[gate.tool])
    work = await life.say("work")
    await gate.entered()
    await life.say("normal")
    urgent = await life.say("next", priority=NEXT)
    assert [m.text for m in await life.waiting()] == ["next", "normal"]
    gate.open()
    await life.settled(work)
    await life.at_rest()
    assert await processed(life) == ["work", "next", "normal"]
    first, second, _ = await life.turns()
    assert first.terminal is not None
    assert second.started_at >= first.terminal.completed_at
    assert (await life.settled(urgent)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


@pytest.mark.spec("RT-038")
async def test_an_operators_interjection_enters_the_turn_after_the_tools_that_run(living: Opens) -> None:
    gate = Gate()
    life = await living(WORK, tools=[gate.tool])
    work = await life.say("work")
    await gate.entered()
    wish = await life.say("wait, also b", priority=INTERJECT)
    gate.open()
    await life.settled(work)
    status = await life.settled(wish)
    assert status.queue is not None
    (turn,) = await life.turns()
    assert (status.queue.status, status.queue.run_id) == (QueueStatus.INTERJECTED, turn.run_id)
    shown = life.model.requests[1].conversation
    assert [type(item).__name__ for item in shown] == ["UserText", "AssistantBlocks", "ToolResults", "UserText"]
    assert "wait, also b" in shown[-1].text  # type: ignore[union-attr]
    (admitted,) = await life.events("operator_interjection_admitted")
    assert (admitted.payload, admitted.provenance.message_id) == (
        {"safe_point": "after_tool_results", "round": 1},
        wish,
    )
    briefs = [(brief.kind, brief.related_message_id) for brief in await life.briefs()]
    assert briefs == [(BriefKind.ACK, wish), (BriefKind.RESULT, work)]
    assert gate.ended == 1, "the tools still run"


@pytest.mark.spec("RT-038")
async def test_an_interjection_while_the_model_speaks_gets_a_round_of_its_own_in_the_same_turn(living: Opens) -> None:
    life = await living()
    life.model.hold()
    first = await life.say("one")
    await life.model.asked()
    second = await life.say("two", priority=INTERJECT)
    life.model.release()
    await life.settled(first)
    assert (await life.settled(second)).queue.status is QueueStatus.INTERJECTED  # type: ignore[union-attr]
    (turn,) = await life.turns()
    assert turn.terminal is not None
    assert (turn.round, turn.terminal.last_assistant_message) == (2, "two")
    entries = await life.transcript(TranscriptKind.INCOMING_MESSAGE)
    assert [entry.data["message"]["body"]["text"] for entry in entries] == ["one", "two"]


@pytest.mark.spec("RT-039")
@pytest.mark.parametrize("who", ["channel", "webhook", "runtime"])
async def test_nobody_but_the_operator_breaks_into_a_turn(living: Opens, who: str) -> None:
    gate = Gate()
    life = await living(WORK, tools=[gate.tool])
    work = await life.say("work")
    await gate.entered()
    await life.say("normal")
    sends: dict[str, Callable[..., Awaitable[str]]] = {
        "channel": life.channel,
        "webhook": life.webhook,
        "runtime": life.follow_up,
    }
    pushy = await sends[who]("me first", priority=INTERJECT)
    assert (await life.waiting())[0].id == pushy, "it is first in the queue, and no more"
    gate.open()
    await life.settled(work)
    await life.at_rest()
    assert await life.events("operator_interjection_admitted") == []
    assert [turn.message_id for turn in await life.turns()][:2] == [work, pushy]
    assert all(pushy not in getattr(item, "text", "") for item in life.model.requests[1].conversation)


@pytest.mark.spec("RT-038", "RT-039")
async def test_an_operators_prompt_without_that_priority_does_not_break_in(living: Opens) -> None:
    gate = Gate()
    life = await living(WORK, tools=[gate.tool])
    work = await life.say("work")
    await gate.entered()
    await life.say("in good time", priority=NEXT)
    gate.open()
    await life.settled(work)
    await life.at_rest()
    assert await life.events("operator_interjection_admitted") == []
    assert len(await life.turns()) == 2


@pytest.mark.spec("RT-040")
async def test_priority_says_nothing_about_trust(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    for priority in Priority:
        await life.channel("hello", priority=priority)
        await life.admit(
            MessageKind.INTERNAL_FOLLOWUP,
            SystemOrigin(subsystem="self_followup"),
            "go on",
            DeliverySurface.RUNTIME_SYSTEM,
            AdmissionContext.RUNTIME_OWNED,
            priority=priority,
        )
    labels = {(type(m.origin), m.trust, m.authority_class) for m in await life.waiting()}
    assert labels == {
        (ChannelOrigin, Trust.UNTRUSTED_EXTERNAL, AuthorityClass.EXTERNAL_EVIDENCE),
        (SystemOrigin, Trust.TRUSTED_SYSTEM, AuthorityClass.RUNTIME_INSTRUCTION),
    }


@pytest.mark.spec("RT-074")
async def test_a_paused_agents_running_turn_takes_no_interjection(living: Opens) -> None:
    gate = Gate()
    life = await living(WORK, tools=[gate.tool])
    work = await life.say("work")
    await gate.entered()
    await life.host.lifecycle.pause("main", SURFACE)
    wish = await life.say("also b", priority=INTERJECT)
    gate.open()
    await life.settled(work)
    await life.at_rest()
    assert [m.id for m in await life.waiting()] == [wish]
    await life.host.lifecycle.resume("main", SURFACE)
    assert (await life.settled(wish)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_calls_that_act_run_one_after_another_and_results_keep_the_order_of_the_calls(living: Opens) -> None:
    script = """
rules:
  - rounds:
      - tools: [{name: Note, input: {text: a}}, {name: Wait, input: {text: b}}, {name: Note, input: {text: c}}]
      - text: "{result}"
"""
    gate = Gate()
    life = await living(script, tools=[gate.tool, NOTE])
    work = await life.say("go")
    await gate.entered()
    (turn,) = await life.turns()
    assert [call.status for call in await life.calls(turn.id)] == ["completed", "begun", "requested"]
    gate.open()
    done = await life.settled(work)
    assert done.turn is not None
    assert done.turn.terminal is not None
    assert done.turn.terminal.last_assistant_message == "noted: a\nwaited: b\nnoted: c"
