"""A path leads to one project and one execution root, whatever the folder claims about itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holon.core.codec import dumps, loads
from holon.core.workspaces import (
    AGENT_HOME,
    AccessMode,
    ActiveWorkspace,
    ProjectionKind,
    WorkspaceKind,
    WorkspaceRefused,
    WorktreeSession,
    attach,
    check_attached,
    check_selector,
    detach,
)
from holon.workspaces import anchors
from holon.workspaces.anchors import after_restart, agent_home, confined_cwd, detect, guidance
from holon.workspaces.git_problems import GitFailed, GitProblem
from holon.workspaces.roots import RootViolation
from holon.workspaces.worktrees import adopt
from tests.workspaces.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.new(tmp_path / "shop")


def test_a_plain_folder_is_its_own_anchor_and_root(tmp_path: Path) -> None:
    found = detect(tmp_path)
    assert (found.kind, found.anchor, found.execution_root, found.cwd, found.projection, found.git_common_dir) == (
        WorkspaceKind.DIRECTORY,
        tmp_path,
        tmp_path,
        tmp_path,
        ProjectionKind.CANONICAL_ROOT,
        None,
    )


def test_a_folder_in_a_repository_belongs_to_the_repository_and_is_where_commands_start(project: Project) -> None:
    inner = project.folder / "src" / "deep"
    inner.mkdir(parents=True)
    found = detect(inner)
    assert found.entered() == ActiveWorkspace(
        workspace_id=detect(project.folder).workspace_id,
        workspace_anchor=str(project.folder),
        execution_root_id=detect(project.folder).execution_root_id,
        execution_root=str(project.folder),
        projection_kind=ProjectionKind.CANONICAL_ROOT,
        access_mode=AccessMode.EXCLUSIVE_WRITE,
        cwd=str(inner),
        git_common_dir=str(project.common_dir),
    )


@pytest.mark.spec("RT-330")
def test_a_worktree_keeps_its_parents_identity_and_changes_only_the_root(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "try", str(tmp_path / "elsewhere"))
    parent, found = detect(project.folder), detect(tmp_path / "elsewhere")
    assert (found.workspace_id, found.anchor) == (parent.workspace_id, project.folder)
    assert (found.execution_root, found.projection) == (tmp_path / "elsewhere", ProjectionKind.GIT_WORKTREE_ROOT)
    assert found.execution_root_id != parent.execution_root_id
    assert adopt(tmp_path / "elsewhere") == found


@pytest.mark.spec("RT-330")
def test_whoever_enters_a_foreign_worktree_is_told_how_to_get_a_managed_one(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "try", str(tmp_path / "elsewhere"))
    found = detect(tmp_path / "elsewhere")
    said = guidance(found) or ""
    assert f'UseWorkspace(workspace_id="{found.workspace_id}", mode="isolated")' in said
    assert guidance(detect(project.folder)) is None


def test_ids_are_the_same_for_the_same_anchor_however_it_is_spelled(project: Project, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project.folder)
    spellings: list[str | Path] = [
        project.folder,
        tmp_path / "link",
        tmp_path / "shop" / ".." / "shop",
        f"{project.folder}/",
    ]
    (found,) = {detect(spelling).workspace_id for spelling in spellings}
    assert found == anchors.workspace_id_of(project.folder)
    assert found.startswith("ws_")
    assert found != anchors.workspace_id_of(tmp_path)


def test_a_worktree_of_a_bare_repository_is_its_own_anchor(project: Project, tmp_path: Path) -> None:
    project.git("clone", "-q", "--bare", str(project.folder), str(tmp_path / "shop.git"))
    project.git("worktree", "add", "-q", str(tmp_path / "tree"), "main", folder=tmp_path / "shop.git")
    found = detect(tmp_path / "tree")
    assert (found.anchor, found.execution_root) == (tmp_path / "tree", tmp_path / "tree")
    assert found.git_common_dir == tmp_path / "shop.git"


def test_a_submodule_is_a_project_of_its_own(project: Project, tmp_path: Path) -> None:
    other = Project.new(tmp_path / "library")
    project.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.folder), "library")
    found = detect(project.folder / "library")
    assert (found.anchor, found.projection) == (project.folder / "library", ProjectionKind.CANONICAL_ROOT)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "gone", "there is no folder"),
        (lambda folder: folder / "file.txt", "is a file"),
        (lambda folder: folder / "bare.git", "is a bare repository"),
        (lambda folder: folder / "bare.git" / "objects", "is a bare repository"),
        (lambda folder: folder / "shop" / ".git" / "hooks", "inside a repository's git folder"),
        (lambda folder: Path(f"{folder}/nul\0"), "there is no folder"),
        (lambda folder: folder / "loop", "there is no folder"),
        (lambda folder: folder / "stray", "leads to no repository"),
        (lambda folder: folder / os.fsdecode(b"caf\xe9"), r"caf\\xe9 is no UTF-8"),
        (lambda folder: folder / "link", r"caf\\xe9 is no UTF-8"),
    ],
)
def test_what_cannot_be_a_workspace_is_refused_with_a_next_step(tmp_path: Path, make, message: str) -> None:
    project = Project.new(tmp_path / "shop")
    project.git("clone", "-q", "--bare", str(project.folder), str(tmp_path / "bare.git"))
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    (tmp_path / "link").symlink_to(os.fsdecode(b"caf\xe9"))
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / ".git").write_text("gitdir: /nowhere/at/all\n")
    with pytest.raises(WorkspaceRefused, match=message) as caught:
        detect(make(tmp_path))
    assert caught.value.hint


def test_a_folder_cannot_claim_a_repository_that_does_not_know_it(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "try", str(tmp_path / "real"))
    impostor = tmp_path / "impostor"
    impostor.mkdir()
    (impostor / ".git").write_bytes((tmp_path / "real" / ".git").read_bytes())
    with pytest.raises(WorkspaceRefused, match="does not know it") as caught:
        detect(impostor)
    assert "git worktree repair" in str(caught.value)


def test_a_folder_cannot_lend_itself_the_git_folder_of_another_repository(project: Project, tmp_path: Path) -> None:
    for name, make in {
        "file": lambda marker: marker.write_text(f"gitdir: {project.common_dir}\n"),
        "link": lambda marker: marker.symlink_to(project.common_dir),
    }.items():
        impostor = tmp_path / name
        impostor.mkdir()
        make(impostor / ".git")
        found = detect(impostor)
        assert (found.anchor, found.git_common_dir) == (impostor, None)


def test_a_worktree_that_was_moved_by_hand_is_refused_with_the_way_to_repair_it(
    project: Project, tmp_path: Path
) -> None:
    project.git("worktree", "add", "-q", "-b", "try", str(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")
    with pytest.raises(WorkspaceRefused, match="git worktree repair"):
        detect(tmp_path / "after")
    project.git("worktree", "repair", str(tmp_path / "after"))
    assert detect(tmp_path / "after").anchor == project.folder


def test_only_a_worktree_can_be_adopted(project: Project) -> None:
    with pytest.raises(GitFailed) as caught:
        adopt(project.folder)
    assert caught.value.problem is GitProblem.NOT_A_WORKTREE


def test_an_agents_home_is_a_workspace_even_inside_somebodys_repository(project: Project) -> None:
    home = project.folder / "agents" / "main"
    home.mkdir(parents=True)
    found = agent_home(home)
    assert (found.workspace_id, found.anchor, found.execution_root) == (AGENT_HOME, home, home)


@pytest.mark.spec("RT-320")
@pytest.mark.parametrize("given", ["..", "../other", "/", "/etc", "inside/../../other", "way-out", "file.txt", "gone"])
def test_a_cwd_outside_the_root_is_refused(tmp_path: Path, given: str) -> None:
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (root / "file.txt").write_text("x")
    (root / "way-out").symlink_to(tmp_path / "other")
    with pytest.raises(RootViolation) as caught:
        confined_cwd(root, given)
    assert caught.value.details["field"] == "cwd"


@pytest.mark.spec("RT-320")
def test_a_cwd_inside_the_root_is_taken_through_links_that_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "link").symlink_to("inside")
    assert [confined_cwd(tmp_path, given) for given in (".", "inside", "link", str(tmp_path / "inside"))] == [
        tmp_path,
        *[tmp_path / "inside"] * 3,
    ]


def test_after_a_restart_the_same_workspace_is_in_force(project: Project, tmp_path: Path) -> None:
    home = agent_home(tmp_path)
    stored = loads(dumps(detect(project.folder).entered()), ActiveWorkspace)
    assert after_restart(stored, home) == (detect(project.folder).entered(), None)


def test_a_root_that_vanished_sends_the_agent_home_and_not_into_the_tree_it_was_kept_from(
    project: Project, tmp_path: Path
) -> None:
    project.git("worktree", "add", "-q", "-b", "try", str(tmp_path / "isolated"))
    active = detect(tmp_path / "isolated").entered()
    project.git("worktree", "remove", str(tmp_path / "isolated"))
    home = agent_home(tmp_path)
    now, lost = after_restart(active, home)
    assert now == home.entered()
    assert "gone" in (lost or "")


def test_a_root_that_became_a_link_sends_the_agent_home_too(tmp_path: Path) -> None:
    (tmp_path / "work" / "x").mkdir(parents=True)
    (tmp_path / "elsewhere" / "x").mkdir(parents=True)
    active = detect(tmp_path / "work" / "x").entered()
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "work").symlink_to(tmp_path / "elsewhere")
    home = agent_home(tmp_path)
    now, lost = after_restart(active, home)
    assert now == home.entered()
    assert "link to somewhere else" in (lost or "")


def test_a_cwd_that_vanished_sends_the_agent_to_its_root(project: Project, tmp_path: Path) -> None:
    inner = project.folder / "inner"
    inner.mkdir()
    active = detect(inner).entered()
    inner.rmdir()
    now, lost = after_restart(active, agent_home(tmp_path))
    assert now == detect(project.folder).entered()
    assert "inner" in (lost or "")


def test_a_worktree_session_is_read_again_as_it_was_written() -> None:
    session = WorktreeSession(
        original_cwd="/p", original_branch="main", worktree_path="/w/holon-x", worktree_branch="holon/x"
    )
    assert loads(dumps(session), WorktreeSession) == session


@pytest.mark.spec("RT-326")
@pytest.mark.parametrize(("path", "workspace_id"), [(None, None), ("/p", "ws_1")])
def test_a_workspace_is_chosen_by_exactly_one_of_path_and_id(path: str | None, workspace_id: str | None) -> None:
    check_selector("/p", None)
    check_selector(None, "ws_1")
    with pytest.raises(WorkspaceRefused, match="exactly one"):
        check_selector(path, workspace_id)


def test_attached_workspaces_are_a_set_and_home_is_always_at_hand() -> None:
    attached = attach(attach(attach([], "ws_1"), "ws_2"), "ws_1")
    assert attached == ["ws_1", "ws_2"]
    assert attach(attached, AGENT_HOME) == attached
    check_attached(attached, "ws_2")
    check_attached([], AGENT_HOME)
    with pytest.raises(WorkspaceRefused, match="ws_3"):
        check_attached(attached, "ws_3")


@pytest.mark.spec("RT-334", "RT-336", "RT-337")
@pytest.mark.parametrize(
    ("workspace_id", "message"),
    [(None, "needs a workspace_id"), ("ws_1", "switch first"), (AGENT_HOME, "cannot be detached"), ("ws_9", "not att")],
)
def test_what_is_active_home_or_unknown_is_not_detached(workspace_id: str | None, message: str) -> None:
    with pytest.raises(WorkspaceRefused, match=message):
        detach(["ws_1", "ws_2"], "ws_1", workspace_id)


@pytest.mark.spec("RT-336", "RT-338")
def test_a_workspace_whose_folder_is_gone_is_detached_and_nothing_else_happens(tmp_path: Path) -> None:
    before = os.listdir(tmp_path)
    stale = anchors.workspace_id_of(tmp_path / "gone")
    mine = ["ws_1", stale]
    assert detach(mine, "ws_1", stale) == ["ws_1"]
    assert (mine, os.listdir(tmp_path)) == (["ws_1", stale], before)
