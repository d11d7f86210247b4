"""Agents: who there are, who can see them, and what their state keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holon.core.agents import (
    AgentKind,
    AgentModelState,
    AgentStatus,
    Ownership,
    ProfilePreset,
    RegistryStatus,
    Visibility,
)
from holon.core.clock import ManualClock, moment
from holon.core.errors import AgentArchived, AgentExists, HomeBusy, IdempotencyMismatch, InvalidInput, PrivateAgent
from holon.core.usage import TokenUsage
from holon.runtime.host import Host
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.settings import load_settings
from holon.runtime.timers import TimerRequest
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE


@pytest.mark.spec("RT-052", "RT-053", "RT-058", "RT-467")
async def test_a_created_agent_is_public_named_listed_and_has_a_home(living: Opens, tmp_path: Path) -> None:
    life = await living()
    identity = (await life.host.agents.create("helper", surface=SURFACE)).value
    home = tmp_path / "agents" / "helper"
    assert (identity.agent_id, identity.agent_home) == ("helper", str(home))
    assert (identity.kind, identity.visibility) == (AgentKind.NAMED, Visibility.PUBLIC)
    assert (identity.ownership, identity.profile_preset) == (Ownership.SELF_OWNED, ProfilePreset.PUBLIC_NAMED)
    assert identity.lineage_parent_agent_id is None
    for folder in ("memory", "notes", "work", "skills", ".holon"):
        assert (home / folder).is_dir()
    await life.at_rest("helper")
    assert [entry.identity for entry in await life.host.views.agents()] == [
        identity,
        (await life.host.views.summary()).identity,
    ]
    assert (await life.ask("hello", "helper")).turn is not None


@pytest.mark.spec("RT-052", "RT-053", "RT-055", "RT-056")
async def test_the_default_agent_is_main_and_is_meant_where_none_is_named(living: Opens, tmp_path: Path) -> None:
    life = await living()
    identity = (await life.host.views.summary()).identity
    assert (identity.agent_id, identity.kind, identity.is_default_agent) == ("main", AgentKind.DEFAULT, True)
    assert (tmp_path / "agents" / "main").is_dir()
    message = await life.host.views.message(None, await life.say("hello", None))
    assert message.envelope.agent_id == "main"


@pytest.mark.spec("RT-056")
async def test_the_default_agents_name_is_a_setting(living: Opens) -> None:
    life = await living(default_agent_id="ada")
    assert (await life.host.views.summary()).identity.agent_id == "ada"
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["ada"]


@pytest.mark.spec("RT-053", "RT-059", "RT-063")
async def test_a_temporary_agent_is_private_and_on_no_public_view(living: Opens) -> None:
    life = await living()
    identity = await life.host.agents.create_temporary(surface=SURFACE)
    assert identity.agent_id.startswith("tmp_run_")
    assert (identity.kind, identity.visibility) == (AgentKind.CHILD, Visibility.PRIVATE)
    assert identity.profile_preset is ProfilePreset.PRIVATE_CHILD
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]
    views = life.host.views
    for view in (views.summary, views.snapshot, views.briefs, views.transcript, views.tasks, views.latency):
        with pytest.raises(PrivateAgent):
            await view(identity.agent_id)
    with pytest.raises(PrivateAgent):
        await life.host.timers.listing(identity.agent_id)
    with pytest.raises(PrivateAgent):
        async for _ in life.host.events.follow(identity.agent_id, 0):
            pass
    assert (await life.host.views.summary(identity.agent_id, private=True)).identity == identity


@pytest.mark.parametrize("agent_id", ["", "a b", "../x", "a/b", "tmp_x", "_runtime", ".hidden", "a..b", "x" * 65, "ä"])
async def test_an_id_that_is_no_plain_name_is_refused(living: Opens, agent_id: str, tmp_path: Path) -> None:
    life = await living()
    with pytest.raises(InvalidInput, match="cannot be the id of an agent"):
        await life.host.agents.create(agent_id, surface=SURFACE)
    assert [folder.name for folder in (tmp_path / "agents").iterdir()] == ["main"]


async def test_an_agent_is_made_once_whatever_the_clock_says(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    first = await life.host.agents.create("helper", surface=SURFACE, idempotency_key="k")
    assert not first.replayed
    for move in (0, 5, -1_000):
        clock.move(move)
        again = await life.host.agents.create("helper", surface=SURFACE, idempotency_key="k")
        assert again == (first.value, True)
    with pytest.raises(AgentExists, match="holon agent status helper"):
        await life.host.agents.create("helper", surface=SURFACE)
    with pytest.raises(IdempotencyMismatch):
        await life.host.agents.create("other", surface=SURFACE, idempotency_key="k")


async def test_an_archived_agent_is_out_of_service_and_its_records_stay(living: Opens) -> None:
    life = await living()
    await life.host.agents.create("helper", surface=SURFACE)
    await life.at_rest("helper")
    await life.host.timers.create("helper", TimerRequest(duration_ms=60_000, interval_ms=60_000), surface=SURFACE)
    asked = await life.ask("hello", "helper")
    await life.host.agents.archive("helper", "its job is done")
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]
    for knock in (
        life.say("again", "helper"),
        life.host.lifecycle.resume("helper", SURFACE),
        life.host.views.summary("helper"),
    ):
        with pytest.raises(AgentArchived):
            await knock
    events = await life.host.store.read(
        lambda tx: tx.all("SELECT kind FROM events WHERE agent_id = 'helper' ORDER BY seq DESC LIMIT 1")
    )
    assert events == [("agent_archived",)]
    stored = await life.host.store.read(lambda tx: tx.all("SELECT id FROM messages WHERE agent_id = 'helper'"))
    assert stored == [(asked.envelope.id,)]


@pytest.mark.spec("RT-069", "RT-193")
async def test_the_whole_state_survives_a_restart(living: Opens, clock: ManualClock) -> None:
    script = """
rules:
  - when: {pattern: "^work"}
    rounds: [{tools: [{name: Note, input: {text: x}}]}, {text: done}]
  - when: {pattern: "^rest"}
    rounds: [{text: bye, tools: [{name: Sleep, input: {reason: later, duration_ms: 60000}}]}]
  - when: {pattern: "^fail"}
    rounds: [{fail: {kind: auth_error}}]
"""
    life = await living(script, clock=clock, tools=[NOTE])
    for text in ("fail", "work", "rest"):
        await life.ask(text)
    await life.at_rest()
    before = await life.host.views.summary()
    await life.close()
    life = await living(script, clock=clock, tools=[NOTE])
    after = await life.host.views.summary()
    assert after.agent == before.agent
    assert after.token_usage == before.token_usage
    assert after.closure == before.closure
    state = after.agent
    assert (state.status, state.total_message_count, state.total_model_rounds, state.turn_index) == (
        AgentStatus.ASLEEP,
        3,
        3,
        3,
    )
    assert state.sleeping_until == moment(clock.now_ms() + 60_000)
    assert state.last_runtime_failure is not None
    assert state.last_continuation is not None
    assert state.last_turn_terminal is not None
    assert (state.last_wake_reason, len(state.active_task_ids)) == ("operator_prompt", 1)


@pytest.mark.spec("RT-070")
def test_no_other_status_can_be_written() -> None:
    assert [status.value for status in AgentStatus] == [
        "booting",
        "awake_idle",
        "awake_running",
        "awaiting_task",
        "asleep",
        "paused",
        "stopped",
    ]
    with pytest.raises(ValueError, match="dozing"):
        AgentStatus("dozing")


@pytest.mark.spec("RT-071", "RT-478")
async def test_an_agent_boots_idles_runs_and_falls_asleep_and_each_step_is_on_record(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    await life.at_rest()
    steps = [(e.payload["before"], e.payload["after"]) for e in await life.events("agent_state_changed")]
    assert steps == [
        ("booting", "awake_idle"),
        ("awake_idle", "asleep"),
        ("asleep", "awake_running"),
        ("awake_running", "asleep"),
    ]
    assert all(event.payload["reason"] for event in await life.events("agent_state_changed"))


@pytest.mark.spec("RT-071")
async def test_with_more_in_its_queue_an_agent_idles_between_turns_and_does_not_sleep(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    for text in ("one", "two"):
        await life.say(text)
    newest = await life.newest()
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    steps = [e.payload["after"] for e in await life.events("agent_state_changed", after=newest)]
    assert steps == ["awake_idle", "awake_running", "awake_idle", "awake_running", "asleep"]


@pytest.mark.spec("RT-073", "RT-098")
async def test_status_maps_to_awake_or_asleep(living: Opens) -> None:
    life = await living()
    assert (await life.host.views.summary()).mode == "asleep"
    life.model.hold()
    message_id = await life.say("hello")
    await life.model.asked()
    running = await life.host.views.summary()
    assert (running.mode, running.closure.runtime_posture) == ("awake", "awake")
    life.model.release()
    await life.settled(message_id)
    resting = await life.at_rest()
    assert (resting.mode, resting.closure.runtime_posture) == ("asleep", "sleeping")


@pytest.mark.spec("RT-075", "RT-188", "RT-193")
async def test_counters_follow_what_the_agent_does(living: Opens, clock: ManualClock) -> None:
    script = """
rules:
  - rounds:
      - tools: [{name: Note, input: {text: a}}, {name: Note, input: {text: b}}]
        usage: {input_tokens: 100, output_tokens: 10}
      - text: done
        usage: {input_tokens: 120, output_tokens: 5}
"""
    life = await living(script, clock=clock, tools=[NOTE])
    await life.ask("go")
    clock.move(1_000)
    await life.settled(await life.webhook({"x": 1}))
    state = await life.state()
    assert (state.total_message_count, state.total_model_rounds) == (2, 4)
    assert (state.total_input_tokens, state.total_output_tokens) == (440, 30)
    assert [(entry.tool_name, entry.total_calls) for entry in state.tool_latency] == [("Note", 4)]
    assert state.last_wake_reason == "webhook_event"
    assert state.last_brief_at == moment(clock.now_ms())
    usage = (await life.host.views.summary()).token_usage
    assert (usage.total, usage.total_model_rounds, usage.last_turn) == (
        TokenUsage.of(440, 30),
        4,
        TokenUsage.of(220, 15),
    )


@pytest.mark.spec("RT-075")
async def test_an_acknowledgement_counts_as_the_last_brief(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    await life.host.lifecycle.pause("main", SURFACE)
    clock.move(5_000)
    await life.say("later")
    assert (await life.state()).last_brief_at == moment(clock.now_ms())


#: A model with a small window, so that few turns fill it.
SMALL = {"scripted/": {"context_window_tokens": 6_000, "max_output_tokens": 1_000}}


@pytest.mark.spec("RT-076")
async def test_compaction_is_counted_in_messages_and_the_newest_stay_exactly(living: Opens) -> None:
    life = await living(models=SMALL)
    for number in range(12):
        await life.ask(f"number {number} " + "x" * 2_000)
    state = await life.state()
    shown = [item.text for item in life.model.requests[-1].conversation if hasattr(item, "text")]
    summary, kept = shown[0], shown[1:]
    assert state.epoch > 1
    assert state.compacted_message_count + len(kept) == state.total_message_count == 12
    assert summary.startswith("[earlier conversation, in short")
    assert kept[-1].endswith("number 11 " + "x" * 2_000)
    assert await life.events("prompt_drift") == []


async def test_a_long_turn_does_not_keep_the_prompt_from_being_compacted(living: Opens) -> None:
    rounds = ", ".join("{tools: [{name: Note, input: {text: " + "y" * 300 + "}}]}" for _ in range(10))
    life = await living(f"rules: [{{rounds: [{rounds}]}}]", tools=[NOTE], models=SMALL)
    for number in range(6):
        await life.ask(f"number {number}")
    state = await life.state()
    shown = [item.text for item in life.model.requests[-1].conversation if hasattr(item, "text")]
    assert state.compacted_message_count > 0
    assert "number 5" in shown[-1]


@pytest.mark.spec("RT-024", "RT-083", "RT-085", "RT-086")
async def test_an_agents_own_model_is_its_alone_and_can_be_taken_away_again(living: Opens) -> None:
    life = await living("rules: [{rounds: [{text: scripted}]}]", model_fallbacks=["scripted/echo"])
    await life.host.agents.create("other", surface=SURFACE)
    default = AgentModelState(
        source="runtime_default",
        runtime_default_model="scripted/test",
        effective_model="scripted/test",
        effective_fallback_models=["scripted/echo"],
    )
    assert (await life.host.views.summary()).model == default
    outcome = await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    assert outcome.model == AgentModelState(
        source="agent_override",
        runtime_default_model="scripted/test",
        effective_model="scripted/echo",
        effective_fallback_models=[],
        override_model="scripted/echo",
    )
    assert (await life.host.views.summary()).model == outcome.model
    assert (await life.host.views.summary("other")).model == default
    await life.ask("hello")
    await life.ask("hello", "other")
    assert (await life.host.modelling.clear("main", surface=SURFACE)).model == default
    await life.ask("hello")
    assert [(request.agent_id, request.model) for request in life.model.requests] == [
        ("main", "scripted/echo"),
        ("other", "scripted/test"),
        ("main", "scripted/test"),
    ]
    kinds = await life.kinds()
    assert [kinds.count(kind) for kind in ("agent_model_override_set", "agent_model_override_cleared")] == [1, 1]
    assert [message.text for message in await life.messages()] == ["hello", "hello"], "no message is queued for it"


@pytest.mark.spec("RT-084")
async def test_an_override_touches_later_turns_only(living: Opens) -> None:
    script = "rules: [{rounds: [{tools: [{name: Note, input: {text: x}}]}, {text: scripted}]}]"
    life = await living(script, tools=[NOTE])
    life.model.hold()
    first = await life.say("one")
    await life.model.asked()
    await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    life.model.release()
    await life.settled(first)
    await life.ask("two")
    assert [request.model for request in life.model.requests] == ["scripted/test", "scripted/test", "scripted/echo"]
    turns = await life.turns()
    assert [turn.terminal.last_assistant_message for turn in turns if turn.terminal] == ["scripted", "two"]


async def test_agents_live_side_by_side(living: Opens) -> None:
    life = await living()
    await asyncio.gather(*(life.host.agents.create(f"agent-{n}", surface=SURFACE) for n in range(8)))
    life.model.hold()
    asked = [life.ask(f"hello {n}", f"agent-{n}") for n in range(8)]
    together = asyncio.gather(*asked)
    await life.model.asked(8)
    status = await life.host.runtime_status()
    assert (status.activity.state, status.activity.processing_agent_count) == ("processing", 8)
    life.model.release()
    done = await together
    assert [s.turn.terminal.last_assistant_message for s in done if s.turn and s.turn.terminal] == [
        f"hello {n}" for n in range(8)
    ]


async def test_a_home_has_one_host_at_a_time(living: Opens, tmp_path: Path) -> None:
    life = await living()
    with pytest.raises(HomeBusy, match="is in use by test"):
        await Host.open(load_settings(tmp_path, {}))
    await life.close()
    life = await living()
    assert (await life.ask("still here")).turn is not None


@pytest.mark.spec("RT-060")
async def test_a_run_on_a_named_agent_uses_its_identity_and_history(living: Opens) -> None:
    life = await living('rules: [{when: {turn: 2}, rounds: [{text: "you said before"}]}]')
    await life.ask("remember this")
    result = await run_once(life.host, RunRequest(text="what did I say?", agent_id="main"))
    assert (result.agent_id, result.final_text) == ("main", "you said before")
    assert "remember this" in life.model.shown
    assert (await life.host.views.summary()).identity.status is RegistryStatus.ACTIVE
