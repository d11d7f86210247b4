"""An agent from a template: its home is all there, or there is no agent, no home, and nothing beside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holon.core.agents import AgentStatus
from holon.core.codec import dumps
from holon.core.errors import AgentExists, Conflict, HolonError, IdempotencyMismatch
from holon.templates.applying import HOME_GUIDANCE
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living, soon
from tests.skills.shelves import put_skill
from tests.templates.making import TEXT, GitHub, put_template

HOMES = ["main"]


def homes(tmp_path: Path) -> list[str]:
    """Everything that stands among the agents' homes, hidden or not."""
    return sorted(path.name for path in (tmp_path / "agents").iterdir())


async def agent_ids(life: Living) -> list[str]:
    return [row[0] for row in await life.host.store.read(lambda tx: tx.all("SELECT id FROM agents ORDER BY id"))]


@pytest.mark.spec("RT-467", "RT-468", "RT-471", "RT-473")
async def test_a_template_becomes_a_whole_home(living: Opens, tmp_path: Path, user_home: Path) -> None:
    put_template(user_home / ".agents/templates/tester")
    life = await living(user_home=user_home)

    await life.host.agents.create("helper", surface=SURFACE, template="tester")

    home = tmp_path / "agents/helper"
    assert (home / "AGENTS.md").read_text() == f"{TEXT}\n{HOME_GUIDANCE}\n"
    assert (home / "memory/self.md").read_text() == (home / "memory/operator.md").read_text() == ""
    assert all((home / name).is_dir() for name in ("notes", "work", "skills", ".holon/state", ".holon/ledger"))
    provenance = json.loads((home / ".holon/state/template.json").read_text())
    assert {key: provenance[key] for key in ("template", "kind", "folder", "ref", "commit", "skills")} == {
        "template": "tester",
        "kind": "user",
        "folder": str(user_home / ".agents/templates/tester"),
        "ref": None,
        "commit": None,
        "skills": [],
    }
    assert len(provenance["sha256"]) == 64 and provenance["applied_at"]
    assert homes(tmp_path) == ["helper", "main"], "nothing is left beside"
    await life.at_rest("helper")
    assert (await life.ask("hello", "helper")).turn is not None


@pytest.mark.spec("RT-470")
async def test_skills_of_every_kind_are_installed_as_an_operator_would(
    living: Opens, tmp_path: Path, github: GitHub, user_home: Path
) -> None:
    put_skill(tmp_path / "shelf", "deploy")
    repository = github.repository("acme/skills")
    put_skill(repository / "skills", "fetch")
    put_skill(repository / "skills", "other")
    commit = github.commit(repository)
    template = put_template(
        tmp_path / "tester",
        skills=[
            {"kind": "builtin", "name": "code-review"},
            {"kind": "local", "path": str(tmp_path / "shelf/deploy")},
            {"kind": "github", "package": "acme/skills@fetch", "ref": "main"},
        ],
    )
    life = await living(user_home=user_home)

    await life.host.agents.create("helper", surface=SURFACE, template=str(template))

    seen = {skill.name: skill for skill in (await life.host.skills.listing("helper")).skills}
    assert sorted(seen) == ["code-review", "deploy", "fetch"]
    fetched = seen["fetch"].provenance
    assert fetched is not None
    assert (fetched.source, fetched.ref, fetched.commit) == ("https://github.com/acme/skills.git", "main", commit)
    provenance = json.loads((tmp_path / "agents/helper/.holon/state/template.json").read_text())
    assert [(skill["name"], skill["source"], skill["commit"]) for skill in provenance["skills"]] == [
        ("code-review", "builtin code-review", None),
        ("deploy", str(tmp_path / "shelf/deploy"), None),
        ("fetch", "acme/skills@fetch at main", commit),
    ]


@pytest.mark.spec("RT-468", "RT-473")
async def test_a_template_on_github_is_remembered_with_its_commit(
    living: Opens, tmp_path: Path, github: GitHub
) -> None:
    repository = github.repository("acme/agents")
    put_template(repository / "team/tester")
    commit = github.commit(repository)
    life = await living()
    url = "https://github.com/acme/agents/tree/main/team/tester"

    await life.host.agents.create("helper", surface=SURFACE, template=url)

    home = tmp_path / "agents/helper"
    provenance = json.loads((home / ".holon/state/template.json").read_text())
    assert [provenance[key] for key in ("template", "kind", "folder", "ref", "commit")] == [
        url, "github", None, "main", commit,
    ]  # fmt: skip
    assert (home / "AGENTS.md").read_text().startswith(TEXT)
    assert homes(tmp_path) == ["helper", "main"], "the clone is gone"


@pytest.mark.spec("RT-473")
async def test_afterwards_the_home_counts_and_the_template_does_not(living: Opens, tmp_path: Path) -> None:
    put_skill(tmp_path / "shelf", "deploy")
    template = put_template(tmp_path / "t", skills=[{"kind": "local", "path": str(tmp_path / "shelf/deploy")}])
    life = await living()
    await life.host.agents.create("helper", surface=SURFACE, template=str(template))
    (template / "AGENTS.md").write_text("say heliotrope\n")
    (tmp_path / "shelf/deploy/SKILL.md").write_text("---\nname: deploy\ndescription: heliotrope\n---\nx\n")

    async def shown() -> str:
        await life.ask("hello", "helper")
        return dumps(life.model.requests[-1])

    assert "You test things." in (text := await shown()) and "heliotrope" not in text
    home = tmp_path / "agents/helper"
    (home / "AGENTS.md").write_text("say magenta\n")
    put_skill(home / "skills", "paint", "Paints in ochre.")
    text = await shown()
    assert "say magenta" in text and "Paints in ochre" in text and "heliotrope" not in text


def unknown_id(_tmp_path: Path, _github: GitHub) -> str:
    return "nobody"


def id_with_dots(_tmp_path: Path, _github: GitHub) -> str:
    return "../tester"


def relative_path(tmp_path: Path, _github: GitHub) -> str:
    put_template(tmp_path / "here/tester")
    return "here/tester"


def no_agents_md(tmp_path: Path, _github: GitHub) -> str:
    return str(put_template(tmp_path / "t", None))


def link_out(tmp_path: Path, _github: GitHub) -> str:
    folder = put_template(tmp_path / "t", None)
    (tmp_path / "secret").write_text("secret")
    (folder / "AGENTS.md").symlink_to(tmp_path / "secret")
    return str(folder)


def broken_skills_json(tmp_path: Path, _github: GitHub) -> str:
    return str(put_template(tmp_path / "t", skills="{"))


def unknown_builtin(tmp_path: Path, _github: GitHub) -> str:
    return str(put_template(tmp_path / "t", skills=[{"kind": "builtin", "name": "nothing"}]))


def second_skill_missing(tmp_path: Path, _github: GitHub) -> str:
    put_skill(tmp_path / "shelf", "deploy")
    refs = [{"kind": "local", "path": str(tmp_path / "shelf" / name)} for name in ("deploy", "gone")]
    return str(put_template(tmp_path / "t", skills=refs))


def same_skill_twice(tmp_path: Path, _github: GitHub) -> str:
    return str(put_template(tmp_path / "t", skills=[{"kind": "builtin", "name": "code-review"}] * 2))


def skill_repository_missing(tmp_path: Path, _github: GitHub) -> str:
    return str(put_template(tmp_path / "t", skills=[{"kind": "github", "package": "acme/gone"}]))


def url_without_path(_tmp_path: Path, _github: GitHub) -> str:
    return "https://github.com/acme/agents/tree/main"


def repository_missing(_tmp_path: Path, _github: GitHub) -> str:
    return "https://github.com/acme/gone/tree/main/tester"


def ref_missing(_tmp_path: Path, github: GitHub) -> str:
    repository = github.repository("acme/agents")
    put_template(repository / "tester")
    github.commit(repository)
    return "https://github.com/acme/agents/tree/v9/tester"


def path_missing(_tmp_path: Path, github: GitHub) -> str:
    ref_missing(_tmp_path, github)
    return "https://github.com/acme/agents/tree/main/other"


@pytest.mark.spec("RT-472")
@pytest.mark.parametrize(
    ("bad", "code", "said"),
    [
        (unknown_id, "unknown_template", "holon agent templates"),
        (id_with_dots, "invalid_template", "absolute path of a folder"),
        (relative_path, "invalid_template", "absolute path of a folder"),
        (no_agents_md, "invalid_template", "put one there"),
        (link_out, "invalid_template", "put the file itself there"),
        (broken_skills_json, "invalid_template", "skill_refs"),
        (unknown_builtin, "invalid_template", "there are: code-review"),
        (second_skill_missing, "invalid_template", "mend the template's skills.json"),
        (same_skill_twice, "invalid_template", "already a skill 'code-review'"),
        (skill_repository_missing, "invalid_template", "git failed"),
        (url_without_path, "invalid_template", "tree/REF/PATH"),
        (repository_missing, "git_failed", "check the URL"),
        (ref_missing, "git_failed", "a branch, a tag or a commit"),
        (path_missing, "unknown_template", "check the path"),
    ],
)
async def test_what_fails_leaves_nothing_and_says_what_to_do(
    living: Opens,
    tmp_path: Path,
    github: GitHub,
    bad: Callable[[Path, GitHub], str],
    code: str,
    said: str,
) -> None:
    life = await living()
    reference = bad(tmp_path, github)

    with pytest.raises(HolonError) as refused:
        await life.host.agents.create("helper", surface=SURFACE, template=reference, idempotency_key="k")

    assert refused.value.code == code
    assert said in str(refused.value)
    assert homes(tmp_path) == HOMES
    assert await agent_ids(life) == ["main"]
    # The name and the key are still free.
    await life.host.agents.create("helper", surface=SURFACE, template="holon-default", idempotency_key="k2")
    await life.at_rest("helper")


async def test_an_agent_that_is_there_keeps_its_home(living: Opens, tmp_path: Path) -> None:
    template = put_template(tmp_path / "t")
    life = await living()
    await life.host.agents.create("helper", surface=SURFACE)
    (tmp_path / "agents/helper/notes/mine.md").write_text("mine")

    for agent_id in ("helper", "main"):
        with pytest.raises(AgentExists, match="holon agent status"):
            await life.host.agents.create(agent_id, surface=SURFACE, template=str(template))

    assert homes(tmp_path) == ["helper", "main"]
    assert not (tmp_path / "agents/helper/AGENTS.md").exists()
    assert (tmp_path / "agents/helper/notes/mine.md").read_text() == "mine"


async def test_a_folder_that_belongs_to_nobody_is_not_taken(living: Opens, tmp_path: Path) -> None:
    template = str(put_template(tmp_path / "t"))
    life = await living()
    (tmp_path / "agents/helper").mkdir()
    (tmp_path / "agents/helper/mine.md").write_text("mine")

    with pytest.raises(Conflict, match="move that folder aside"):
        await life.host.agents.create("helper", surface=SURFACE, template=template)

    (tmp_path / "agents/helper/mine.md").unlink()
    await life.host.agents.create("helper", surface=SURFACE, template=template)
    assert (tmp_path / "agents/helper/AGENTS.md").read_text().startswith(TEXT)


async def test_a_request_that_is_sent_again_makes_one_agent(living: Opens, tmp_path: Path) -> None:
    template = str(put_template(tmp_path / "t"))
    life = await living()

    async def create(agent_id: str = "helper", **more: Any) -> Any:
        return await life.host.agents.create(agent_id, surface=SURFACE, idempotency_key="k", **more)

    at_once = await asyncio.gather(*(create(template=template) for _ in range(3)))
    assert sorted(answer.replayed for answer in at_once) == [False, True, True]
    assert {answer.value for answer in at_once} == {(await create(template=template)).value}
    with pytest.raises(IdempotencyMismatch):
        await create(template="holon-default")
    with pytest.raises(IdempotencyMismatch):
        await create()
    assert homes(tmp_path) == ["helper", "main"], "the homes of the others are gone"


async def test_a_caller_that_goes_away_leaves_nothing(living: Opens, tmp_path: Path) -> None:
    life = await living()
    asked = asyncio.create_task(life.host.agents.create("helper", surface=SURFACE, template="holon-developer"))
    await soon(lambda: (tmp_path / "agents/.staging").exists() or asked.done())
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await life.close()

    again = await living(home=tmp_path)
    assert (await agent_ids(again) == ["helper", "main"]) is (tmp_path / "agents/helper/AGENTS.md").exists()
    assert ".staging" not in homes(tmp_path)


async def test_a_home_that_cannot_be_moved_in_yet_is_moved_in_later(living: Opens, tmp_path: Path) -> None:
    """As after a full disk, or a folder that was put in the way: the errand stays, and so does the prepared home."""
    life = await living()
    prepared = await life.host.agents.prepare("helper", str(put_template(tmp_path / "t")))
    (tmp_path / "agents/helper/notes").mkdir(parents=True)
    (tmp_path / "agents/helper/notes/early.md").write_text("early")

    prepared.move_in(tmp_path / "agents/helper")
    prepared.move_in(tmp_path / "agents/helper")

    assert (tmp_path / "agents/helper/AGENTS.md").read_text().startswith(TEXT)
    assert (tmp_path / "agents/helper/notes/early.md").read_text() == "early", "what was there stays"
    assert homes(tmp_path) == ["helper", "main"]


async def test_a_template_that_says_the_guidance_itself_is_not_told_twice(living: Opens, tmp_path: Path) -> None:
    template = put_template(tmp_path / "t", f"{HOME_GUIDANCE}\n\n# Then the rest\n")
    life = await living()
    await life.host.agents.create("helper", surface=SURFACE, template=str(template))

    assert (tmp_path / "agents/helper/AGENTS.md").read_text() == f"{HOME_GUIDANCE}\n\n# Then the rest\n"
    assert await life.status("helper") is not AgentStatus.BOOTING
