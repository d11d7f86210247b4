"""Worktrees that agents left behind: seen, and removed by the operator's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from holon.core.errors import Conflict, NotFound
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living
from tests.runtime.test_housing import SCRIPT, told
from tests.workspaces.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.new(tmp_path / "shop")


async def isolated(living: Opens, project: Project, tmp_path: Path) -> tuple[Living, Path]:
    life = await living(SCRIPT, home=tmp_path / "home")
    answer = await told(life, f"use {project.folder} isolated")
    return life, Path(answer["execution_root"])


async def test_a_worktree_is_shown_with_who_works_in_it_and_stays_when_it_is_left(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    life, tree = await isolated(living, project, tmp_path)
    (used,) = await life.host.shelves.look("main")
    assert (used.path, used.used_by, used.task_id, used.exists) == (str(tree), ["main"], None, True)
    assert used.branch is not None
    assert used.branch in project.branches()
    with pytest.raises(Conflict, match="works in it"):
        await life.host.shelves.remove("main", tree, discard=True)
    await told(life, "use agent_home")
    (left,) = await life.host.shelves.look("main")
    assert (left.used_by, left.path) == ([], str(tree))


async def test_what_is_clean_goes_and_what_is_not_stays_until_it_is_given_up(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    before = project.everything()
    life, tree = await isolated(living, project, tmp_path)
    (tree / "new.txt").write_text("exists nowhere else")
    await told(life, "use agent_home")
    kept = await life.host.shelves.remove("main", tree)
    assert (kept.cleanup_status, kept.reason) == ("retained", "1 changed or new files")
    assert (tree / "new.txt").exists()
    (tree / "new.txt").unlink()
    assert (await life.host.shelves.remove("main", tree)).cleanup_status == "removed"
    assert project.everything() == before
    assert await life.host.shelves.look("main") == []
    told_of = [event.payload for event in await life.events("worktree_auto_cleaned_up")]
    assert [(each["path"], each.get("task_id")) for each in told_of] == [(str(tree), None)]


async def test_what_is_given_up_goes_with_all_that_is_in_it(living: Opens, project: Project, tmp_path: Path) -> None:
    before = project.everything()
    life, tree = await isolated(living, project, tmp_path)
    (tree / "new.txt").write_text("exists nowhere else")
    await told(life, "use agent_home")
    assert (await life.host.shelves.remove("main", tree, discard=True)).cleanup_status == "removed"
    assert project.everything() == before


async def test_only_managed_worktrees_of_the_agents_own_repositories_can_be_named(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    life, tree = await isolated(living, project, tmp_path)
    await told(life, "use agent_home")
    project.git("worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    await life.host.agents.create("other", surface=SURFACE)
    for agent_id, path in (("main", tmp_path / "mine"), ("main", project.folder), ("other", tree)):
        with pytest.raises(NotFound, match="no managed worktree"):
            await life.host.shelves.remove(agent_id, path, discard=True)
    assert tree.is_dir()
    assert (tmp_path / "mine").is_dir()
