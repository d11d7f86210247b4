"""Commands that touch skills, read from their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from holon.core.skills import LoadReason
from holon.skills.catalog import CatalogReader, Places
from holon.skills.commands import activations_in
from tests.skills.shelves import put_skill

READ, RUN = LoadReason.READ_SKILL_MD, LoadReason.RUN_SKILL_SCRIPT


@pytest.mark.spec("RT-240", "RT-241", "RT-245")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat {root}/a/SKILL.md", [("a", READ, "SKILL.md")]),
        ("sed -n 1,20p '{root}/a/SKILL.md' | head", [("a", READ, "SKILL.md")]),
        ("cat skills/a/SKILL.md", [("a", READ, "SKILL.md")]),
        ("cat skills/b/../a/SKILL.md", [("a", READ, "SKILL.md")]),
        ("cat ~/skills/a/SKILL.md", [("a", READ, "SKILL.md")]),
        ("cd skills/a && cat SKILL.md", [("a", READ, "SKILL.md")]),
        ("cd skills/a && python scripts/x.py", [("a", RUN, "scripts/x.py")]),
        ("python3 {root}/a/scripts/x.py --flag", [("a", RUN, "scripts/x.py")]),
        ("F={root}/a/scripts/deep/y.sh; sh $F", [("a", RUN, "scripts/deep/y.sh")]),
        ("cat {root}/a/SKILL.md && sh {root}/a/scripts/x.sh", [("a", READ, "SKILL.md")]),
        ("cat {root}/a/SKILL.md {root}/b/SKILL.md", [("a", READ, "SKILL.md"), ("b", READ, "SKILL.md")]),
        ("ls {root}/a", []),
        ("cat {root}/a/references/r.md", []),
        ("cat {root}/unknown/SKILL.md", []),
        ("cat /elsewhere/SKILL.md scripts/x.py", []),
        ("ls {root}/a/scripts", []),
        ("cat {root}/a/SKILL.md.bak", []),
        ("", []),
    ],
)
def test_reading_and_running_are_recognised(
    tmp_path: Path, command: str, expected: list[tuple[str, LoadReason, str]]
) -> None:
    root = tmp_path / "skills"
    put_skill(root, "a")
    put_skill(root, "b")
    catalog = CatalogReader().read(Places(tmp_path))

    found = activations_in(command.format(root=root), catalog, True, tmp_path, tmp_path)

    assert [(each.skill.name, each.load_reason, str(each.path)) for each in found] == [
        (name, reason, str(root / name / path)) for name, reason, path in expected
    ]


@pytest.mark.spec("RT-242")
def test_a_failed_command_activates_nothing(tmp_path: Path) -> None:
    put_skill(tmp_path / "skills", "a")
    catalog = CatalogReader().read(Places(tmp_path))

    assert activations_in(f"cat {tmp_path}/skills/a/SKILL.md", catalog, False) == []


def test_a_skill_behind_a_link_is_recognised_by_both_paths(tmp_path: Path) -> None:
    real = put_skill(tmp_path / "elsewhere", "a")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/a").symlink_to(real)
    catalog = CatalogReader().read(Places(tmp_path))

    for folder in (real, tmp_path / "skills/a"):
        assert [each.skill.name for each in activations_in(f"cat {folder}/SKILL.md", catalog, True)] == ["a"]
