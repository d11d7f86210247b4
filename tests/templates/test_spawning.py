"""An agent that founds a public one may name a template; what fails is told to its model and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holon.core.policy import BackendChoice
from tests.runtime.conftest import Opens
from tests.templates.making import TEXT, put_template


def founding(template: str) -> str:
    return f"""
rules:
  - when: {{kind: internal_followup}}
    rounds: [{{text: "I am here"}}]
  - rounds:
      - tools: [{{name: SpawnAgent, input: {{preset: public_named, agent_id: scout, template: "{template}"}}}}]
      - text: "{{result}}"
"""


@pytest.mark.spec("RT-468", "RT-471")
@pytest.mark.parametrize("form", ["id", "folder"])
async def test_a_founded_agent_has_a_home_from_its_template(
    form: str, living: Opens, tmp_path: Path, user_home: Path
) -> None:
    folder = put_template(user_home / ".agents/templates/tester")
    life = await living(founding("tester" if form == "id" else str(folder)), user_home=user_home)

    await life.ask("found an agent")

    home = tmp_path / "agents/scout"
    assert (home / "AGENTS.md").read_text().startswith(TEXT)
    assert (home / ".holon/state/template.json").is_file()
    assert (await life.host.views.summary("scout")).identity.lineage_parent_agent_id == "main"
    assert sorted(os.listdir(tmp_path / "agents")) == ["main", "scout"]


@pytest.mark.spec("RT-472")
@pytest.mark.parametrize(("template", "code"), [("nobody", "unknown_template"), ("../x", "invalid_template")])
async def test_a_template_that_fails_is_told_to_the_model(
    template: str, code: str, living: Opens, tmp_path: Path
) -> None:
    life = await living(founding(template))

    await life.ask("found an agent")

    (brief,) = await life.briefs()
    assert code in brief.text and "holon agent templates" in brief.text
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]
    assert os.listdir(tmp_path / "agents") == ["main"]


async def test_a_name_that_is_taken_is_refused_before_anything_is_made(living: Opens, tmp_path: Path) -> None:
    life = await living(founding("holon-developer"))
    await life.host.agents.create("scout", surface="cli")

    await life.ask("found an agent")

    (brief,) = await life.briefs()
    assert "agent_exists" in brief.text
    assert sorted(os.listdir(tmp_path / "agents")) == ["main", "scout"]
    assert not (tmp_path / "agents/scout/AGENTS.md").exists()


async def test_a_sandboxed_agent_names_templates_by_their_id_only(living: Opens, tmp_path: Path) -> None:
    folder = put_template(tmp_path / "private")
    life = await living(founding(str(folder)), backend=BackendChoice.SANDBOXED)

    await life.ask("found an agent")

    (brief,) = await life.briefs()
    assert "execution_denied" in brief.text
    assert os.listdir(tmp_path / "agents") == ["main"]
