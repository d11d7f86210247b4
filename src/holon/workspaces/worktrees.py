"""Worktrees: isolated copies of a repository's tree that the runtime makes, looks into, and removes when nothing is lost.

A managed worktree stands beside its repository, in `.holon-worktrees-<repo>/<branch>`. It is removed only if it holds
nothing that exists nowhere else: no changed or new file, no commit of its own, no operation under way. Whatever cannot
be told for certain is kept. `--force` is never used.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from holon.core.workspaces import CleanupStatus, ProjectionKind, TaskWorktree
from holon.workspaces.anchors import Detected, detect
from holon.workspaces.git import Repository, git, own_filters
from holon.workspaces.git_problems import GitFailed, GitProblem

#: A checkout of a large repository on a slow disk.
CREATE_TIMEOUT_S = 600.0
STATUS_TIMEOUT_S = 120.0
LOCK_TIMEOUT_S = 120.0
_LOCK_POLL_S = 0.02
#: What a git folder holds while an operation is half done. A clean tree says nothing then.
_UNDER_WAY = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A worktree that was just made."""

    path: Path
    branch: str
    base_commit: str
    #: Where the repository stood.
    original_branch: str
    common_dir: Path

    def for_task(self) -> TaskWorktree:
        return TaskWorktree(worktree_path=str(self.path), worktree_branch=self.branch, base_commit=self.base_commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeState:
    """What a worktree holds now."""

    path: Path
    #: The branch it is on; None where its head is detached or it is gone.
    branch: str | None
    exists: bool
    #: Files that differ from the base commit: changed, new, deleted, or committed on its branch.
    changed_files: list[str]
    #: Something in it exists nowhere else.
    dirty: bool
    #: The repository knows it at this path, on the expected branch.
    matches: bool
    #: Why it is dirty or does not match, in words.
    reason: str | None = None
    head: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What became of a worktree that was to be removed."""

    status: CleanupStatus
    state: WorktreeState | None
    reason: str | None = None


def placed(anchor: Path, branch: str) -> Path:
    """Where a managed worktree of this branch stands."""
    return _shelf(anchor) / re.sub(r"[/\\\s]", "-", branch)


def task_branch(task_id: str) -> str:
    """A branch for one task's worktree: its id is unique, so the branch is."""
    return f"holon/{_plain(task_id)}"


def session_branch(agent_id: str) -> str:
    """A branch for an agent that asked for isolation: new each time."""
    return f"holon/{_plain(agent_id)}-{secrets.token_hex(4)}"


async def create(
    repo: Path,
    branch: str,
    base: str | None = None,
    path: Path | None = None,
    *,
    timeout_s: float = CREATE_TIMEOUT_S,
) -> Worktree:
    """A new branch from `base` (the current commit, if none is named) in a new worktree. All of it, or nothing."""
    original = await _current_branch(repo)
    _check_branch_name(branch)
    found = detect(repo)
    common = found.git_common_dir or Path(await git(repo, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    common = Path(str(common).rstrip("\n"))
    target = path or placed(found.anchor, branch)
    async with _only_one(common):
        if os.path.lexists(target):
            raise GitFailed(
                GitProblem.PATH_EXISTS,
                f"{target} exists already",
                hint="choose another branch name or path; what is there was not touched",
            )
        commit = await _commit(repo, base or "HEAD")
        arguments = ["worktree", "add", "-q", "--no-track", "-b", branch, str(target), commit]
        try:
            await git(repo, *arguments, timeout_s=timeout_s, config=_QUICK_CHECKOUT | await own_filters(repo))
        except GitFailed as failed:
            await _undo(repo, target, branch, commit, failed)
            raise
    return Worktree(path=target, branch=branch, base_commit=commit, original_branch=original, common_dir=common)


async def status(
    path: Path,
    *,
    common_dir: Path,
    branch: str,
    base_commit: str | None = None,
    timeout_s: float = STATUS_TIMEOUT_S,
) -> WorktreeState:
    """What a managed worktree holds. Its repository is asked; nothing in the worktree is believed."""
    admin = _admin_dir(common_dir, path)
    exists = path.is_dir()
    if admin is None or not exists:
        known = "its folder is gone" if admin else "the repository does not know it"
        lost = None if admin is None and not exists else known
        return WorktreeState(
            path=path, branch=None, exists=exists, changed_files=[], dirty=False, matches=False, reason=lost
        )
    where = Repository(git_dir=admin, work_tree=path)
    reported = await git(
        where,
        *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty"),
        timeout_s=timeout_s,
        config=await own_filters(where),
    )
    on, head, touched = _read_status(reported)
    committed = await _committed(where, base_commit, head)
    own_commits = bool(head) and await _has_own_commits(where, on, str(head))
    matches = on == branch and (path / ".git").is_file() and _points_to(path / ".git", admin)
    reason = _reason(
        (f"it is on {on or 'no branch'} instead of {branch}", on != branch),
        ("its '.git' file leads elsewhere", on == branch and not matches),
        (f"{len(touched)} changed or new file(s)", bool(touched)),
        ("commits that no other branch has", own_commits),
        ("a git operation is half done", any((admin / name).exists() for name in _UNDER_WAY)),
    )
    return WorktreeState(
        path=path,
        branch=on,
        exists=True,
        changed_files=sorted({*touched, *committed}),
        dirty=reason is not None and (matches or bool(touched) or own_commits),
        matches=matches,
        reason=reason,
        head=head,
    )


async def remove_if_clean(path: Path, *, common_dir: Path, branch: str, base_commit: str | None = None) -> Cleanup:
    """Removes a worktree and its branch if nothing is lost; else says why it was kept. It raises nothing of git's."""
    state = None
    try:
        state = await status(path, common_dir=common_dir, branch=branch, base_commit=base_commit)
        if state.exists and (state.dirty or not state.matches):
            return Cleanup(status=CleanupStatus.RETAINED, state=state, reason=state.reason)
        repository = Repository(git_dir=common_dir)
        known = _admin_dir(common_dir, path) is not None
        async with _only_one(common_dir):
            if known:
                await git(repository, "worktree", "remove", str(path), timeout_s=STATUS_TIMEOUT_S)
            kept = await _delete_branch(repository, branch, state.head)
        with suppress(OSError):
            path.parent.rmdir()  # the shelf, if this was the last one on it
    except GitFailed as failed:
        kept_by_git = failed.problem in (GitProblem.WORKTREE_DIRTY, GitProblem.WORKTREE_LOCKED)
        outcome = CleanupStatus.RETAINED if kept_by_git else CleanupStatus.FAILED
        return Cleanup(status=outcome, state=state, reason=str(failed))
    if kept:
        return Cleanup(status=CleanupStatus.RETAINED, state=state, reason=kept)
    return Cleanup(status=CleanupStatus.REMOVED if state.exists else CleanupStatus.ALREADY_REMOVED, state=state)


def adopt(path: Path) -> Detected:
    """A worktree that somebody else made: entered as it is, never removed."""
    found = detect(path)
    if found.projection is not ProjectionKind.GIT_WORKTREE_ROOT:
        raise GitFailed(
            GitProblem.NOT_A_WORKTREE,
            f"{path} is no worktree of another folder",
            hint="enter it with UseWorkspace(path=...) as a workspace of its own",
        )
    return found


def managed(anchor: Path, common_dir: Path) -> list[Path]:
    """The managed worktrees that a repository knows, whether their folders are there or not: nothing is forgotten."""
    shelf = _shelf(anchor)
    return sorted(place for _, place in _admin_entries(common_dir) if place.parent == shelf)


#: As many writers as there are processors: files are written side by side.
_QUICK_CHECKOUT = {"checkout.workers": "0"}


def _shelf(anchor: Path) -> Path:
    return anchor.parent / f".holon-worktrees-{anchor.name}"


def _plain(name: str) -> str:
    """A part of a branch name: what git does not take becomes a dash."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "unnamed"


def _check_branch_name(branch: str) -> None:
    """What git refuses, and what it takes as an option or as something else than a new branch."""
    parts = branch.split("/")
    bad = (
        branch in ("", "@", "HEAD")
        or branch.startswith("-")
        or re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{", branch) is not None
        or any(not part or part.startswith(".") or part.endswith((".lock", ".")) for part in parts)
        or len(branch.encode()) > 200
    )
    if bad:
        raise GitFailed(
            GitProblem.INVALID_BRANCH,
            f"{branch[:200]!r} is no valid branch name",
            hint="use letters, digits, '-', '_', '.' and '/'",
        )


async def _current_branch(repo: Path) -> str:
    """The branch that the repository is on; it must be on one, so that there is something to come back to."""
    answer = (await git(repo, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")).split()
    if answer[0] == "true" and answer[1:] != ["true"]:
        raise GitFailed(
            GitProblem.BARE_REPOSITORY,
            f"{repo} is a bare repository: it has no files to work on",
            hint="use a clone of it, or a worktree of it",
        )
    try:
        return (await git(repo, "symbolic-ref", "--quiet", "--short", "HEAD")).strip()
    except GitFailed as failed:
        if failed.problem is not GitProblem.OTHER:
            raise
        raise GitFailed(
            GitProblem.DETACHED_HEAD,
            f"{repo} is on a detached head, so there is no branch to come back to",
            hint="check out a branch in it first: git switch <branch>",
        ) from failed


async def _commit(repo: Path, base: str) -> str:
    try:
        return (await git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")).strip()
    except GitFailed as failed:
        if failed.problem not in (GitProblem.OTHER, GitProblem.UNKNOWN_REVISION):
            raise
        if base == "HEAD":
            raise GitFailed(
                GitProblem.NO_COMMITS,
                f"{repo} has no commit yet, so there is nothing to make a worktree of",
                hint="make a first commit in it",
            ) from failed
        raise GitFailed(
            GitProblem.UNKNOWN_REVISION,
            f"{repo} has no commit {base!r}",
            hint="name a branch, a tag or a commit that exists in it",
        ) from failed


async def _undo(repo: Path, target: Path, branch: str, commit: str, failed: GitFailed) -> None:
    """Takes back what a failed creation may have left: git clears its folders, but not the branch that it made first."""
    if failed.problem in (GitProblem.BRANCH_EXISTS, GitProblem.PATH_EXISTS, GitProblem.INVALID_BRANCH):
        return  # nothing was begun, and what has these names is somebody else's
    with suppress(GitFailed):
        if os.path.lexists(target) or await _is_registered(repo, target):
            await git(repo, "worktree", "remove", str(target))
    with suppress(GitFailed):
        await git(repo, "update-ref", "-d", f"refs/heads/{branch}", commit)


async def _is_registered(repo: Path, target: Path) -> bool:
    listing = await git(repo, "worktree", "list", "--porcelain")
    return f"worktree {target}\n" in listing


async def _committed(where: Repository, base: str | None, head: str | None) -> list[str]:
    """Files that commits on the branch have changed since it began."""
    if base is None or head is None or base == head:
        return []
    listing = await git(where, "diff-tree", "-r", "--name-only", "--no-ext-diff", "--no-textconv", "-z", base, head)
    return [name for name in listing.split("\0") if name]


async def _has_own_commits(where: Repository, branch: str | None, head: str) -> bool:
    """Whether commits would become unreachable with this branch (or this detached head)."""
    others = [f"--exclude={branch}"] if branch else []
    listing = await git(where, "rev-list", "-n1", head, "--not", *others, "--branches", "--tags", "--remotes")
    return bool(listing.strip())


async def _delete_branch(repository: Repository, branch: str, head: str | None) -> str | None:
    """Deletes the branch if it is still where it was looked at, and has nothing of its own; else why it stays."""
    ref = f"refs/heads/{branch}"
    tip = (await git(repository, "for-each-ref", "--format=%(objectname)", ref)).strip()
    if not tip:
        return None
    if tip != head and await _has_own_commits(repository, branch, tip):
        return f"branch {branch} has commits that no other branch has"
    await git(repository, "update-ref", "-d", ref, tip)
    with suppress(GitFailed, OSError):
        if f'[branch "{branch}"]' in (repository.git_dir / "config").read_text(errors="replace"):
            await git(repository, "config", "--remove-section", f"branch.{branch}")
    return None


def _read_status(reported: str) -> tuple[str | None, str | None, list[str]]:
    """Branch, commit and touched paths of `status --porcelain=v2 --branch -z`."""
    branch, head, touched = None, None, []
    fields = iter(reported.split("\0"))
    for field in fields:
        match field[:2]:
            case "# ":
                _, key, *value = field.split(" ", 2)
                if key == "branch.head" and value != ["(detached)"]:
                    branch = value[0]
                elif key == "branch.oid" and value != ["(initial)"]:
                    head = value[0]
            case "1 ":
                touched.append(field.split(" ", 8)[8])
            case "2 ":
                touched += [field.split(" ", 9)[9], next(fields)]
            case "u ":
                touched.append(field.split(" ", 10)[10])
            case "? ":
                touched.append(field[2:])
    return branch, head, touched


def _admin_dir(common_dir: Path, path: Path) -> Path | None:
    """The repository's own record of a worktree."""
    return next((entry for entry, place in _admin_entries(common_dir) if place == path), None)


def _admin_entries(common_dir: Path) -> list[tuple[Path, Path]]:
    """Each record, and the folder that it is of."""
    found = []
    with suppress(OSError):
        for entry in (common_dir / "worktrees").iterdir():
            with suppress(OSError):
                text = (entry / "gitdir").read_text(errors="surrogateescape").rstrip("\n")
                found.append((entry, (entry / text).parent))
    return found


def _points_to(marker: Path, admin: Path) -> bool:
    with suppress(OSError):
        text = marker.read_text(errors="surrogateescape").rstrip("\n")
        return (marker.parent / text.removeprefix("gitdir: ")).resolve() == admin.resolve()
    return False


def _reason(*candidates: tuple[str, bool]) -> str | None:
    return "; ".join(words for words, applies in candidates if applies) or None


@asynccontextmanager
async def _only_one(common_dir: Path) -> AsyncIterator[None]:
    """One at a time makes or removes worktrees of a repository, in this process and in every other of Holon's."""
    descriptor = os.open(common_dir / "holon-worktrees.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = asyncio.get_running_loop().time() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    raise GitFailed(
                        GitProblem.REPOSITORY_LOCKED,
                        f"another worktree of {common_dir} has been in the making for {LOCK_TIMEOUT_S:g} s",
                        hint="try again later",
                    ) from None
                await asyncio.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)
