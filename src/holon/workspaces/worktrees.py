"""Worktrees: isolated copies of a repository's tree, made by the runtime and removed when nothing is lost by it.

A managed worktree stands beside its repository, in `.holon-worktrees-<repo>/<branch>`. It goes, with its branch, only
if everything in it exists elsewhere too, but for what the project has told git to ignore; whatever cannot be told for
certain is kept for review. What somebody has worked in is never removed by force.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holon.core.values import Value
from holon.core.workspaces import CleanupStatus, ProjectionKind, TaskWorktree, WorktreeSession
from holon.workspaces.anchors import Detected, detect
from holon.workspaces.branches import check_name, placed, session_branch, shelf, task_branch
from holon.workspaces.git import Repository, git, own_filters
from holon.workspaces.git_problems import GitFailed, GitProblem
from holon.workspaces.locks import alone
from holon.workspaces.worktree_status import (
    HALF_MADE,
    STATUS_TIMEOUT_S,
    Standing,
    WorktreeState,
    admin_dir,
    admin_dirs,
    committed_files,
    has_own_commits,
    standing,
    status,
)

__all__ = [
    "Cleanup",
    "Worktree",
    "WorktreeState",
    "adopt",
    "create",
    "discard",
    "managed",
    "place_of",
    "placed",
    "remove_if_clean",
    "session_branch",
    "status",
    "task_branch",
]

#: A checkout of a large repository on a slow disk.
CREATE_TIMEOUT_S = 600.0
#: Git refused because of what others have made in the meantime, and made nothing itself.
_SOMEBODY_ELSES = (GitProblem.BRANCH_EXISTS, GitProblem.PATH_EXISTS)


class Worktree(Value, frozen=True, kw_only=True):
    """A worktree that was just made."""

    path: Path
    branch: str
    base_commit: str
    #: The branch that the repository was on.
    original_branch: str
    #: The repository's data: what `status` and `remove_if_clean` ask later.
    common_dir: Path

    def for_task(self) -> TaskWorktree:
        return TaskWorktree(
            worktree_path=str(self.path),
            worktree_branch=self.branch,
            base_commit=self.base_commit,
            common_dir=str(self.common_dir),
        )

    def session(self, original_cwd: Path) -> WorktreeSession:
        return WorktreeSession(
            original_cwd=str(original_cwd),
            original_branch=self.original_branch,
            worktree_path=str(self.path),
            worktree_branch=self.branch,
        )


class Cleanup(Value, frozen=True, kw_only=True):
    """What became of a worktree that was to be removed."""

    status: CleanupStatus
    state: WorktreeState | None = None
    reason: str | None = None


async def place_of(repo: Path, branch: str) -> tuple[Path, Path]:
    """Where `create` would make the worktree of a branch, and its repository's common folder: what must be written
    down before, so that whoever finds half of it can clear it."""
    check_name(branch)
    common, _, _ = await _where(repo)
    return _target(repo, branch, None), common


async def create(
    repo: Path,
    branch: str,
    base: str | None = None,
    path: Path | None = None,
    *,
    timeout_s: float = CREATE_TIMEOUT_S,
) -> Worktree:
    """A new branch from `base` (where the repository stands, if it is not named) in a new worktree: all, or nothing."""
    check_name(branch)
    common, original, head = await _where(repo)
    target = _target(repo, branch, path)
    async with alone(common):
        _refuse_taken(target)
        commit, _ = await asyncio.gather(_commit(repo, base, head), _refuse_branch(repo, branch))
        try:
            lock = ("--lock", "--reason", HALF_MADE)
            await git(
                repo, "worktree", "add", "--quiet", "--no-checkout", *lock, "-b", branch, "--", str(target), commit
            )
            await _check_out(common, target, timeout_s)
        except (GitFailed, asyncio.CancelledError) as failed:
            if getattr(failed, "problem", None) not in _SOMEBODY_ELSES:
                await _undo(repo, common, target, branch, commit)
            raise
    return Worktree(path=target, branch=branch, base_commit=commit, original_branch=original, common_dir=common)


async def remove_if_clean(path: Path, *, common_dir: Path, branch: str, base_commit: str | None = None) -> Cleanup:
    """Removes a worktree and its branch if nothing is lost; otherwise keeps both and says why. Git's errors do not
    come out of here: a task's end does not wait for its worktree."""
    try:
        return await _remove(path, common_dir, branch, base_commit)
    except GitFailed as failed:
        kept_by_git = failed.problem in (GitProblem.WORKTREE_DIRTY, GitProblem.WORKTREE_LOCKED)
        outcome = CleanupStatus.RETAINED if kept_by_git else CleanupStatus.FAILED
        return Cleanup(status=outcome, reason=str(failed))


async def discard(path: Path, *, common_dir: Path, branch: str) -> Cleanup:
    """Removes a worktree and its branch with all that is in them: one that nobody was told of, or one that a person
    has given up by name."""
    repository, found = Repository(git_dir=common_dir), standing(path, common_dir)
    try:
        if standing(common_dir, common_dir).exists:
            async with alone(common_dir):
                found = standing(path, common_dir)
                if found.admin is not None:
                    await git(repository, "worktree", "remove", "--force", "--force", str(path))
                await _delete_branch(repository, branch, await _tip(repository, branch))
        await asyncio.to_thread(_take_away, path)
    except (GitFailed, OSError) as failed:
        return Cleanup(status=CleanupStatus.FAILED, reason=str(failed))
    return Cleanup(status=CleanupStatus.REMOVED if found.exists else CleanupStatus.ALREADY_REMOVED)


def adopt(path: Path) -> Detected:
    """A worktree that somebody else made: entered as it is, and never removed."""
    found = detect(path)
    if found.projection is not ProjectionKind.GIT_WORKTREE_ROOT:
        raise GitFailed(
            GitProblem.NOT_A_WORKTREE,
            f"{path} is no worktree of another folder",
            hint="enter it with UseWorkspace(path=...) as a workspace of its own",
        )
    return found


class Shelved(NamedTuple):
    """A managed worktree that stands beside its repository."""

    path: Path
    #: None where its head is detached.
    branch: str | None


def managed(anchor: Path, common_dir: Path) -> list[Shelved]:
    """The managed worktrees that a repository knows, whether their folders are there or not: none is forgotten."""
    own = shelf(anchor)
    return sorted(Shelved(place, _head_of(entry)) for entry, place in admin_dirs(common_dir) if place.parent == own)


def _head_of(admin: Path) -> str | None:
    with suppress(OSError):
        head = (admin / "HEAD").read_text(errors="surrogateescape").strip()
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None
    return None


async def _where(repo: Path) -> tuple[Path, str, str]:
    """The repository's common folder, the branch that it is on (there must be one to come back to), and its commit."""
    try:
        answer = await git(
            repo,
            *("rev-parse", "--is-bare-repository", "--path-format=absolute", "--git-common-dir"),
            *("HEAD^{commit}", "--symbolic-full-name", "HEAD"),
        )
    except GitFailed as failed:
        if failed.problem is not GitProblem.UNKNOWN_REVISION:
            raise
        raise GitFailed(
            GitProblem.NO_COMMITS,
            f"{repo} has no commit yet, so there is nothing to make a worktree of",
            hint="make a first commit in it",
        ) from failed
    bare, *lines, commit, head = answer.removesuffix("\n").split("\n")
    common = "\n".join(lines)  # a path may have any name
    if bare == "true":
        raise GitFailed(
            GitProblem.BARE_REPOSITORY,
            f"{repo} is a bare repository: it has no files to work on",
            hint="use a clone of it, or a worktree of it",
        )
    if head == "HEAD":
        raise GitFailed(
            GitProblem.DETACHED_HEAD,
            f"{repo} is on a detached head, so there is no branch to come back to",
            hint="check out a branch in it first: git switch <branch>",
        )
    return Path(common), head.removeprefix("refs/heads/"), commit


async def _check_out(common: Path, target: Path, timeout_s: float) -> None:
    """The files. Filters are looked for where they would work: a configuration can differ from worktree to worktree."""
    admin = admin_dir(common, target)
    if admin is None:
        raise GitFailed(GitProblem.OTHER, f"{target} was taken away while it was made", hint="try again")
    tree = Repository(git_dir=admin, work_tree=target)
    filters = await own_filters(tree)
    await git(tree, "reset", "--hard", "--quiet", "--no-recurse-submodules", timeout_s=timeout_s, config=filters)
    (admin / "locked").unlink(missing_ok=True)


async def _commit(repo: Path, base: str | None, head: str) -> str:
    if base is None:
        return head
    try:
        return (await git(repo, "rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")).strip()
    except GitFailed as failed:
        if failed.problem is not GitProblem.UNKNOWN_REVISION:
            raise
        raise GitFailed(
            GitProblem.UNKNOWN_REVISION,
            f"{repo} has no commit {base[:200]!r}",
            hint="name a branch, a tag or a commit that exists in it",
        ) from failed


async def _refuse_branch(repo: Path, branch: str) -> None:
    """Looked up before anything is made, so that a failure later can be undone without touching what was there."""
    if await git(repo, "for-each-ref", "--format=%(refname)", f"refs/heads/{branch}"):
        raise GitFailed(
            GitProblem.BRANCH_EXISTS,
            f"the branch {branch!r} exists already",
            hint="choose another branch name; what is on that branch was not touched",
        )


async def _undo(repo: Path, common: Path, target: Path, branch: str, commit: str) -> None:
    """Takes back a creation that failed. By force: nothing had these names before, and nobody was told of them."""
    if admin_dir(common, target):
        with suppress(GitFailed):
            await git(repo, "worktree", "remove", "--force", "--force", str(target))
    with suppress(GitFailed):
        await git(repo, "update-ref", "-d", f"refs/heads/{branch}", commit)
    _clear_shelf(target)


async def _remove(path: Path, common_dir: Path, branch: str, base_commit: str | None) -> Cleanup:
    """Git itself looks for changed files before it removes; the whole state is read only where something is kept."""
    repository = Repository(git_dir=common_dir)
    async with alone(common_dir):
        found = standing(path, common_dir)
        seen = Repository(git_dir=found.admin) if found.admin else repository
        tip, on, filters = await asyncio.gather(_tip(repository, branch), _branch_of(found), own_filters(seen))
        own_commits = bool(tip) and await has_own_commits(repository, branch, tip)
        if found.half_made and not own_commits:
            await _undo(common_dir, common_dir, path, branch, tip)
            return Cleanup(status=CleanupStatus.REMOVED, reason="its creation had not come to an end")
        fits = on == branch and found.linked and not found.half_done
        if found.exists and (own_commits or not fits):
            return await _kept(path, common_dir, branch, base_commit)
        if found.admin is not None:
            try:
                await git(repository, "worktree", "remove", str(path), timeout_s=STATUS_TIMEOUT_S, config=filters)
            except GitFailed as failed:
                if failed.problem is not GitProblem.WORKTREE_DIRTY:
                    raise
                return await _kept(path, common_dir, branch, base_commit, failed)
        _clear_shelf(path)
        if own_commits:  # the folder was deleted by somebody, the work in it was not
            reason = f"branch {branch} has commits that no other branch has"
            return Cleanup(status=CleanupStatus.RETAINED, reason=reason)
        await _delete_branch(repository, branch, tip)
    if not found.exists:
        return Cleanup(status=CleanupStatus.ALREADY_REMOVED)
    changed = tuple(await committed_files(repository, base_commit, tip))
    return Cleanup(
        status=CleanupStatus.REMOVED,
        state=WorktreeState(path=path, exists=False, branch=branch, head=tip, changed_files=changed, matches=True),
    )


async def _kept(
    path: Path, common_dir: Path, branch: str, base_commit: str | None, failed: GitFailed | None = None
) -> Cleanup:
    state = await status(path, common_dir=common_dir, branch=branch, base_commit=base_commit)
    return Cleanup(status=CleanupStatus.RETAINED, state=state, reason=state.reason or str(failed))


async def _tip(repository: Repository, branch: str) -> str:
    return (await git(repository, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")).strip()


async def _branch_of(found: Standing) -> str | None:
    """The branch that a worktree is on; none where its head is detached."""
    if found.admin is None:
        return None
    try:
        return (await git(Repository(git_dir=found.admin), "symbolic-ref", "--quiet", "--short", "HEAD")).strip()
    except GitFailed as failed:
        if failed.problem is GitProblem.OTHER:
            return None
        raise


async def _delete_branch(repository: Repository, branch: str, tip: str) -> None:
    """Deletes the branch, but not if it has moved since it was looked at: a commit in between is not lost."""
    if tip:
        await git(repository, "update-ref", "-d", f"refs/heads/{branch}", tip)
    if _configures(repository.git_dir / "config", branch):
        await git(repository, "config", "--remove-section", f"branch.{branch}")


def _target(repo: Path, branch: str, path: Path | None) -> Path:
    """As git will write it down: without links."""
    wanted = path or placed(detect(repo).anchor, branch)
    if path is None and wanted.parent.is_symlink():
        raise GitFailed(
            GitProblem.PATH_EXISTS,
            f"{wanted.parent}, where worktrees are kept, is a link",
            hint="an operator looks into it and removes it",
        )
    return Path(os.path.realpath(wanted.parent)) / wanted.name


def _refuse_taken(target: Path) -> None:
    if os.path.lexists(target):
        raise GitFailed(
            GitProblem.PATH_EXISTS,
            f"{target} exists already",
            hint="choose another branch name or path; what is there was not touched",
        )


def _take_away(path: Path) -> None:
    if os.path.lexists(path):
        shutil.rmtree(path)
    _clear_shelf(path)


def _clear_shelf(path: Path) -> None:
    """Removes the folder of managed worktrees with the last of them."""
    if path.parent.name.startswith(".holon-worktrees-"):
        with suppress(OSError):
            path.parent.rmdir()


def _configures(config: Path, branch: str) -> bool:
    with suppress(OSError):
        return f'[branch "{branch}"]' in config.read_text(errors="replace")
    return False
