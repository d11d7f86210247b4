"""Which skills an agent sees: scopes, roots, roles, clashes, and what is no skill."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holon.core.agents import AgentIdentity, AgentKind, Ownership, ProfilePreset, RegistryStatus, Visibility
from holon.core.skills import SkillScope, SkillUnusable, UnknownSkillError
from holon.skills.bodies import MAX_BODY_BYTES, load_body
from holon.skills.catalog import ROOTS, CatalogReader, Places
from holon.skills.descriptors import SkillDescriptor
from holon.skills.library import Library
from tests.skills.shelves import put_skill


def identity(home: Path, *, default: bool = True) -> AgentIdentity:
    return AgentIdentity(
        agent_id="main" if default else "helper",
        agent_home=str(home),
        kind=AgentKind.DEFAULT if default else AgentKind.NAMED,
        visibility=Visibility.PUBLIC,
        ownership=Ownership.SELF_OWNED,
        profile_preset=ProfilePreset.PUBLIC_NAMED,
        status=RegistryStatus.ACTIVE,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        is_default_agent=default,
    )


@pytest.mark.spec("RT-231", "RT-232", "RT-233", "RT-234")
@pytest.mark.parametrize("scope", list(SkillScope))
def test_of_several_roots_the_first_that_exists_is_used_alone(tmp_path: Path, scope: SkillScope) -> None:
    bases = {each: tmp_path / each for each in SkillScope}
    places = Places(bases[SkillScope.AGENT], bases[SkillScope.WORKSPACE], bases[SkillScope.USER])
    bases[SkillScope.AGENT].mkdir()
    for number, root in reversed(list(enumerate(ROOTS[scope]))):
        put_skill(bases[scope] / root, f"from-root-{number}")

        assert list(CatalogReader().read(places).skills) == [f"from-root-{number}"]


@pytest.mark.spec("RT-234", "RT-235")
def test_scopes_are_listed_together_and_a_folder_without_skill_md_is_not(tmp_path: Path) -> None:
    put_skill(tmp_path / "home/skills", "mine")
    put_skill(tmp_path / "work/.agents/skills", "ours")
    put_skill(tmp_path / "user/.claude/skills", "yours")
    (tmp_path / "home/skills/empty").mkdir()
    (tmp_path / "home/skills/README.md").write_text("no skill")
    put_skill(tmp_path / "home/skills", ".hidden")
    put_skill(tmp_path / "home/skills/mine/deeper", "inner")

    catalog = CatalogReader().read(Places(tmp_path / "home", tmp_path / "work", tmp_path / "user"))

    assert {skill.name: skill.scope for skill in catalog.skills.values()} == {
        "mine": SkillScope.AGENT,
        "ours": SkillScope.WORKSPACE,
        "yours": SkillScope.USER,
    }
    assert catalog.problems == ()


@pytest.mark.spec("RT-236")
def test_only_the_default_agent_sees_its_users_skills(tmp_path: Path) -> None:
    put_skill(tmp_path / "user/.agents/skills", "yours")
    put_skill(tmp_path / "work/.agents/skills", "ours")
    put_skill(tmp_path / "home/skills", "mine")
    library = Library(tmp_path / "user", lambda _: tmp_path / "work")

    assert list(library.catalog(identity(tmp_path / "home")).skills) == ["mine", "ours", "yours"]
    assert list(library.catalog(identity(tmp_path / "home", default=False)).skills) == ["mine", "ours"]


def test_one_folder_that_is_home_and_workspace_is_listed_once_under_the_agent(tmp_path: Path) -> None:
    put_skill(tmp_path / ".agents/skills", "mine")

    catalog = CatalogReader().read(Places(tmp_path, tmp_path))

    assert [skill.scope for skill in catalog.skills.values()] == [SkillScope.AGENT]


def test_two_skills_of_one_name_are_both_found_and_the_agents_own_keeps_it(tmp_path: Path) -> None:
    put_skill(tmp_path / "home/skills", "deploy", "Mine.")
    put_skill(tmp_path / "work/.agents/skills", "deploy", "Of the project.")
    catalog = CatalogReader().read(Places(tmp_path / "home", tmp_path / "work"))

    assert {name: skill.description for name, skill in catalog.skills.items()} == {
        "deploy": "Mine.",
        "workspace:deploy": "Of the project.",
    }
    assert catalog.find("agent:deploy").description == "Mine."
    assert "already has its name" in catalog.problems[0]


def test_two_folders_of_one_scope_that_say_the_same_name_leave_one_with_a_reason(tmp_path: Path) -> None:
    put_skill(tmp_path / "skills", "deploy")
    other = put_skill(tmp_path / "skills", "zother")
    (other / "SKILL.md").write_text("---\nname: deploy\ndescription: d\n---\nb")

    catalog = CatalogReader().read(Places(tmp_path))

    assert list(catalog.skills) == ["deploy"]
    assert "has the same name 'deploy'" in catalog.problems[0]


def test_what_cannot_be_read_is_a_problem_in_words_and_the_others_stay(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    put_skill(root, "good")
    (root / "loop").symlink_to(root / "loop")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    (root / "folder" / "SKILL.md").mkdir(parents=True)
    (root / "bytes").mkdir()
    (root / "bytes" / "SKILL.md").write_bytes(b"---\nname: bytes\0")

    catalog = CatalogReader().read(Places(tmp_path))

    assert list(catalog.skills) == ["good"]
    words = " | ".join(catalog.problems)
    assert len(catalog.problems) == 4
    assert "bytes/SKILL.md is binary" in words and "folder/SKILL.md is not a file" in words
    assert "gone is a link that leads nowhere" in words and "loop/SKILL.md cannot be looked at" in words


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    (put_skill(tmp_path / "skills", "closed") / "SKILL.md").chmod(0)

    assert "cannot be read" in CatalogReader().read(Places(tmp_path)).problems[0]


def test_a_project_may_not_bring_a_skill_that_is_a_link_out_of_it(tmp_path: Path) -> None:
    secret = put_skill(tmp_path / "elsewhere", "secret")
    (tmp_path / "work/.agents/skills").mkdir(parents=True)
    (tmp_path / "work/.agents/skills/secret").symlink_to(secret)
    (tmp_path / "home/skills").mkdir(parents=True)
    (tmp_path / "home/skills/linked").symlink_to(put_skill(tmp_path / "elsewhere", "linked"))

    catalog = CatalogReader().read(Places(tmp_path / "home", tmp_path / "work"))

    assert list(catalog.skills) == ["linked"]  # an owner may link; what a repository carries may not
    assert "is a link out of its workspace" in catalog.problems[0]


def test_a_body_of_ten_megabytes_is_listed_and_refused_in_words(tmp_path: Path) -> None:
    put_skill(tmp_path / "skills", "huge", body="x" * 10_000_000)
    skill = CatalogReader().read(Places(tmp_path)).find("huge")

    with pytest.raises(SkillUnusable, match=f"the limit is {MAX_BODY_BYTES}"):
        load_body(skill)


def test_looking_again_gives_the_same_value_until_something_changes(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    folder = put_skill(root, "one")
    put_skill(root, "two")
    reader, places = CatalogReader(), Places(tmp_path)
    before = reader.read(places)

    assert reader.read(places) is before
    (folder / "SKILL.md").write_text("---\nname: one\ndescription: Other words.\n---\nbody")
    edited = reader.read(places)
    (folder / "references").mkdir()
    (folder / "references" / "a.md").write_text("a")
    referenced = reader.read(places)
    put_skill(root, "three")
    added = reader.read(places)

    assert edited.find("one").description == "Other words." and edited.find("two") is before.find("two")
    assert referenced.find("one").references == ("references/a.md",)
    assert list(added.skills) == ["one", "three", "two"]
    assert len({catalog.version for catalog in (before, edited, referenced, added)}) == 4


def test_an_unknown_skill_is_a_typed_error_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkillError, match="skill_search"):
        CatalogReader().read(Places(tmp_path)).find("nothing")


@pytest.mark.spec("RF-002", "RF-003")
def test_a_descriptor_is_immutable_and_its_references_are_a_tuple_of_texts(tmp_path: Path) -> None:
    skill = SkillDescriptor("a", "d", SkillScope.AGENT, tmp_path, ("references/a.md",))

    assert hash(skill) == hash(SkillDescriptor("a", "d", SkillScope.AGENT, tmp_path, ("references/a.md",)))
    with pytest.raises(AttributeError):
        skill.references = ()  # type: ignore[misc]
    for wrong in (["a.md"], "a.md", ("a.md", 3)):
        with pytest.raises(TypeError, match="tuple of str"):
            SkillDescriptor("a", "d", SkillScope.AGENT, tmp_path, wrong)  # type: ignore[arg-type]
