"""The default agent has instructions from its first day, and nobody ever overwrites them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holon.core.codec import dumps
from holon.templates.applying import HOME_GUIDANCE
from holon.templates.places import BUILTIN
from tests.runtime.conftest import Opens
from tests.skills.shelves import put_skill
from tests.templates.making import put_template

SHIPPED = (BUILTIN / "holon-default/AGENTS.md").read_text()


@pytest.mark.spec("RT-467", "RT-471", "RT-476")
async def test_without_instructions_it_is_made_from_holon_default(
    living: Opens, tmp_path: Path, user_home: Path
) -> None:
    life = await living(user_home=user_home)

    home = tmp_path / "agents/main"
    assert (home / "AGENTS.md").read_text() == f"{SHIPPED}\n{HOME_GUIDANCE}\n"
    assert (home / "memory/self.md").exists() and (home / "memory/operator.md").exists()
    assert json.loads((home / ".holon/state/template.json").read_text())["template"] == "holon-default"
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == ["main"]
    await life.ask("hello")
    assert "You work for one owner" in dumps(life.model.requests[-1])


@pytest.mark.spec("RT-476")
@pytest.mark.parametrize("own", ["be brief\n", ""])
async def test_with_instructions_it_is_untouched(own: str, living: Opens, tmp_path: Path) -> None:
    home = tmp_path / "agents/main"
    home.mkdir(parents=True)
    (home / "AGENTS.md").write_text(own)

    for _ in range(2):
        life = await living()
        assert (home / "AGENTS.md").read_text() == own
        assert not (home / ".holon/state/template.json").exists()
        await life.close()


@pytest.mark.spec("RT-476")
async def test_a_link_that_leads_nowhere_is_the_owners_business(living: Opens, tmp_path: Path) -> None:
    home = tmp_path / "agents/main"
    home.mkdir(parents=True)
    (home / "AGENTS.md").symlink_to("gone.md")
    await living()
    assert (home / "AGENTS.md").is_symlink()


async def test_a_home_from_before_keeps_all_it_has_and_gets_what_it_lacks(
    living: Opens, tmp_path: Path, user_home: Path
) -> None:
    put_skill(tmp_path / "shelf", "deploy", "theirs")
    put_skill(tmp_path / "shelf", "fetch")
    refs = [{"kind": "local", "path": str(tmp_path / "shelf" / name)} for name in ("deploy", "fetch")]
    put_template(user_home / ".agents/templates/holon-default", "my default\n", refs)
    home = tmp_path / "agents/main"
    (home / "memory").mkdir(parents=True)
    (home / "memory/self.md").write_text("I remember\n")
    put_skill(home / "skills", "deploy", "mine")

    await living(user_home=user_home)

    assert (home / "AGENTS.md").read_text().startswith("my default\n"), "the owner's own holon-default"
    assert (home / "memory/self.md").read_text() == "I remember\n"
    assert (home / "memory/operator.md").read_text() == ""
    assert "mine" in (home / "skills/deploy/SKILL.md").read_text()
    assert (home / "skills/fetch/SKILL.md").exists()


async def test_a_broken_holon_default_does_not_keep_it_from_starting(
    living: Opens, tmp_path: Path, user_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_template(user_home / ".agents/templates/holon-default", None)

    life = await living(user_home=user_home)

    assert "no AGENTS.md" in caplog.text
    assert (tmp_path / "agents/main/AGENTS.md").read_text().startswith(SHIPPED), "the one that comes with Holon"
    provenance = json.loads((tmp_path / "agents/main/.holon/state/template.json").read_text())
    assert (provenance["template"], provenance["kind"]) == ("holon-default", "builtin")
    assert (await life.ask("hello")).turn is not None
