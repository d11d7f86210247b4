"""A worktree comes whole or not at all, and goes only when nothing is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from holon.core.workspaces import CleanupStatus, TaskWorktree
from holon.workspaces import worktrees
from holon.workspaces.anchors import detect
from holon.workspaces.git import git
from holon.workspaces.git_problems import GitFailed, GitProblem, explain
from holon.workspaces.worktrees import (
    Cleanup,
    Worktree,
    create,
    managed,
    placed,
    remove_if_clean,
    session_branch,
    status,
    task_branch,
)
from tests.workspaces.projects import Project

BRANCH = "holon/task_1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.new(tmp_path / "shop", commits=3)


async def look(made: Worktree) -> worktrees.WorktreeState:
    return await status(made.path, common_dir=made.common_dir, branch=made.branch, base_commit=made.base_commit)


async def clear(made: Worktree) -> Cleanup:
    return await remove_if_clean(
        made.path, common_dir=made.common_dir, branch=made.branch, base_commit=made.base_commit
    )


class TestMaking:
    @pytest.mark.spec("RT-321", "RT-341")
    async def test_a_worktree_stands_beside_its_repository_on_a_branch_of_its_own(self, project: Project) -> None:
        before = project.everything()
        made = await create(project.folder, task_branch("task_1"))
        assert made == Worktree(
            path=project.folder.parent / ".holon-worktrees-shop" / "holon-task_1",
            branch=BRANCH,
            base_commit=project.git("rev-parse", "main").strip(),
            original_branch="main",
            common_dir=project.common_dir,
        )
        assert sorted(os.listdir(made.path)) == sorted(os.listdir(project.folder))
        assert project.git("status", "--porcelain") == before[2]
        assert project.git("branch", "--show-current").strip() == "main"
        main, isolated = detect(project.folder), detect(made.path)
        assert (isolated.workspace_id, isolated.anchor) == (main.workspace_id, main.anchor)
        assert isolated.execution_root == made.path

    async def test_it_begins_where_it_was_told_to(self, project: Project) -> None:
        project.git("tag", "old", "HEAD~2")
        made = await create(project.folder, BRANCH, "old")
        assert made.base_commit == project.git("rev-parse", "old").strip()
        assert not (made.path / "file-2.txt").exists()

    async def test_it_is_made_from_within_another_worktree_too(self, project: Project) -> None:
        first = await create(project.folder, "holon/first")
        second = await create(first.path, "holon/second")
        assert (second.path.parent, second.original_branch) == (first.path.parent, "holon/first")

    async def test_uncommitted_changes_of_the_main_tree_stay_there(self, project: Project) -> None:
        (project.folder / "file-0.txt").write_text("changed\n")
        made = await create(project.folder, BRANCH)
        assert (made.path / "file-0.txt").read_text() == "line 0\n"
        assert (project.folder / "file-0.txt").read_text() == "changed\n"

    def test_the_place_of_a_branch_is_one_name_in_the_shelf(self) -> None:
        assert placed(Path("/a/shop"), r"feature/x y\z") == Path("/a/.holon-worktrees-shop/feature-x-y-z")

    def test_branches_of_tasks_and_sessions_are_valid_and_sessions_get_a_new_one_each_time(self) -> None:
        assert task_branch("task_01k9") == "holon/task_01k9"
        assert task_branch("../..//x~^:.lock") == "holon/x-lock"
        assert session_branch("main") != session_branch("main")

    async def test_many_at_once_are_made_one_after_the_other_and_all_are_there(self, project: Project) -> None:
        made = await asyncio.gather(*(create(project.folder, f"holon/t{number}") for number in range(6)))
        assert sorted(project.worktrees()) == sorted(map(str, [project.folder, *(each.path for each in made)]))
        assert managed(project.folder, project.common_dir) == sorted((each.path, each.branch) for each in made)

    async def test_of_many_that_want_the_same_branch_one_gets_it_and_the_others_are_told(
        self, project: Project
    ) -> None:
        outcomes = await asyncio.gather(*(create(project.folder, BRANCH) for _ in range(5)), return_exceptions=True)
        made = [outcome for outcome in outcomes if isinstance(outcome, Worktree)]
        refused = [outcome.problem for outcome in outcomes if isinstance(outcome, GitFailed)]
        assert len(made) == 1
        assert set(refused) <= {GitProblem.BRANCH_EXISTS, GitProblem.PATH_EXISTS}
        assert (await look(made[0])).clean

    def test_processes_of_their_own_keep_out_of_each_others_way(self, project: Project) -> None:
        code = (
            "import asyncio, sys; from pathlib import Path; from holon.workspaces.worktrees import create\n"
            "async def go():\n"
            "    for n in range(3): await create(Path(sys.argv[1]), f'holon/{sys.argv[2]}-{n}')\n"
            "asyncio.run(go())"
        )
        started = [subprocess.Popen([sys.executable, "-c", code, project.folder, name]) for name in ("a", "b", "c")]
        assert [each.wait(60) for each in started] == [0, 0, 0]
        assert len(managed(project.folder, project.common_dir)) == 9


class TestRefusing:
    @pytest.mark.parametrize(
        ("spoil", "branch", "base", "problem"),
        [
            (lambda p: p.git("branch", BRANCH), BRANCH, None, GitProblem.BRANCH_EXISTS),
            (lambda p: p.git("branch", "holon"), BRANCH, None, GitProblem.BRANCH_EXISTS),
            (lambda p: p.git("checkout", "-q", "--detach"), BRANCH, None, GitProblem.DETACHED_HEAD),
            (lambda p: placed(p.folder, BRANCH).mkdir(parents=True), BRANCH, None, GitProblem.PATH_EXISTS),
            (lambda p: dangling(placed(p.folder, BRANCH)), BRANCH, None, GitProblem.PATH_EXISTS),
            (lambda p: None, BRANCH, "nowhere", GitProblem.UNKNOWN_REVISION),
            (lambda p: None, BRANCH, "--upload-pack=x", GitProblem.UNKNOWN_REVISION),
            (lambda p: None, "--force", None, GitProblem.INVALID_BRANCH),
            (lambda p: None, "a..b", None, GitProblem.INVALID_BRANCH),
            (lambda p: None, "a b", None, GitProblem.INVALID_BRANCH),
            (lambda p: None, "../../x", None, GitProblem.INVALID_BRANCH),
            (lambda p: None, "x.lock", None, GitProblem.INVALID_BRANCH),
            (lambda p: None, "", None, GitProblem.INVALID_BRANCH),
            (lambda p: None, "x" * 300, None, GitProblem.INVALID_BRANCH),
            (lambda p: lock(p, "refs/heads/holon/task_1.lock"), BRANCH, None, GitProblem.REPOSITORY_LOCKED),
        ],
    )
    async def test_what_cannot_be_made_is_refused_and_leaves_everything_as_it_was(
        self, project: Project, spoil, branch: str, base: str | None, problem: GitProblem
    ) -> None:
        spoil(project)
        before = project.everything()
        with pytest.raises(GitFailed) as caught:
            await create(project.folder, branch, base)
        assert caught.value.problem is problem
        assert caught.value.hint
        assert project.everything() == before
        assert managed(project.folder, project.common_dir) == []

    async def test_a_bare_repository_is_refused(self, project: Project, tmp_path: Path) -> None:
        project.git("clone", "-q", "--bare", str(project.folder), str(tmp_path / "bare.git"))
        with pytest.raises(GitFailed) as caught:
            await create(tmp_path / "bare.git", BRANCH)
        assert caught.value.problem is GitProblem.BARE_REPOSITORY

    async def test_a_repository_without_a_commit_is_refused(self, tmp_path: Path) -> None:
        empty = Project.new(tmp_path / "empty", commits=0)
        with pytest.raises(GitFailed) as caught:
            await create(empty.folder, BRANCH)
        assert caught.value.problem is GitProblem.NO_COMMITS

    async def test_a_folder_without_a_repository_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(GitFailed) as caught:
            await create(tmp_path, BRANCH)
        assert caught.value.problem is GitProblem.NOT_A_REPOSITORY

    async def test_a_root_that_vanished_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(GitFailed, match="is gone") as caught:
            await create(tmp_path / "vanished", BRANCH)
        assert caught.value.problem is GitProblem.NOT_A_REPOSITORY

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
    async def test_somebody_elses_repository_is_refused_with_the_way_to_trust_it(self, project: Project) -> None:
        for path in (project.folder, project.common_dir):
            os.chown(path, 12345, 12345)
        with pytest.raises(GitFailed) as caught:
            await create(project.folder, BRANCH)
        assert caught.value.problem is GitProblem.DUBIOUS_OWNERSHIP
        assert f"safe.directory '{project.folder}" in (caught.value.hint or "")

    async def test_a_creation_that_takes_too_long_is_ended_and_undone(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = SlowCheckout(project, tmp_path, monkeypatch)
        before = project.everything()
        with pytest.raises(GitFailed) as caught:
            await create(project.folder, BRANCH, timeout_s=0.5)
        assert caught.value.problem is GitProblem.TIMEOUT
        assert project.everything() == before
        assert not placed(project.folder, BRANCH).parent.exists()
        assert slow.living() == []

    async def test_a_creation_that_is_cancelled_is_undone(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = SlowCheckout(project, tmp_path, monkeypatch)
        before = project.everything()
        creating = asyncio.create_task(create(project.folder, BRANCH))
        await asyncio.to_thread(slow.wait_until_it_hangs)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert project.everything() == before
        assert not placed(project.folder, BRANCH).parent.exists()
        assert slow.living() == []


class TestLooking:
    async def test_a_fresh_one_is_clean_and_matches(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        state = await look(made)
        assert (state.branch, state.dirty, state.changed_files, state.matches, state.reason) == (
            BRANCH,
            False,
            (),
            True,
            None,
        )

    @pytest.mark.spec("RT-342")
    async def test_all_that_differs_from_the_beginning_is_named(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        project.commit("committed.txt", "x", folder=made.path)
        (made.path / "file-0.txt").write_text("changed")
        (made.path / "file-1.txt").unlink()
        (made.path / "new\nline – ü.txt").write_text("x")
        project.git("mv", "file-2.txt", "renamed.txt", folder=made.path)
        state = await look(made)
        assert state.changed_files == (
            "committed.txt",
            "file-0.txt",
            "file-1.txt",
            "file-2.txt",
            "new\nline – ü.txt",
            "renamed.txt",
        )
        assert state.dirty

    async def test_looking_does_not_wait_for_a_locked_index(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        lock(project, "worktrees/holon-task_1/index.lock")
        assert (await look(made)).clean


def edit(project: Project, made: Worktree) -> None:
    (made.path / "file-0.txt").write_text("changed")


def add(project: Project, made: Worktree) -> None:
    (made.path / "new.txt").write_text("new")


def stage(project: Project, made: Worktree) -> None:
    add(project, made)
    project.git("add", "-A", folder=made.path)


def commit(project: Project, made: Worktree) -> None:
    project.commit("new.txt", "new", folder=made.path)


def switch(project: Project, made: Worktree) -> None:
    project.git("checkout", "-q", "-b", "other", folder=made.path)


def detach_head(project: Project, made: Worktree) -> None:
    project.git("checkout", "-q", "--detach", folder=made.path)


def begin_merge(project: Project, made: Worktree) -> None:
    """Nothing to see in the tree, but the merge is not finished."""
    project.commit("on-main.txt", "x")
    project.git("merge", "-q", "--no-ff", "--no-commit", "-s", "ours", "main", folder=made.path)


def redirect(project: Project, made: Worktree) -> None:
    (made.path / ".git").write_text(f"gitdir: {project.common_dir}\n")


def unregister(project: Project, made: Worktree) -> None:
    shutil.rmtree(project.common_dir / "worktrees")


def lock_worktree(project: Project, made: Worktree) -> None:
    project.git("worktree", "lock", "--reason", "in use", str(made.path))


class TestRemoving:
    @pytest.mark.spec("RT-343")
    async def test_a_clean_one_goes_with_its_branch_and_leaves_no_trace(self, project: Project) -> None:
        before = project.everything()
        made = await create(project.folder, BRANCH)
        assert (await clear(made)).status is CleanupStatus.REMOVED
        assert project.everything() == before
        assert not made.path.parent.exists()
        assert not (project.common_dir / "worktrees").exists()
        assert not list(project.common_dir.rglob("*task_1*"))

    async def test_one_whose_commits_were_merged_goes_too(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        commit(project, made)
        project.git("merge", "-q", BRANCH)
        assert (await clear(made)).status is CleanupStatus.REMOVED
        assert project.branches() == ["main"]
        assert (project.folder / "new.txt").exists()

    async def test_what_git_ignores_does_not_keep_it(self, project: Project) -> None:
        project.commit(".gitignore", "build/\n")
        made = await create(project.folder, BRANCH)
        (made.path / "build").mkdir()
        (made.path / "build" / "output").write_text("x")
        assert (await clear(made)).status is CleanupStatus.REMOVED

    @pytest.mark.spec("RT-344")
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (edit, "1 changed or new files"),
            (add, "1 changed or new files"),
            (stage, "1 changed or new files"),
            (commit, "commits that no other branch has"),
            (switch, "on other instead of holon/task_1"),
            (detach_head, "on no branch instead of holon/task_1"),
            (begin_merge, "half done"),
            (redirect, "does not lead to its repository"),
            (unregister, "the repository does not know it"),
            (lock_worktree, "locked"),
        ],
    )
    async def test_one_that_holds_something_or_does_not_match_is_kept_whole(
        self, project: Project, change, reason: str
    ) -> None:
        made = await create(project.folder, BRANCH)
        change(project, made)
        files, branches = sorted(os.listdir(made.path)), project.branches()
        done = await clear(made)
        assert done.status is CleanupStatus.RETAINED
        assert reason in (done.reason or "")
        assert (sorted(os.listdir(made.path)), project.branches()) == (files, branches)

    async def test_one_with_a_submodule_is_kept(self, project: Project, tmp_path: Path) -> None:
        other = Project.new(tmp_path / "library")
        made = await create(project.folder, BRANCH)
        allow = ("-c", "protocol.file.allow=always")
        project.git(*allow, "submodule", "add", "-q", str(other.folder), "library", folder=made.path)
        project.git("commit", "-q", "-m", "library", folder=made.path)
        project.git("merge", "-q", BRANCH)
        done = await clear(made)
        assert (done.status, made.path.exists()) == (CleanupStatus.RETAINED, True)

    async def test_one_whose_folder_was_deleted_leaves_no_stale_entry(self, project: Project) -> None:
        before = project.everything()
        made = await create(project.folder, BRANCH)
        shutil.rmtree(made.path)
        assert (await clear(made)).status is CleanupStatus.ALREADY_REMOVED
        assert project.everything() == before

    async def test_a_deleted_folder_does_not_take_its_commits_along(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        commit(project, made)
        shutil.rmtree(made.path)
        done = await clear(made)
        assert (done.status, project.branches()) == (CleanupStatus.RETAINED, [BRANCH, "main"])
        assert managed(project.folder, project.common_dir) == []

    async def test_one_whose_creation_was_killed_leaves_no_trace(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = SlowCheckout(project, tmp_path, monkeypatch)
        before = project.everything()
        await asyncio.to_thread(kill_in_the_middle, project, slow)
        path = placed(project.folder, BRANCH)
        assert managed(project.folder, project.common_dir) == [(path, BRANCH)]
        done = await remove_if_clean(path, common_dir=project.common_dir, branch=BRANCH)
        assert done.status is CleanupStatus.REMOVED
        assert project.everything() == before
        assert not path.parent.exists()

    async def test_removing_twice_is_the_same_as_once(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        assert [(await clear(made)).status for _ in range(2)] == [CleanupStatus.REMOVED, CleanupStatus.ALREADY_REMOVED]

    async def test_a_repository_that_vanished_is_no_error_for_the_task(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        shutil.rmtree(project.folder)
        done = await clear(made)
        assert done.status is CleanupStatus.FAILED
        assert made.path.exists()

    async def test_other_worktrees_stay_also_those_that_are_not_mounted_now(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.git("worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
        project.git("worktree", "add", "-q", "-b", "away", str(tmp_path / "away"))
        (tmp_path / "away").rename(tmp_path / "unmounted")
        made = await create(project.folder, BRANCH)
        assert (await clear(made)).status is CleanupStatus.REMOVED
        assert sorted(project.worktrees()) == sorted(str(tmp_path / name) for name in ("shop", "mine", "away"))

    async def test_the_settings_of_its_branch_go_with_it(self, project: Project) -> None:
        made = await create(project.folder, BRANCH)
        project.git("config", f"branch.{BRANCH}.description", "a try")
        assert (await clear(made)).status is CleanupStatus.REMOVED
        assert "task_1" not in (project.common_dir / "config").read_text()

    @pytest.mark.spec("RT-342")
    def test_what_a_task_records_says_whether_there_is_something_to_review(self, project: Project) -> None:
        made = TaskWorktree(worktree_path="/w", worktree_branch=BRANCH, base_commit="0" * 40)
        assert (made.retained_for_review, made.auto_cleaned_up) == (False, False)
        kept = TaskWorktree(
            worktree_path="/w",
            worktree_branch=BRANCH,
            base_commit="0" * 40,
            changed_files=["a"],
            cleanup_status=CleanupStatus.RETAINED,
        )
        assert (kept.retained_for_review, kept.auto_cleaned_up) == (True, False)


class Trap:
    """A program that a repository names. It leaves a mark when it is run."""

    def __init__(self, folder: Path) -> None:
        self._mark = folder / "it-ran"
        self.script = folder / "trap.sh"
        self.script.write_text(f"#!/bin/sh\ntouch {self._mark}\n")
        self.script.chmod(0o755)

    def sprung(self) -> bool:
        """Whether it was run since the last time."""
        try:
            self._mark.unlink()
        except FileNotFoundError:
            return False
        return True


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


class TestHostileRepositories:
    """What a repository configures for itself is not run by the runtime. Plain git, beside it, does run it."""

    async def test_hooks_monitors_and_filters_are_not_run(self, project: Project, tmp_path: Path, trap: Trap) -> None:
        script = str(trap.script)
        project.commit(".gitattributes", "*.txt filter=a.b=c\n*.txt diff=evil\n")
        for hook in ("post-checkout", "reference-transaction", "post-index-change"):
            shutil.copy(script, project.common_dir / "hooks" / hook)
        for key, value in {
            "core.fsmonitor": script,
            "core.hooksPath": str(project.common_dir / "hooks"),
            "core.sshCommand": script,
            "core.pager": script,
            "core.askPass": script,
            "credential.helper": f"!{script}",
            "filter.a.b=c.smudge": script,
            "filter.a.b=c.clean": script,
            "filter.a.b=c.required": "true",
            "diff.external": script,
            "diff.evil.command": script,
            "diff.evil.textconv": script,
            "gpg.program": script,
            "alias.worktree": f"!{script}",
            "alias.status": f"!{script}",
        }.items():
            with (project.common_dir / "config").open("a") as config:
                section, name = key.rsplit(".", 1)
                head, _, sub = section.partition(".")
                config.write(f'[{head} "{sub}"]\n' if sub else f"[{head}]\n")
                config.write(f'\t{name} = "{value}"\n')
        project.git("worktree", "add", "-q", "-b", "plain", str(tmp_path / "plain"))
        assert trap.sprung()
        project.git("status", folder=tmp_path / "plain")
        assert trap.sprung()
        made = await create(project.folder, BRANCH)
        (made.path / "file-0.txt").write_text("changed")
        await look(made)
        (made.path / "file-0.txt").write_text("line 0\n")
        os.utime(made.path / "file-1.txt", (1, 1))
        assert (await clear(made)).status is CleanupStatus.REMOVED
        assert not trap.sprung()

    async def test_a_worktree_that_leads_to_a_repository_of_its_own_making_is_not_believed(
        self, project: Project, tmp_path: Path, trap: Trap
    ) -> None:
        made = await create(project.folder, BRANCH)
        evil = made.path / "evil"
        shutil.copytree(project.common_dir, evil)
        with (evil / "config").open("a") as config:
            config.write(f'[core]\n\tfsmonitor = "{trap.script}"\n')
        (made.path / ".git").write_text("gitdir: evil\n")
        project.git("status", folder=made.path)
        assert trap.sprung()
        done = await clear(made)
        assert done.status is CleanupStatus.RETAINED
        assert "does not lead to its repository" in (done.reason or "")
        assert not trap.sprung()

    async def test_a_partial_clone_is_not_completed_by_programs_that_it_names(
        self, project: Project, tmp_path: Path, trap: Trap
    ) -> None:
        project.git("config", "uploadpack.allowFilter", "true")
        clone = Project(tmp_path / "clone")
        project.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{project.folder}", str(clone.folder))
        clone.git("config", "remote.origin.uploadpack", str(trap.script))
        clone.git("config", "protocol.allow", "always")
        before = clone.branches(), clone.worktrees()
        with pytest.raises(subprocess.CalledProcessError):
            clone.git("cat-file", "-p", "HEAD:file-0.txt")
        assert trap.sprung()
        with pytest.raises(GitFailed) as caught:
            await create(clone.folder, BRANCH)
        assert caught.value.problem is GitProblem.NEEDS_NETWORK
        assert (clone.branches(), clone.worktrees()) == before
        assert not trap.sprung()

    async def test_the_callers_environment_does_not_move_git_elsewhere(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Project.new(tmp_path / "other")
        monkeypatch.setenv("GIT_DIR", str(other.common_dir))
        monkeypatch.setenv("GIT_WORK_TREE", str(other.folder))
        found = await git(project.folder, "rev-parse", "--show-toplevel")
        assert found.strip() == str(project.folder)


class TestExplaining:
    @pytest.mark.parametrize(
        ("stderr", "problem", "named"),
        [
            (
                "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process seems",
                GitProblem.REPOSITORY_LOCKED,
                "/r/.git/index.lock",
            ),
            ("fatal: write error: No space left on device", GitProblem.NO_SPACE, "disk is full"),
            ("fatal: cannot remove a locked working tree, lock reason: x", GitProblem.WORKTREE_LOCKED, "unlock"),
            ("fatal: something that nobody has seen", GitProblem.OTHER, "something that nobody has seen"),
            ("", GitProblem.OTHER, "it said nothing"),
        ],
    )
    def test_gits_words_become_a_problem_with_a_next_step(self, stderr: str, problem: GitProblem, named: str) -> None:
        failed = explain(stderr, "worktree", where=Path("/r"))
        assert failed.problem is problem
        assert named in str(failed)
        assert failed.hint

    async def test_a_machine_without_git_says_so(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(GitFailed) as caught:
            await create(project.folder, BRANCH)
        assert caught.value.problem is GitProblem.MISSING_PROGRAM


def kill_in_the_middle(project: Project, slow: SlowCheckout) -> None:
    """The runtime and git die at once, as when the machine loses power."""
    code = (
        "import asyncio, sys; from pathlib import Path; from holon.workspaces.worktrees import create;"
        f"asyncio.run(create(Path(sys.argv[1]), {BRANCH!r}))"
    )
    runtime = subprocess.Popen([sys.executable, "-c", code, project.folder])
    slow.wait_until_it_hangs()
    runtime.kill()
    runtime.wait()
    for pid in slow.living():
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def dangling(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to("nowhere")


def lock(project: Project, name: str) -> None:
    """As a git command that was killed leaves it."""
    file = project.common_dir / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


class SlowCheckout:
    """A checkout that hangs in a program which the operator, not the repository, has configured."""

    def __init__(self, project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pids = folder / "pids"
        script = folder / "slow.sh"
        script.write_text(f"#!/bin/sh\necho $$ >> {self._pids}\nexec sleep 60\n")
        script.chmod(0o755)
        project.commit(".gitattributes", "*.txt filter=slow\n")
        (folder / "xdg" / "git").mkdir(parents=True)
        (folder / "xdg" / "git" / "config").write_text(f'[filter "slow"]\n\tsmudge = "{script}"\n')
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "xdg"))

    def pids(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []

    def wait_until_it_hangs(self) -> None:
        deadline = time.monotonic() + 20
        while not self.pids() and time.monotonic() < deadline:
            time.sleep(0.01)

    def living(self) -> list[int]:
        return [pid for pid in self.pids() if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
