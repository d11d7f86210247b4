"""What is in a template's folder: AGENTS.md, skills.json, and nothing that leads out of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holon.templates.contents import (
    MAX_AGENTS_MD,
    BuiltinSkill,
    GithubSkill,
    LocalSkill,
    read_template,
)
from holon.templates.places import BUILTIN
from holon.templates.sources import InvalidTemplate
from tests.templates.making import TEXT, put_template


@pytest.mark.spec("RT-469")
def test_a_template_is_its_agents_md_and_the_skills_that_it_names(tmp_path: Path) -> None:
    plain = read_template(put_template(tmp_path / "plain"))
    skilled = read_template(
        put_template(
            tmp_path / "skilled",
            skills=[
                {"kind": "builtin", "name": "code-review"},
                {"kind": "local", "path": "/srv/skills/deploy"},
                {"kind": "github", "package": "acme/skills@deploy", "ref": "v1"},
                {"kind": "github", "package": "acme/one.skill"},
            ],
        )
    )

    assert (plain.agents_md, plain.skill_refs) == (TEXT, ())
    assert skilled.skill_refs == (
        BuiltinSkill(name="code-review"),
        LocalSkill(path="/srv/skills/deploy"),
        GithubSkill(package="acme/skills@deploy", ref="v1"),
        GithubSkill(package="acme/one.skill"),
    )
    assert [ref.parts for ref in skilled.skill_refs if isinstance(ref, GithubSkill)] == [
        ("acme/skills", "deploy"),
        ("acme/one.skill", None),
    ]
    assert plain.sha256 != skilled.sha256
    assert read_template(put_template(tmp_path / "empty", skills="{}")).skill_refs == ()


@pytest.mark.spec("RT-469")
def test_without_agents_md_it_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(InvalidTemplate, match=r"no AGENTS\.md.*put one there"):
        read_template(put_template(tmp_path / "t", None, skills=[]))


@pytest.mark.parametrize("name", ["AGENTS.md", "skills.json"])
def test_a_link_out_of_the_template_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    folder = put_template(tmp_path / "t", None if name == "AGENTS.md" else TEXT)
    (folder / name).symlink_to(tmp_path / "secret")

    with pytest.raises(InvalidTemplate, match="leaves the template"):
        read_template(folder)


def test_a_link_inside_of_the_template_is_followed(tmp_path: Path) -> None:
    folder = put_template(tmp_path / "t", None)
    (folder / "README.md").write_text("one text for both\n")
    (folder / "AGENTS.md").symlink_to("README.md")

    assert read_template(folder).agents_md == "one text for both\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe", "no UTF-8"),
        (b"a\0b", "binary"),
        (b"x" * (MAX_AGENTS_MD + 1), "longer than"),
    ],
)
def test_an_agents_md_that_no_prompt_could_take_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    folder = put_template(tmp_path / "t")
    (folder / "AGENTS.md").write_bytes(data)

    with pytest.raises(InvalidTemplate, match=said):
        read_template(folder)


def test_what_is_no_file_is_not_opened_for_good(tmp_path: Path) -> None:
    pipe, loop, folder = (put_template(tmp_path / name, None) for name in ("pipe", "loop", "folder"))
    os.mkfifo(pipe / "AGENTS.md")
    (loop / "AGENTS.md").symlink_to("AGENTS.md")
    (folder / "AGENTS.md").mkdir()

    for template in (pipe, loop, folder):
        with pytest.raises(InvalidTemplate, match=r"AGENTS\.md (is no file|cannot be read)"):
            read_template(template)


@pytest.mark.parametrize(
    "skills",
    [
        "{",
        "[]",
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
        '{"skill_refs": "code-review"}',
        '{"skill_refs": ["code-review"]}',
        '{"skills": []}',
        [{"kind": "npm", "package": "x"}],
        [{"kind": "builtin"}],
        [{"kind": "builtin", "name": "code-review", "version": 2}],
        [{"kind": "local", "path": "skills/deploy"}],
        [{"kind": "local", "path": "~/skills/deploy"}],
        [{"kind": "local", "path": "/srv/../etc"}],
        [{"kind": "github", "package": "acme"}],
        [{"kind": "github", "package": "https://github.com/acme/skills"}],
        [{"kind": "github", "package": "acme/skills@"}],
        [{"kind": "builtin", "name": "code-review"}] * 33,
    ],
)
def test_a_broken_skills_json_is_refused_with_its_path(skills: Any, tmp_path: Path) -> None:
    folder = put_template(tmp_path / "t", skills=skills)

    with pytest.raises(InvalidTemplate) as refused:
        read_template(folder)

    assert str(folder / "skills.json") in refused.value.message
    assert refused.value.hint


def test_the_templates_that_come_with_holon_are_sound() -> None:
    found = {path.name: read_template(path) for path in BUILTIN.iterdir()}

    assert set(found) == {"holon-default", "holon-developer", "holon-release", "holon-reviewer"}
    assert all(len(template.agents_md) < 1_200 for template in found.values()), "every turn pays for them"
