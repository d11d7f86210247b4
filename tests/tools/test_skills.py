"""Skills in a life: found, loaded once, budgeted, on record, and still there after a restart and a compaction."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holon.context.padding import PaddingMode
from holon.core.codec import dumps
from holon.core.conversation import ToolResults
from holon.core.errors import NotFound
from holon.core.skills import (
    HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS,
    MAX_EXPLICIT_ACTIVATIONS_PER_SESSION,
    WARN_CUMULATIVE_ACTIVATION_TOKENS,
    ActivationBudget,
    ActivationState,
    LoadReason,
    SkillActivation,
)
from holon.runtime.skilling import SkillInstallRequest, SkillUninstallRequest
from holon.store import activations, loads
from tests.runtime.conftest import Opens, clock, living
from tests.runtime.living import SURFACE, Living
from tests.skills.shelves import put_skill

__all__ = ["clock", "living"]  # fixtures of the runtime's tests

#: A model that does what it is told: one call, then a word.
OBEYS = r"""
rules:
  - when: {pattern: 'load (\S+)'}
    rounds: [{tools: [{name: skill_load, input: {name: "{1}"}}]}, {text: done}]
  - when: {pattern: 'drop (\S+)'}
    rounds: [{tools: [{name: skill_unload, input: {name: "{1}"}}]}, {text: done}]
  - when: {pattern: 'look for (.+)'}
    rounds: [{tools: [{name: skill_search, input: {query: "{1}"}}]}, {text: done}]
  - when: {pattern: 'read (\S+) of (\S+)'}
    rounds: [{tools: [{name: load_skill_instructions, input: {skill_name: "{2}", reference: "{1}"}}]}, {text: done}]
  - when: {pattern: 'all of (\S+) (\S+) (\S+)'}
    rounds:
      - tools:
          - {name: skill_load, input: {name: "{1}"}}
          - {name: skill_load, input: {name: "{2}"}}
          - {name: skill_load, input: {name: "{3}"}}
      - text: done
  - when: {pattern: 'run (.+)'}
    rounds: [{tools: [{name: ExecCommand, input: {cmd: "{1}"}}]}, {text: done}]
  - when: {pattern: 'batch (.+)'}
    rounds: [{tools: [{name: ExecCommandBatch, input: {items: [{cmd: "true"}, {cmd: "{1}"}]}}]}, {text: done}]
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "main" / "skills"


def result(life: Living) -> tuple[bool, str]:
    """The newest tool result that the model was shown: whether it failed, and what it says."""
    shown = [item for item in life.model.requests[-1].conversation if isinstance(item, ToolResults)]
    newest = shown[-1].results[-1]
    return newest.is_error, newest.content


async def active(life: Living) -> dict[str, SkillActivation]:
    found = await life.host.store.read(lambda tx: activations.of_agent(tx, "main"))
    return {each.name: each for each in found}


@pytest.mark.spec("CA-065")
def test_the_constants_are_those_of_the_text() -> None:
    assert MAX_EXPLICIT_ACTIVATIONS_PER_SESSION == 3
    assert WARN_CUMULATIVE_ACTIVATION_TOKENS == 10_000
    assert HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS == 30_000


@pytest.mark.spec("CA-064")
def test_the_reasons_of_a_load_are_those_of_the_text() -> None:
    assert [*LoadReason] == [
        "always", "on_demand", "read_skill_md", "run_skill_script", "auto_suggested", "prompt_injection"
    ]  # fmt: skip


@pytest.mark.spec("CA-047", "CA-049", "CA-063", "RT-237", "RT-238", "RT-239", "RF-005", "RF-008")
async def test_the_prompt_lists_skills_and_loads_nothing_by_itself(living: Opens, shelf: Path) -> None:
    put_skill(shelf, "deploy", "Roll out an app.", "SECRET BODY", references={"references/a.md": "SECRET REFERENCE"})
    put_skill(shelf, "pdf", "Fill forms.", "OTHER BODY")
    life = await living(OBEYS)

    await life.ask("please roll out an app")

    prompt = life.model.requests[-1].frame.system_prompt
    assert "- deploy: Roll out an app.\n- pdf: Fill forms." in prompt
    assert "open its SKILL.md with skill_load(name) before you follow its workflow" in prompt
    assert not any(secret in prompt for secret in ("SECRET BODY", "OTHER BODY", "SECRET REFERENCE"))
    assert await life.events("skill_activated") == []
    assert await active(life) == {}


@pytest.mark.spec("CA-060", "CA-061", "CA-062", "CA-075", "RT-243")
async def test_a_skill_is_loaded_once_into_the_conversation_and_then_pointed_at(living: Opens, shelf: Path) -> None:
    folder = put_skill(shelf, "deploy", body="Push the button.", references={"references/a.md": "x"})
    life = await living(OBEYS)

    await life.ask("load deploy")
    first = result(life)
    before = life.model.requests[0].frame.system_prompt
    await life.ask("load deploy")
    again = result(life)

    assert first[0] is False
    assert first[1].startswith("# Skill: deploy (source: agent)\n\nPush the button.")
    assert "references/a.md" in first[1]
    assert again[1].startswith("# Skill: deploy (source: agent)\n\n") and "Push the button." not in again[1]
    assert '"already_loaded":true' in again[1]
    assert {request.frame.system_prompt for request in life.model.requests} == {before}
    later = dumps(life.model.requests[-1].conversation)
    assert later.count("Push the button.") == 1, "it stays, once"
    assert "skill_unloaded" not in await life.kinds()
    (event,) = await life.events("skill_activated")
    assert event.payload == {
        "skill_id": "deploy",
        "skill_version": (await active(life))["deploy"].version,
        "load_reason": "on_demand",
        "load_size_tokens": (await active(life))["deploy"].tokens,
        "source": "agent",
        "path": str(folder / "SKILL.md"),
        "entrypoint_path": str(folder / "SKILL.md"),
        "session_id": (await life.state()).session_id,
        "triggered_by_tool_use_id": event.payload["triggered_by_tool_use_id"],
    }
    assert event.turn_id == (await life.turns())[0].id
    assert (await active(life))["deploy"].state is ActivationState.SESSION_ACTIVE
    assert (await life.host.skills.listing("main")).explicit_count == 1


@pytest.mark.spec("CA-067", "CA-068", "CA-072", "CA-073", "CA-074")
async def test_the_fourth_skill_is_refused_in_words_and_the_session_goes_on(living: Opens, shelf: Path) -> None:
    for name in ("a", "b", "c", "d"):
        put_skill(shelf, name, body=f"BODY {name}")
    life = await living(OBEYS)

    await life.ask("all of a b c")
    assert len(await active(life)) == 3, "three in one turn are allowed"
    await life.ask("load d")

    failed, words = result(life)
    assert failed
    assert "activation budget exhausted: 3 skills already activated this session (limit 3)" in words
    assert "Already loaded: [a, b, c]" in words and "summarize and discard" in words and "skill_unload" in words
    assert "BODY d" not in words
    assert [e.payload["skill_id"] for e in await life.events("skill_activated")] == ["a", "b", "c"]
    (event,) = [e for e in await life.events("tool_executed") if e.payload["status"] == "error"]
    assert "activation budget exhausted" in event.payload["error"]
    assert (await life.briefs())[-1].text == "done"
    (line,) = [line for line in (await life.host.skills.report()).lines if line.name == "d"]
    assert (line.loads, line.refused) == (0, 1)


@pytest.mark.spec("CA-069", "CA-070")
async def test_tokens_warn_first_and_then_refuse_whatever_the_count(
    living: Opens, shelf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_skill(shelf, "big", body="x" * 4_100)
    put_skill(shelf, "small", body="y" * 400)
    put_skill(shelf, "huge", body="z" * 8_000)
    life = await living(OBEYS, skills=ActivationBudget(warn_tokens=1_000, stop_tokens=3_000))

    with caplog.at_level(logging.WARNING, "holon.skills"):
        await life.ask("load big")
        await life.ask("load small")
    assert len([record for record in caplog.records if "tokens of skills" in record.message]) == 1
    await life.ask("load huge")

    failed, words = result(life)
    assert failed and "would pass the 3000" in words
    assert sorted(await active(life)) == ["big", "small"]


@pytest.mark.spec("CA-048", "CA-052", "CA-053", "CA-054", "CA-055", "CA-056", "CA-057", "CA-058", "CA-059", "CA-071")
async def test_bodies_that_fill_the_prefix_are_events_of_the_session_and_cost_no_budget(
    living: Opens, shelf: Path
) -> None:
    for name in ("alpha", "beta", "gamma"):
        put_skill(shelf, name, body=f"BODY {name} " + "w " * 900)
    models = {
        "scripted/": {
            "cache": {"kind": "explicit", "floor_tokens": 4_500},
            "prices": {"input": 1.0, "output": 5.0, "cache_read": 0.1, "cache_write": 1.25},
        }
    }
    life = await living(OBEYS, models=models, padding=PaddingMode.ALWAYS)

    await life.ask("load alpha")

    prompt = life.model.requests[0].frame.system_prompt
    state = await active(life)
    preloaded = sorted(state)
    assert preloaded, (await life.events("epoch_opened"))[0].payload
    for name in ("alpha", "beta", "gamma"):
        assert (f"- {name} [preloaded]: " in prompt) is (name in preloaded)
        assert (f"# Skill: {name} (source: agent)\n\nBODY {name}" in prompt) is (name in preloaded)
    events = await life.events("skill_activated")
    assert [e.payload["skill_id"] for e in events] == preloaded
    session = (await life.events("session_created"))[0]
    for event in events:
        assert event.payload["load_reason"] == "always"
        assert event.payload["session_id"] == session.payload["session_id"]
        assert event.turn_id is None and "triggered_by_tool_use_id" not in event.payload
        assert event.payload["load_size_tokens"] > 0 and event.payload["skill_version"]
    kinds = await life.kinds()
    assert kinds.index("session_created") < kinds.index("skill_activated") < kinds.index("turn_context_built")
    failed, words = result(life)
    assert not failed
    assert words.startswith(
        "# Skill: alpha (source: agent)\n\nThis skill's body is already loaded in the system prompt"
    )
    assert '"already_preloaded":true' in words and "BODY" not in words
    listing = await life.host.skills.listing("main")
    assert (listing.explicit_count, listing.explicit_tokens) == (0, 0)


async def test_an_unloaded_skill_counts_until_the_next_epoch_and_one_in_use_is_carried_over(
    living: Opens, shelf: Path
) -> None:
    put_skill(shelf, "keep", body="KEEP THIS")
    put_skill(shelf, "leave", body="LEAVE THIS")
    small = {"scripted/": {"context_window_tokens": 9_000, "max_output_tokens": 500}}
    life = await living(OBEYS, models=small)
    await life.ask("load keep")
    await life.ask("load leave")
    await life.ask("drop leave")
    assert (await life.host.skills.listing("main")).explicit_count == 2, "its budget comes back later"

    while len(await life.events("epoch_opened")) < 2:
        await life.ask("talk " + "x" * 2_000)
    await life.ask("load keep")

    request = life.model.requests[-1]
    assert "# Skill: keep (source: agent)\n\nKEEP THIS" in request.frame.system_prompt
    assert "- keep [preloaded]: " in request.frame.system_prompt
    assert "LEAVE THIS" not in request.frame.system_prompt
    assert '"already_preloaded":true' in result(life)[1]
    assert sorted(await active(life)) == ["keep"]
    assert (await life.host.skills.listing("main")).explicit_count == 1


@pytest.mark.spec("RT-244", "CA-066")
async def test_after_a_restart_a_session_active_skill_is_restored_and_still_counts(living: Opens, shelf: Path) -> None:
    put_skill(shelf, "deploy", body="Push.")
    first = await living(OBEYS)
    await first.ask("load deploy")
    await first.close()

    second = await living(OBEYS)
    listing = await second.host.skills.listing("main")
    await second.ask("load deploy")

    assert [(s.name, s.active.state if s.active else None) for s in listing.skills] == [("deploy", "restored")]
    assert listing.explicit_count == 1
    assert '"already_loaded":true' in result(second)[1]
    assert "- deploy (restored, on_demand)" in second.model.shown
    assert len(await second.events("skill_activated")) == 1
    helper = (await second.host.agents.create("helper", surface=SURFACE)).value
    assert (await second.host.skills.listing(helper.agent_id)).explicit_count == 0, "sessions share nothing"


@pytest.mark.spec("RT-240", "RT-245")
@pytest.mark.parametrize("how", ["run cat {}/SKILL.md", "batch head -3 {}/SKILL.md", "run cd {} && cat SKILL.md"])
async def test_reading_a_skill_md_with_a_command_activates_it(living: Opens, shelf: Path, how: str) -> None:
    folder = put_skill(shelf, "deploy")
    life = await living(OBEYS)

    await life.ask(how.format(folder))

    (event,) = await life.events("skill_activated")
    assert (event.payload["load_reason"], event.payload["path"]) == ("read_skill_md", str(folder / "SKILL.md"))
    assert (await active(life))["deploy"].state is ActivationState.SESSION_ACTIVE
    assert (await life.host.skills.listing("main")).explicit_count == 1


@pytest.mark.spec("RT-241", "RT-245")
async def test_running_a_script_activates_its_skill_and_its_body_can_still_be_loaded(
    living: Opens, shelf: Path
) -> None:
    folder = put_skill(shelf, "deploy", body="Push.", references={"scripts/go.sh": "echo gone\n"})
    life = await living(OBEYS)

    await life.ask(f"run sh {folder}/scripts/go.sh")
    await life.ask("load deploy")

    (ran, loaded) = await life.events("skill_activated")
    assert (ran.payload["load_reason"], ran.payload["path"], ran.payload["entrypoint_path"]) == (
        "run_skill_script",
        str(folder / "scripts/go.sh"),
        str(folder / "SKILL.md"),
    )
    assert loaded.payload["load_reason"] == "on_demand"
    assert "Push." in result(life)[1]
    assert (await life.host.skills.listing("main")).explicit_count == 1


@pytest.mark.spec("RT-242")
async def test_a_command_that_fails_activates_nothing(living: Opens, shelf: Path) -> None:
    folder = put_skill(shelf, "deploy")
    life = await living(OBEYS)

    await life.ask(f"run cat {folder}/SKILL.md {folder}/nothing")

    assert await life.events("skill_activated") == []
    assert await active(life) == {}


@pytest.mark.spec("CA-051", "RF-009")
async def test_a_search_ranks_and_names_references(living: Opens, shelf: Path) -> None:
    put_skill(shelf, "pdf-forms", "Fill in forms.", references={"references/fields.md": "x"})
    put_skill(shelf, "deploy", "Roll out an app.")
    put_skill(shelf, "secret", "For people only.", extra="disable-model-invocation: true\n")
    life = await living(OBEYS)

    await life.ask("look for filling a pdf form")
    assert result(life)[1] == "- pdf-forms: Fill in forms.\n  references: references/fields.md"
    await life.ask("look for oll ou")
    assert result(life)[1] == "- deploy: Roll out an app.", "part of a word finds it too"
    await life.ask("look for people")
    assert "no skill matches" in result(life)[1]
    await life.ask("load secret")
    assert result(life)[0] and "for people only" in result(life)[1]


@pytest.mark.spec("RF-010", "RF-011", "RF-012", "RF-015", "RF-016")
async def test_references_are_loaded_by_name_once_a_turn_and_refused_with_typed_errors(
    living: Opens, shelf: Path
) -> None:
    folder = put_skill(shelf, "rag", references={"references/azure.md": "# Azure\n"})
    life = await living(OBEYS)

    await life.ask("read azure.md of rag")
    assert result(life) == (False, "# Azure\n")
    (folder / "references/azure.md").write_text("# Changed\n")
    await life.ask("read references/azure.md of rag")
    assert result(life) == (False, "# Changed\n"), "the next turn sees a changed file"
    for asked, kind in (
        ("azure.md of nothing", "unknown_skill"),
        ("../../../../config.json of rag", "reference_not_allowed"),
    ):
        await life.ask(f"read {asked}")
        failed, words = result(life)
        assert failed and f'"kind":"{kind}"' in words
    (folder / "references/azure.md").unlink()
    (folder / "SKILL.md").write_text("---\nname: rag\ndescription: d\nreferences: [references/azure.md]\n---\nb")
    await life.ask("read azure.md of rag")
    assert '"kind":"reference_not_found"' in result(life)[1] and "references/azure.md" in result(life)[1]
    books = await life.host.store.read(lambda tx: loads.of_agent(tx, "main"))
    assert [(b.what, b.name, b.refused) for b in reversed(books)] == [
        ("reference", "rag", False),
        ("reference", "rag", False),
        ("reference", "nothing", True),
        ("reference", "rag", True),
        ("reference", "rag", True),
    ]


async def test_a_new_skill_reaches_the_prompt_as_a_delta(living: Opens, shelf: Path) -> None:
    put_skill(shelf, "one")
    life = await living(OBEYS)
    await life.ask("hello")
    before = life.model.requests[-1].frame.system_prompt

    put_skill(shelf, "two", "Came later.")
    await life.ask("hello again")

    assert life.model.requests[-1].frame.system_prompt == before
    assert "[context: skill_index changed" in life.model.shown and "- two: Came later." in life.model.shown
    assert await life.events("prompt_drift") == []


async def test_the_ledger_knows_what_was_loaded_what_it_cost_and_whether_it_was_used(
    living: Opens, shelf: Path
) -> None:
    put_skill(shelf, "used", references={"references/a.md": "x"})
    put_skill(shelf, "idle")
    put_skill(shelf, "never")
    prices = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
    life = await living(OBEYS, models={"scripted/": {"prices": prices}})

    await life.ask("load used")
    await life.ask("load idle")
    await life.ask("read a.md of used")

    report = await life.host.skills.report()
    lines = {line.name: (line.loads, line.references, line.used) for line in report.lines}
    assert lines == {"used": (1, 1, 1), "idle": (1, 0, 0)}
    assert report.never_used == ["never"]
    tokens = (await active(life))["idle"].tokens
    (idle,) = [line for line in report.lines if line.name == "idle"]
    assert idle.dollars == pytest.approx(tokens * 3.75e-6)


async def test_installing_and_uninstalling_are_on_record(living: Opens, shelf: Path, tmp_path: Path) -> None:
    source = put_skill(tmp_path / "outside", "deploy")
    life = await living(OBEYS)

    done = await life.host.skills.install("main", SkillInstallRequest(source=str(source)), surface=SURFACE)
    assert [skill.name for skill in (await life.host.skills.listing("main")).skills] == ["deploy"]
    await life.host.skills.uninstall("main", SkillUninstallRequest(name="deploy"), surface=SURFACE)

    assert done.folder == str(shelf / "deploy")
    assert [e.payload.get("removed", False) for e in await life.events("skill_installed")] == [False, True]
    with pytest.raises(NotFound):
        await life.host.skills.uninstall("main", SkillUninstallRequest(name="deploy"), surface=SURFACE)
