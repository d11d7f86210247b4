"""One prompt, followed until the agent rests: whose run it is, how it ends, and what is handed back."""

from __future__ import annotations

import asyncio

import pytest

from holon.core.agents import AgentStatus, RegistryStatus
from holon.core.codec import to_plain
from holon.core.errors import AgentStopped, Conflict, InvalidInput, PrivateAgent, UnknownAgent
from holon.core.events import EventEnvelope
from holon.core.limits import Limits
from holon.core.messages import QueueStatus
from holon.core.transcripts import TranscriptKind
from holon.core.usage import TokenUsage
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.run_results import FinalStatus, RunResult
from holon.store import agents
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Living

SCRIPT = """
rules:
  - when: {pattern: "^work"}
    rounds:
      - {text: on it, tools: [{name: Note}, {name: Note}], usage: {input_tokens: 100, output_tokens: 10}}
      - {text: it is blue, usage: {input_tokens: 130, output_tokens: 5}}
  - when: {pattern: "^fail"}
    rounds: [{fail: {kind: auth_error, message: the key is wrong}}]
  - when: {pattern: "^rest"}
    rounds: [{text: later, tools: [{name: Sleep, input: {reason: until it is done, duration_ms: 60000}}]}]
  - when: {pattern: "^again"}
    rounds: [{tools: [{name: Enqueue, input: {text: again}}]}, {text: once more}]
  - when: {pattern: "^two steps"}
    rounds: [{tools: [{name: Enqueue, input: {text: second step}}]}, {text: first done}]
"""


async def run(life: Living, text: str, agent_id: str | None = "main", **more: object) -> RunResult:
    async with asyncio.timeout(10):
        return await run_once(life.host, RunRequest(text=text, agent_id=agent_id, **more))  # type: ignore[arg-type]


@pytest.mark.spec("RT-059", "RT-063")
async def test_without_an_agent_the_run_has_a_private_one_of_its_own_which_leaves_service_with_it(
    living: Opens,
) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    result = await run(life, "work", None)
    assert result.agent_id.startswith("tmp_run_")
    assert (result.final_status, result.final_text) == (FinalStatus.COMPLETED, "it is blue")
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]
    with pytest.raises(PrivateAgent):
        await life.host.views.summary(result.agent_id)
    stored = await life.host.store.read(lambda tx: agents.get(tx, result.agent_id))
    assert stored is not None
    assert stored.identity.status is RegistryStatus.ARCHIVED
    assert await life.messages() == [], "the default agent has nothing to do with it"
    second = await run(life, "work", None)
    assert second.agent_id != result.agent_id


@pytest.mark.spec("RT-060", "RT-062")
async def test_a_run_on_an_agent_uses_it_as_it_stands_and_leaves_its_workspace_alone(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    await life.ask("hello")
    before = (await life.host.views.summary()).execution
    result = await run(life, "work")
    after = await life.host.views.summary()
    assert result.agent_id == "main"
    assert after.execution == before
    assert after.agent.turn_index == 2
    assert "hello" in life.model.shown


@pytest.mark.spec("RT-057", "RT-061")
async def test_a_missing_agent_is_made_only_if_that_is_asked_for_and_kept_for_the_next_run(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    with pytest.raises(UnknownAgent, match="--create-agent"):
        await run(life, "work", "builder")
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]
    first = await run(life, "work", "builder", create_agent=True)
    again = await run(life, "work", "builder", create_agent=True)
    assert (first.agent_id, again.agent_id) == ("builder", "builder")
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["builder", "main"]
    assert (await life.state("builder")).turn_index == 2
    with pytest.raises(InvalidInput, match="cannot be the id"):
        await run(life, "work", "tmp_x", create_agent=True)


@pytest.mark.spec("RT-092", "RT-462")
async def test_the_result_is_read_from_the_turn_and_counts_what_this_run_used(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    await life.ask("work")
    seen: list[EventEnvelope] = []
    result = await run_once(life.host, RunRequest(text="work", agent_id="main"), seen.append)
    timeline = (await life.events("provider_round_completed"))[-1].payload["provider_attempt_timeline"]
    assert result == RunResult(
        agent_id="main",
        final_status=FinalStatus.COMPLETED,
        final_text="it is blue",
        raw_final_text="it is blue",
        sleep_reason="turn ended",
        token_usage=TokenUsage.of(230, 15),
        input_tokens=230,
        output_tokens=15,
        model_rounds=2,
        tool_calls=2,
        command_items=0,
        message_count=1,
        provider_attempt_timeline=timeline,
    )
    assert "failure_artifact" not in to_plain(result)
    assert [event.type for event in seen if event.type in ("message_admitted", "turn_terminal", "agent_slept")] == [
        "message_admitted",
        "turn_terminal",
        "agent_slept",
    ]
    assert len(life.model.requests) == 4


@pytest.mark.spec("RT-462", "RT-463")
async def test_a_failed_run_hands_back_the_artifact_that_was_stored(living: Opens) -> None:
    life = await living(SCRIPT)
    result = await run(life, "fail")
    assert (result.final_status, result.final_text) == (FinalStatus.FAILED, "")
    assert result.failure_artifact is not None
    (entry,) = await life.transcript(TranscriptKind.RUNTIME_FAILURE)
    assert to_plain(result.failure_artifact) == entry.data["failure_artifact"]
    assert (result.failure_artifact.category, result.failure_artifact.kind) == ("transport", "auth_error")
    assert result.provider_attempt_timeline == entry.data["provider_attempt_timeline"]
    assert result.token_usage == TokenUsage()
    well = await run(life, "hello")
    assert (well.final_status, well.failure_artifact) == (FinalStatus.COMPLETED, None)


async def test_a_run_that_was_aborted_does_not_show_the_failure_of_an_earlier_one(living: Opens) -> None:
    life = await living(SCRIPT)
    await run(life, "fail")
    life.model.hold()
    running = asyncio.create_task(run(life, "hello"))
    await life.model.asked()
    await life.host.lifecycle.abort("main", surface=SURFACE)
    result = await running
    assert (result.final_status, result.failure_artifact) == (FinalStatus.FAILED, None)


async def test_a_run_that_ends_in_a_bounded_sleep_is_waiting_and_its_agent_lives_on(living: Opens) -> None:
    life = await living(SCRIPT)
    result = await run(life, "rest", None)
    assert (result.final_status, result.waiting_reason, result.sleep_reason) == (
        FinalStatus.WAITING,
        "awaiting_timer",
        "until it is done",
    )
    assert result.final_text == "later"
    summary = await life.host.views.summary(result.agent_id, private=True)
    assert (summary.identity.status, summary.agent.status) == (RegistryStatus.ACTIVE, AgentStatus.ASLEEP)


async def test_a_run_goes_on_until_the_agents_own_follow_ups_are_done(living: Opens) -> None:
    life = await living(SCRIPT)
    result = await run(life, "two steps")
    assert (result.final_status, result.final_text, result.message_count) == (
        FinalStatus.COMPLETED,
        "second step",
        2,
    )


@pytest.mark.parametrize("agent_id", [None, "main"])
async def test_max_turns_end_a_run_that_does_not_end_by_itself(living: Opens, agent_id: str | None) -> None:
    life = await living(SCRIPT, limits=Limits(self_turns=1_000, self_turns_free=1_000))
    result = await run(life, "again", agent_id, max_turns=2)
    assert result.final_status is FinalStatus.MAX_TURNS_EXCEEDED
    rounds = len(life.model.requests)
    await asyncio.sleep(0.05)
    assert len(life.model.requests) == rounds, "nothing goes on behind the run's back"
    assert result.message_count >= 2


async def test_max_turns_that_are_not_reached_change_nothing(living: Opens) -> None:
    life = await living(SCRIPT)
    result = await run(life, "two steps", max_turns=2)
    assert (result.final_status, result.final_text) == (FinalStatus.COMPLETED, "second step")
    assert (await life.host.views.summary()).lifecycle.resume_required is False
    with pytest.raises(InvalidInput, match="max_turns"):
        await run(life, "hello", max_turns=0)


async def test_max_turns_end_a_run_whose_own_message_has_not_even_begun(living: Opens) -> None:
    life = await living(SCRIPT)
    life.model.hold()
    before = [await life.say(f"before you {number}") for number in range(3)]
    await life.model.asked()
    running = asyncio.create_task(run(life, "me", max_turns=1))
    await life.event("message_admitted", count=4)
    for _ in range(2):  # the second and the third turn begin, one after the other
        life.model.release()
        life.model.hold()
        await life.model.asked()
    result = await running
    assert (result.final_status, result.final_text) == (FinalStatus.MAX_TURNS_EXCEEDED, "")
    life.model.release()
    await life.at_rest()
    assert [turn.message_id for turn in await life.turns()] == before, "the prompt was taken back"


async def test_a_run_ends_when_the_agent_has_had_all_the_turns_it_may_give_itself(living: Opens) -> None:
    life = await living(SCRIPT, limits=Limits(self_turns=3, self_turns_free=3))
    result = await run(life, "again")
    assert result.final_status is FinalStatus.MAX_TURNS_EXCEEDED
    assert (await life.state()).held_by == "self_turns"


async def test_a_run_on_an_agent_that_does_not_work_now_is_refused_with_the_way_out(living: Opens) -> None:
    life = await living(SCRIPT)
    await life.host.lifecycle.pause("main", SURFACE)
    with pytest.raises(Conflict, match="holon agent resume main"):
        await run(life, "hello")
    assert (await life.state()).pending == 0
    await life.host.lifecycle.stop("main", SURFACE)
    with pytest.raises((AgentStopped, Conflict), match="holon agent resume main"):
        await run(life, "hello")


async def test_a_run_waits_for_what_was_there_before_it(living: Opens) -> None:
    life = await living(SCRIPT)
    life.model.hold()
    earlier = await life.say("earlier")
    await life.model.asked()
    running = asyncio.create_task(run(life, "hello"))
    life.model.release()
    result = await running
    assert result.final_text == "hello"
    assert (await life.settled(earlier)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_runs_at_the_same_time_do_not_get_in_each_others_way(living: Opens) -> None:
    life = await living(SCRIPT)
    results = await asyncio.gather(*(run(life, f"hello {number}", None) for number in range(10)))
    assert [result.final_text for result in results] == [f"hello {number}" for number in range(10)]
    assert {result.final_status for result in results} == {FinalStatus.COMPLETED}


LONG = """
rules:
  - when: {kind: task_result}
    rounds: [{text: 'it came to its end'}]
  - when: {pattern: "^long (?P<seconds>[0-9.]+)"}
    rounds:
      - tools: [{name: ExecCommand, input: {cmd: 'sleep {seconds}', login: false, yield_time_ms: 20}}]
      - {text: it is under way}
  - when: {pattern: "^send"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: long 30}}]
      - {text: somebody is under way}
"""


async def test_a_run_waits_for_the_tasks_that_it_began_and_for_what_the_agent_makes_of_them(living: Opens) -> None:
    life = await living(LONG)
    for agent_id in ("main", None):
        result = await run(life, "long 0.2", agent_id)
        assert (result.final_status, result.final_text) == (FinalStatus.COMPLETED, "it came to its end")
        assert [begun.task.status for begun in result.tasks] == ["completed"]


async def test_a_run_that_need_not_wait_leaves_its_tasks_to_the_agent(living: Opens) -> None:
    life = await living(LONG)
    result = await run(life, "long 0.3", wait_for_tasks=False)
    assert result.final_text == "it is under way"
    assert [begun.task.status for begun in result.tasks] == ["running"]
    later = await run(life, "hello")
    assert later.final_text != "it came to its end", "a run waits for its own tasks only"
    await life.event("task_status_updated")
    with pytest.raises(InvalidInput, match="ends with its run"):
        await run(life, "long 0.3", None, wait_for_tasks=False)


@pytest.mark.parametrize("text", ["long 30", "send"])
async def test_what_a_temporary_agent_still_has_under_way_ends_with_it(living: Opens, text: str) -> None:
    life = await living(LONG)
    result = await run(life, text, None, max_turns=1)
    assert result.final_text.endswith("under way")
    left = await life.host.store.read(lambda tx: tx.all("SELECT id, agent_id FROM tasks WHERE status = 'running'"))
    assert left == []
    serving = await life.host.store.read(lambda tx: agents.listing(tx))
    assert [stored.identity.agent_id for stored in serving] == ["main"]


async def test_an_agent_that_a_run_makes_begins_with_its_template(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE])
    await run(life, "work", "reviewer", create_agent=True, template="holon-reviewer")
    home = life.host.settings.agents_dir / "reviewer"
    assert "template.json" in [path.name for path in (home / ".holon" / "state").iterdir()]
    with pytest.raises(InvalidInput, match="for an agent that is made"):
        await run(life, "work", "reviewer", template="holon-reviewer")
