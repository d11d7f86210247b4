"""The model of one agent: set and cleared by its operator, for turns that begin later; and the doctor of all models."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from holon.core.agents import AgentModelState
from holon.core.codec import dumps, to_plain
from holon.core.errors import InvalidInput, UnknownAgent
from holon.providers.models import ModelTable
from holon.providers.selection import Providers
from holon.runtime.doctor import Check, Diagnosis, examine
from holon.runtime.modelling import model_lines
from holon.runtime.settings import Settings, load_settings
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Gate

#: What a model answers does not matter here, only which one is asked.
TOOL = """
rules:
  - when: {pattern: "^slow"}
    rounds: [{tools: [{name: Wait}]}, {text: done}]
"""


@pytest.mark.spec("RT-083", "RT-086")
async def test_an_override_is_for_one_agent_and_the_default_stays(living: Opens) -> None:
    life = await living(model_fallbacks=["scripted/test", "scripted/echo"])
    await life.host.agents.create("second", surface=SURFACE)
    outcome = await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    assert outcome.changed
    assert outcome.model == AgentModelState(
        source="agent_override",
        runtime_default_model="scripted/test",
        effective_model="scripted/echo",
        effective_fallback_models=["scripted/test"],
        override_model="scripted/echo",
    )
    await life.ask("hello")
    await life.ask("hello", "second")
    assert [request.model for request in life.model.requests] == ["scripted/echo", "scripted/test"]
    assert (await life.host.views.summary("main")).model == outcome.model
    second = await life.host.views.summary("second")
    assert to_plain(second.model) == {
        "source": "runtime_default",
        "runtime_default_model": "scripted/test",
        "effective_model": "scripted/test",
        "effective_fallback_models": ["scripted/echo"],
    }
    listed = {entry.identity.agent_id: entry.model for entry in await life.host.views.agents()}
    assert listed == {"main": outcome.model, "second": second.model}


@pytest.mark.spec("RT-084")
async def test_a_turn_that_runs_ends_on_the_model_that_it_began_with(living: Opens) -> None:
    gate = Gate()
    life = await living(TOOL, tools=[gate.tool])
    running = await life.say("slow")
    await gate.entered()
    await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    gate.open()
    await life.settled(running)
    await life.ask("hello")
    assert [(request.round, request.model) for request in life.model.requests] == [
        (1, "scripted/test"),
        (2, "scripted/test"),
        (1, "scripted/echo"),
    ]
    assert [turn.model for turn in await life.turns()] == ["scripted/test", "scripted/echo"]


@pytest.mark.spec("RT-085")
async def test_a_cleared_override_leaves_the_default_and_its_fallbacks(living: Opens) -> None:
    life = await living(model_fallbacks=["scripted/echo"])
    before = (await life.host.modelling.get("main")).model
    await life.host.modelling.set("main", "scripted/other", surface=SURFACE)
    cleared = await life.host.modelling.clear("main", surface=SURFACE)
    assert (cleared.changed, cleared.model) == (True, before)
    await life.ask("hello")
    assert life.model.requests[-1].model == "scripted/test"
    assert (await life.host.modelling.clear("main", surface=SURFACE)).changed is False


async def test_an_override_outlives_the_process(living: Opens) -> None:
    life = await living()
    await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    await life.close()
    life = await living()
    await life.ask("hello")
    assert life.model.requests[-1].model == "scripted/echo"


async def test_a_change_is_an_audit_event_and_no_message(living: Opens) -> None:
    life = await living()
    await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    await life.host.modelling.clear("main", surface=SURFACE)
    changes = await life.events("agent_model_override_set", "agent_model_override_cleared")
    assert [(event.type, event.payload) for event in changes] == [
        ("agent_model_override_set", {"model": "scripted/echo", "before": "scripted/test", "surface": SURFACE}),
        ("agent_model_override_cleared", {"model": "scripted/test", "before": "scripted/echo", "surface": SURFACE}),
    ]
    assert await life.messages() == []
    assert (await life.state()).turn_index == 0


@pytest.mark.parametrize("ref", ["", "echo", "scripted/", "/echo", " scripted/echo", "scri pted/echo"])
async def test_what_does_not_name_a_model_is_refused(living: Opens, ref: str) -> None:
    life = await living()
    with pytest.raises(InvalidInput, match="provider/model"):
        await life.host.modelling.set("main", ref, surface=SURFACE, force=True)
    assert (await life.state()).model_override is None


async def test_a_model_that_cannot_be_asked_is_refused_with_the_diagnosis_unless_forced(living: Opens) -> None:
    life = await living()
    with pytest.raises(InvalidInput, match="there is no provider 'acme': configured are scripted") as refused:
        await life.host.modelling.set("main", "acme/large", surface=SURFACE)
    assert "holon doctor" in (refused.value.hint or "")
    assert refused.value.details["field"] == "model"
    forced = await life.host.modelling.set("main", "acme/large", surface=SURFACE, force=True)
    assert forced.model.effective_model == "acme/large"
    with pytest.raises(UnknownAgent):
        await life.host.modelling.set("nobody", "scripted/echo", surface=SURFACE)


# The table and the doctor


def providers(settings: Settings, environ: dict[str, str] | None = None) -> Providers:
    return Providers.from_configuration(
        settings.home, settings.providers, environ or {}, models=ModelTable(settings.models)
    )


def settings_of(home: Path, **given: Any) -> Settings:
    return load_settings(home, {}, **given)


def test_the_model_table_says_what_a_model_costs_and_whether_it_can_be_asked(tmp_path: Path) -> None:
    own = {"acme/": {"prices": {"input": 0.5}, "dated": "2026-02-01"}}
    found = providers(settings_of(tmp_path, models=own), {"ANTHROPIC_API_KEY": "twin-x"})
    lines = {line.card.model_ref: line for line in model_lines(found, found.models)}
    opus = lines["anthropic/claude-opus-5"]
    assert (opus.available, opus.supports_prompt_caching, opus.problem) == (True, True, None)
    assert (opus.card.prices.input, opus.card.source) == (5.0, "built_in_catalog")
    assert opus.card.dated
    gpt = lines["openai/gpt-5"]
    assert (gpt.available, gpt.supports_prompt_caching) == (False, False)
    assert "OPENAI_API_KEY" in (gpt.problem or "")
    acme = lines["acme/"]
    assert (acme.card.source, acme.card.prices.input, acme.available) == ("config_override", 0.5, False)
    assert "no provider 'acme'" in (acme.problem or "")


@pytest.mark.spec("RT-178")
def test_the_doctor_shows_which_providers_can_be_used_and_how_often_they_are_tried(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, model_default="anthropic/claude-opus-5", model_fallbacks=["openai/gpt-5"])
    found = examine(settings, providers(settings, {"ANTHROPIC_API_KEY": "twin-x"}))
    assert found.ok
    assert found.models == ["anthropic/claude-opus-5", "openai/gpt-5"]
    assert (found.retry_policy.max_retries, found.retry_policy.base_ms) == (2, 200)
    lines = {line.provider: line for line in found.providers}
    assert (lines["anthropic"].transport, lines["anthropic"].available) == ("anthropic_messages", True)
    (model,) = lines["anthropic"].models
    assert model.supports_prompt_caching
    assert "prompt_cache_blocks" in model.capabilities
    assert lines["openai"].available is False
    assert "set OPENAI_API_KEY" in (lines["openai"].problem or "")
    assert lines["openai"].retry_policy == found.retry_policy
    assert "twin-x" not in dumps(found)


def check(found: Diagnosis, name: str) -> Check:
    (one,) = [check for check in found.checks if check.name == name]
    return one


def test_the_doctor_says_what_to_do_if_no_model_can_be_asked(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, model_default="anthropic/claude-opus-5")
    found = examine(settings, providers(settings))
    assert not found.ok
    assert "ANTHROPIC_API_KEY" in check(found, "model").detail
    unknown = settings_of(tmp_path, model_default="acme/large")
    assert "'acme/large'" in check(examine(unknown, providers(unknown)), "model").detail


def test_the_doctor_looks_at_a_fresh_home_and_leaves_nothing_there(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    found = examine(settings, providers(settings))
    assert found.ok
    assert check(found, "database").detail == "none yet, made at the first start"
    assert check(found, "lock").detail == "free"
    assert not (tmp_path / "home").exists()


async def test_the_doctor_looks_at_a_home_in_use(living: Opens) -> None:
    life = await living()
    found = examine(life.host.settings, life.host.providers)
    assert found.ok, found.checks
    assert check(found, "lock").detail == f"held by test (pid {os.getpid()})"
    assert check(found, "database").detail == f"version {life.host.store.version}"


def test_the_doctor_finds_what_is_broken(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    settings.database_path.parent.mkdir()
    settings.database_path.write_bytes(b"this is no database, and long enough to be looked at" * 40)
    settings.socket_path.parent.mkdir()
    settings.socket_path.write_text("no socket")
    found = examine(settings, providers(settings))
    assert not found.ok
    assert check(found, "database").ok is False
    assert "backup" in (check(found, "database").next_step or "")
    assert check(found, "socket").detail == f"{settings.socket_path} is no socket"
    long = settings_of(tmp_path, socket_path=tmp_path / ("x" * 120))
    assert check(examine(long, providers(long)), "socket").ok is False


def test_the_doctor_knows_a_socket_that_a_dead_process_left(tmp_path: Path) -> None:
    path = Path(os.path.relpath(tmp_path / "s")) if len(str(tmp_path)) > 90 else tmp_path / "s"
    settings = settings_of(tmp_path, socket_path=path)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    os.chmod(path, 0o600)
    assert "left by a process that is gone" in check(examine(settings, providers(settings)), "socket").detail
    os.chmod(path, 0o644)
    open_to_all = check(examine(settings, providers(settings)), "socket")
    assert (open_to_all.ok, open_to_all.next_step) == (False, f"chmod 600 {path}")


async def test_tools_are_the_same_for_every_model_of_the_agent(living: Opens) -> None:
    """An override changes who is asked, never what: the prompt goes on in its epoch."""
    life = await living(tools=[NOTE])
    await life.ask("hello")
    await life.host.modelling.set("main", "scripted/echo", surface=SURFACE)
    await life.ask("again")
    first, second = life.model.requests
    assert first.tools == second.tools
    assert first.frame.blocks == second.frame.blocks
    assert second.conversation[: len(first.conversation)] == first.conversation
