"""Runs that are bounded, interrupted or asked for twice: what ends, what waits, and what is never done again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holon.core.agents import AgentStatus
from holon.core.clock import ManualClock
from holon.core.codec import to_plain
from holon.core.errors import AgentStopped, Conflict, IdempotencyMismatch, InvalidInput
from holon.core.events import EventEnvelope
from holon.core.limits import Limits
from holon.core.messages import MessageKind, QueueStatus
from holon.runtime.run_once import RunRequest, begin_run, run_once
from holon.runtime.run_results import FinalStatus, RunResult
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living

SCRIPT = """
rules:
  - when: {pattern: "^again"}
    rounds: [{tools: [{name: Enqueue, input: {text: again}}]}, {text: once more}]
  - when: {pattern: "^dear"}
    rounds: [{text: dear, usage: {input_tokens: 1000000, output_tokens: 0}}]
"""
FREE = Limits(self_turns=1_000, self_turns_free=1_000)


async def run(life: Living, text: str, agent_id: str | None = "main", **more: Any) -> RunResult:
    async with asyncio.timeout(10):
        return await run_once(life.host, RunRequest(text=text, agent_id=agent_id, **more))


@pytest.mark.parametrize("turns", [1, 2, 5])
async def test_a_bounded_run_takes_exactly_its_turns_and_leaves_its_agent_as_it_was(living: Opens, turns: int) -> None:
    life = await living(SCRIPT, limits=FREE)
    result = await run(life, "again", max_turns=turns)
    assert result.final_status is FinalStatus.MAX_TURNS_EXCEEDED
    assert (result.message_count, result.model_rounds, result.tool_calls) == (turns, 2 * turns, turns)
    assert result.final_text == "once more"
    assert result.sleep_reason == "its turns are used up; what it queued for itself (1) waits for news from outside"
    summary = await life.host.views.summary("main")
    assert (summary.agent.status, summary.agent.held_by) == (AgentStatus.ASLEEP, "max_turns")
    assert summary.lifecycle.resume_required is False
    (waiting,) = await life.waiting()
    assert waiting.kind is MessageKind.INTERNAL_FOLLOWUP
    (event,) = await life.events("limit_reached")
    assert (event.payload["limit"], event.payload["value"]) == ("max_turns", turns)


async def test_what_waits_after_a_bounded_run_goes_on_with_news_from_outside(living: Opens) -> None:
    life = await living(SCRIPT, limits=Limits(self_turns=2, self_turns_free=2))
    await run(life, "again", max_turns=1)
    assert (await life.state()).turn_index == 1
    await life.ask("hello")
    await life.event("limit_reached", count=2)
    state = await life.state()
    assert state.turn_index == 4, "the prompt, and two of its own as its limits allow"
    assert (state.run_budget, state.held_by) == (None, "self_turns")


async def test_the_bound_of_a_run_holds_over_a_restart(living: Opens) -> None:
    life = await living(SCRIPT, limits=FREE)
    life.model.hold()
    started = await begin_run(life.host, RunRequest(text="again", agent_id="main", max_turns=2))
    await life.model.asked()
    await life.close()
    life = await living(SCRIPT, limits=FREE, booted=False)
    await life.event("limit_reached")
    assert (await life.state()).turn_index == 2
    assert (await life.settled(started.ticket.message_id)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_a_bound_that_was_not_reached_is_gone_with_its_run(living: Opens) -> None:
    life = await living(SCRIPT, limits=FREE)
    assert (await run(life, "hello", max_turns=1)).final_status is FinalStatus.COMPLETED
    assert (await life.state()).run_budget is None
    follow_up = await life.follow_up("hello to myself")
    assert (await life.settled(follow_up)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_a_run_that_others_leave_no_turns_takes_its_message_back_unless_it_was_quicker(living: Opens) -> None:
    life = await living(SCRIPT)
    life.model.hold()
    others = [await life.say(f"before you {number}") for number in range(3)]
    await life.model.asked()
    running = asyncio.create_task(run(life, "me", max_turns=1))
    admitted = await life.event("message_admitted", count=4)
    life.model.release()
    result = await running
    taken_back = result.final_status is FinalStatus.MAX_TURNS_EXCEEDED
    assert result.final_text == ("" if taken_back else "me")
    for message_id in others:
        assert (await life.settled(message_id)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert admitted.provenance.message_id is not None
    own = await life.settled(admitted.provenance.message_id)
    assert own.queue is not None
    assert own.queue.status is (QueueStatus.DROPPED if taken_back else QueueStatus.PROCESSED)
    assert (await life.at_rest()).agent.turn_index == (3 if taken_back else 4)


@pytest.mark.parametrize("word", ["pause", "stop"])
async def test_a_run_on_an_agent_that_is_held_is_refused_at_once(living: Opens, word: str) -> None:
    life = await living(SCRIPT)
    await getattr(life.host.lifecycle, word)("main", SURFACE)
    with pytest.raises((Conflict, AgentStopped), match="run 'holon agent resume main'"):
        await run(life, "hello")
    assert await life.waiting() == []


async def test_a_run_whose_agent_is_paused_before_its_turn_ends_as_waiting(living: Opens) -> None:
    life = await living(SCRIPT)
    life.model.hold()
    await life.say("first")
    await life.model.asked()
    running = asyncio.create_task(run(life, "hello"))
    await life.event("message_admitted", count=2)
    await life.host.lifecycle.pause("main", SURFACE)
    life.model.release()
    result = await running
    assert (result.final_status, result.final_text) == (FinalStatus.WAITING, "")
    assert "holon agent resume main" in (result.sleep_reason or "")
    assert [envelope.text for envelope in await life.waiting()] == ["hello"]


async def test_a_run_that_a_daily_limit_holds_back_ends_as_waiting_however_old_the_hold_is(
    living: Opens, clock: ManualClock
) -> None:
    prices = {"scripted/": {"prices": {"input": 3.0}}}
    life = await living(SCRIPT, clock=clock, models=prices, limits=Limits(dollars_per_agent_day=2))
    assert (await run(life, "dear")).final_status is FinalStatus.COMPLETED
    for _ in range(2):  # the second time nothing announces it: it is known already
        result = await run(life, "dear")
        assert (result.final_status, result.model_rounds) == (FinalStatus.WAITING, 0)
        assert result.sleep_reason == "held by limits.dollars_per_agent_day"
    assert len(await life.events("limit_reached")) == 1


@pytest.mark.spec("RT-462")
async def test_the_json_of_a_result_has_its_zeros_and_no_failure_unless_it_failed(living: Opens) -> None:
    life = await living(SCRIPT)
    plain = to_plain(await run(life, "hello"))
    assert plain["tool_calls"] == 0
    assert {"input_tokens", "output_tokens", "model_rounds", "message_count", "token_usage"} <= plain.keys()
    assert plain["token_usage"].keys() == {"input_tokens", "output_tokens", "total_tokens"}
    assert plain["raw_final_text"] == "hello"
    assert "failure_artifact" not in plain
    assert "waiting_reason" not in plain


async def test_a_run_that_is_asked_for_again_under_its_key_is_followed_and_not_repeated(living: Opens) -> None:
    life = await living(SCRIPT)
    request = RunRequest(text="hello")

    async def follow(key: str) -> tuple[list[tuple[int, str]], RunResult]:
        started = await begin_run(life.host, request, idempotency_key=key)
        steps = [step async for step in started.steps()]
        assert isinstance(steps[-1], RunResult)
        seen = [(step.event_seq, step.type) for step in steps[:-1] if isinstance(step, EventEnvelope)]
        return seen, steps[-1]

    life.model.hold()
    both = [asyncio.create_task(follow("one")) for _ in range(2)]
    await life.model.asked()
    life.model.release()
    (seen, result), (also, same) = await asyncio.gather(*both)
    assert result == same
    first, second = sorted((seen, also), key=len)
    assert second[: len(first)] == first, "who comes later may also see how its agent is put away"
    assert [seq for seq, _ in first] == list(range(first[0][0], first[-1][0] + 1))
    assert "turn_terminal" in [kind for _, kind in first]
    assert await follow("one") == ([], result), "a run that has ended is told by its result"
    assert len(life.model.requests) == 1
    assert (await follow("two"))[1].agent_id != result.agent_id
    assert len(life.model.requests) == 2
    with pytest.raises(IdempotencyMismatch):
        await begin_run(life.host, RunRequest(text="something else"), idempotency_key="one")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"max_turns": 0}, "max_turns"), ({"create_agent": True}, "agent_id"), ({"model": "echo"}, None)],
)
async def test_a_request_that_makes_no_sense_is_refused_before_anything_is_made(
    living: Opens, wrong: dict[str, Any], field: str | None
) -> None:
    life = await living(SCRIPT)
    with pytest.raises(InvalidInput) as refused:
        await begin_run(life.host, RunRequest(text="hello", **wrong))
    assert refused.value.details.get("field") == field
    folder = life.host.settings.agents_dir
    assert [path.name for path in folder.iterdir()] == ["main"]
