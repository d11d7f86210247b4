"""Shipped templates in the user's folder: put there, refreshed while nobody touched them, and left alone otherwise."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from holon.core.templates import SourceKind
from holon.templates.catalog import listing
from holon.templates.places import BUILTIN
from holon.templates.seeding import MARKER, builtin_ids, seed
from tests.runtime.conftest import Opens
from tests.templates.making import all_files, put_template

IDS = ["holon-default", "holon-developer", "holon-release", "holon-reviewer"]


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """What the next version ships: two changed ones, one that is new."""
    folder = tmp_path / "newer"
    shutil.copytree(BUILTIN, folder)
    (folder / "holon-default/AGENTS.md").write_text("newer default\n")
    (folder / "holon-developer/AGENTS.md").write_text("newer developer\n")
    put_template(folder / "holon-novel", "novel\n")
    return folder


def text(user_home: Path, template_id: str) -> str:
    return (user_home / ".agents/templates" / template_id / "AGENTS.md").read_text()


@pytest.mark.spec("RT-474")
async def test_a_start_of_the_runtime_puts_them_there(living: Opens, user_home: Path) -> None:
    await living(user_home=user_home)

    root = user_home / ".agents/templates"
    assert sorted(path.name for path in root.iterdir() if not path.name.startswith(".")) == IDS == builtin_ids()
    for template_id in IDS:
        assert all_files(root / template_id) == all_files(BUILTIN / template_id)


def test_a_second_start_writes_nothing(user_home: Path) -> None:
    assert seed(user_home) == IDS
    before = {path: path.stat().st_mtime_ns for path in user_home.rglob("*")}

    assert seed(user_home) == []
    assert {path: path.stat().st_mtime_ns for path in user_home.rglob("*")} == before


@pytest.mark.spec("RT-475")
def test_a_newer_version_refreshes_what_is_as_it_was_and_leaves_alone_what_was_changed(
    user_home: Path, newer: Path
) -> None:
    seed(user_home)
    mine = user_home / ".agents/templates/holon-developer/AGENTS.md"
    mine.write_text("my developer\n")

    assert seed(user_home, newer) == ["holon-default", "holon-novel"]
    assert (text(user_home, "holon-default"), text(user_home, "holon-developer")) == (
        "newer default\n",
        "my developer\n",
    )
    assert seed(user_home, newer) == []
    assert seed(user_home) == ["holon-default"], "an older version takes back what nobody touched"
    assert text(user_home, "holon-developer") == "my developer\n"


@pytest.mark.spec("RT-475")
@pytest.mark.parametrize("change", ["a file more", "a file less", "a link", "its own"])
def test_every_sort_of_change_makes_it_the_users(change: str, user_home: Path, newer: Path, tmp_path: Path) -> None:
    seed(user_home)
    root = user_home / ".agents/templates"
    folder = root / "holon-default"
    if change == "a file more":
        (folder / "skills.json").write_text('{"skill_refs": []}')
    elif change == "a file less":
        (folder / "AGENTS.md").unlink()
    elif change == "a link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        (root / MARKER).unlink()  # nobody knows that it was Holon's
        (folder / "AGENTS.md").write_text("theirs\n")
    before = all_files(folder)

    assert "holon-default" not in seed(user_home, newer)
    assert all_files(folder) == before
    assert change == "a file less" or text(user_home, "holon-default") != "newer default\n"


def test_one_that_was_removed_comes_back(user_home: Path) -> None:
    seed(user_home)
    shutil.rmtree(user_home / ".agents/templates/holon-release")

    assert seed(user_home) == ["holon-release"]


def test_a_broken_marker_and_the_rest_of_a_killed_start_do_no_harm(user_home: Path) -> None:
    seed(user_home)
    root = user_home / ".agents/templates"
    (root / MARKER).write_text("{broken")
    put_template(root / ".holon-seeding-old" / "holon-default")

    assert seed(user_home) == [], "all of them are as they were shipped"
    assert not list(root.glob(".holon-seeding-*"))
    assert seed(user_home) == []


def test_while_another_process_is_at_it_this_one_goes_on(user_home: Path) -> None:
    root = user_home / ".agents/templates"
    root.mkdir(parents=True)
    with open(root / ".holon-templates.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert seed(user_home) == []
    assert seed(user_home) == IDS


async def test_a_folder_that_cannot_be_written_does_not_keep_the_runtime_from_starting(
    living: Opens,
    user_home: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (user_home / ".agents").write_text("in the way")

    life = await living(user_home=user_home)

    assert "were not brought up to date" in caplog.text
    assert (await life.ask("hello")).turn is not None
    assert [entry.template_id for entry in await life.host.agents.template_listing()] == IDS
    await life.host.agents.create("helper", surface="cli", template="holon-developer")


def test_the_catalog_says_what_there_is_whose_it_is_and_what_is_wrong(user_home: Path) -> None:
    seed(user_home)
    root = user_home / ".agents/templates"
    put_template(root / "mine", "# Mine\n\nDoes my\nthings.\n", [{"kind": "builtin", "name": "code-review"}])
    put_template(root / "broken", None)
    put_template(root / "no id")
    (root / "holon-release/AGENTS.md").write_text("changed\n")

    found = {entry.template_id: entry for entry in listing(user_home)}

    assert sorted(found) == sorted([*IDS, "mine", "broken"])
    assert (found["mine"].source, found["mine"].description) == (SourceKind.USER, "Does my things.")
    assert found["mine"].included_skills == ["builtin code-review"]
    assert "no AGENTS.md" in str(found["broken"].problem)
    assert (found["holon-default"].source, found["holon-release"].source) == (SourceKind.BUILTIN, SourceKind.USER)
