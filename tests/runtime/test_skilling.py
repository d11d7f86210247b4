"""Skills as a service: a large catalog stands in the prompt all the same, and the report names what is remarkable."""

from __future__ import annotations

from pathlib import Path

from holon.core.skills import ActivationBudget
from tests.runtime.conftest import Opens
from tests.skills.shelves import put_skill

LOADS = r"""
rules:
  - when: {pattern: 'load (\S+)'}
    rounds: [{tools: [{name: skill_load, input: {name: "{1}"}}]}, {text: done}]
  - when: {pattern: 'read (\S+) of (\S+)'}
    rounds: [{tools: [{name: load_skill_instructions, input: {skill_name: "{2}", reference: "{1}"}}]}, {text: done}]
"""


async def test_a_large_catalog_stands_in_the_prompt_and_its_changes_follow_as_a_delta(
    living: Opens, tmp_path: Path
) -> None:
    shelf = tmp_path / "agents" / "main" / "skills"
    for number in range(60):
        put_skill(shelf, f"skill-{number:02d}", f"Does thing {number}.")
    life = await living()
    await life.ask("hello")
    before = life.model.requests[-1].frame.system_prompt
    assert "- skill-00: Does thing 0.\n" in before and "- skill-59: Does thing 59." in before

    (shelf / "skill-07" / "SKILL.md").write_text("---\nname: skill-07\ndescription: Changed.\n---\n\nBody.\n")
    await life.ask("hello again")

    assert life.model.requests[-1].frame.system_prompt == before
    assert "- skill-07: Changed." in life.model.shown
    assert await life.events("prompt_drift") == []


async def test_the_report_names_what_is_dear_refused_unused_and_never_loaded(living: Opens, tmp_path: Path) -> None:
    shelf = tmp_path / "agents" / "main" / "skills"
    put_skill(shelf, "dear", body="x" * 4_000, references={"references/a.md": "x"})
    put_skill(shelf, "cheap")
    put_skill(shelf, "late")
    put_skill(shelf, "never")
    life = await living(LOADS, skills=ActivationBudget(max_skills=2))

    for asked in ("load dear", "read a.md of dear", "load cheap", "load late", "load late"):
        await life.ask(asked)

    report = await life.host.skills.report()
    assert report.expensive == ["dear"]
    assert report.often_refused == ["late"]
    assert report.unused == ["cheap"]
    assert report.never_used == ["late", "never"]


async def test_a_report_without_loads_names_nothing_but_what_was_never_loaded(living: Opens, tmp_path: Path) -> None:
    put_skill(tmp_path / "agents" / "main" / "skills", "never")
    life = await living()
    report = await life.host.skills.report()
    assert (report.expensive, report.often_refused, report.unused, report.never_used) == ([], [], [], ["never"])
