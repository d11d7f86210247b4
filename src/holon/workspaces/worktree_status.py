"""What a managed worktree holds: whether something in it exists nowhere else, and whether it is what it should be.

The repository is asked. The worktree's own `.git` file is only compared, never followed: whoever works in the worktree
can write it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from holon.core.values import Value
from holon.workspaces.git import Repository, git, own_filters
from holon.workspaces.git_problems import GitFailed, GitProblem
from holon.workspaces.names import printable

STATUS_TIMEOUT_S = 120.0
#: Git's own word for it: a worktree is locked with it until it is complete.
HALF_MADE = "initializing"
#: What a worktree's git folder holds while an operation is half done; a clean tree says nothing then.
_UNDER_WAY = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
)


class WorktreeState(Value, frozen=True, kw_only=True):
    path: Path
    #: Whether its folder is there.
    exists: bool
    #: The branch it is on; None where its head is detached, or it is gone.
    branch: str | None = None
    head: str | None = None
    #: Something in it exists nowhere else: a changed or new file, a commit, an operation that is half done.
    dirty: bool = False
    #: Files that differ from the commit that it began with, committed or not.
    changed_files: tuple[str, ...] = ()
    #: The repository knows it at this path and on the expected branch, and it knows the repository.
    matches: bool = False
    #: Why it is dirty or does not match, in words.
    reason: str | None = None

    @property
    def clean(self) -> bool:
        """It is what it should be, and holds nothing that exists nowhere else."""
        return self.exists and self.matches and not self.dirty


class Standing(Value, frozen=True, kw_only=True):
    """What can be told of a worktree without running git."""

    exists: bool
    #: The repository's own record of it.
    admin: Path | None = None
    #: Its `.git` file leads to that record.
    linked: bool = False
    #: A git operation is half done in it.
    half_done: bool = False
    #: Its creation did not come to an end: whoever made it was killed, and nobody was told of it.
    half_made: bool = False


def standing(path: Path, common_dir: Path) -> Standing:
    """Looks at the files that git keeps about a worktree."""
    admin, exists = admin_dir(common_dir, path), path.is_dir()
    if admin is None or not exists:
        return Standing(exists=exists, admin=admin, half_made=_half_made(admin))
    return Standing(
        exists=True,
        admin=admin,
        linked=_leads_to(path / ".git", admin),
        half_done=any((admin / name).exists() for name in _UNDER_WAY),
        half_made=_half_made(admin),
    )


async def status(
    path: Path,
    *,
    common_dir: Path,
    branch: str,
    base_commit: str | None = None,
    timeout_s: float = STATUS_TIMEOUT_S,
) -> WorktreeState:
    """The state of a worktree of the repository with this common folder; `branch` is the one it should be on."""
    found = standing(path, common_dir)
    if not found.exists:
        return WorktreeState(path=path, exists=False, reason="its folder is gone")
    if found.admin is None:
        return WorktreeState(path=path, exists=True, reason="the repository does not know it")
    where = Repository(git_dir=found.admin, work_tree=path)
    filters = await own_filters(where)
    reported, own_commits = await asyncio.gather(
        git(where, *_STATUS, timeout_s=timeout_s, config=filters), has_own_commits(where, branch, "HEAD")
    )
    on, head, touched = _read(reported)
    committed = await committed_files(where, base_commit, head)
    return WorktreeState(
        path=path,
        exists=True,
        branch=on,
        head=head,
        dirty=bool(touched) or own_commits or found.half_done,
        changed_files=tuple(sorted({*touched, *committed})),
        matches=on == branch and found.linked,
        reason=_reason(
            (f"it is on {on or 'no branch'} instead of {branch}", on != branch),
            ("its '.git' file does not lead to its repository", not found.linked),
            (f"{len(touched)} changed or new files", bool(touched)),
            ("commits that no other branch has", own_commits),
            ("a git operation that is half done", found.half_done),
        ),
    )


async def has_own_commits(where: Repository, branch: str, head: str) -> bool:
    """Whether commits of `head` would be reachable from nowhere if this branch were gone."""
    others = (f"--exclude={branch}", "--branches", "--tags", "--remotes")
    try:
        return bool(await git(where, "rev-list", "-n1", head, "--not", *others))
    except GitFailed as failed:
        if failed.problem is GitProblem.UNKNOWN_REVISION:  # a branch without any commit
            return False
        raise


def admin_dir(common_dir: Path, path: Path) -> Path | None:
    """The repository's own record of a worktree."""
    wanted = _real(path)
    return next((entry for entry, place in admin_dirs(common_dir) if place == wanted), None)


def admin_dirs(common_dir: Path) -> list[tuple[Path, Path]]:
    """Each record that a repository has of a worktree, and the folder that it is of, there or not."""
    found = []
    with suppress(OSError):
        for entry in (common_dir / "worktrees").iterdir():
            with suppress(OSError):
                text = (entry / "gitdir").read_text(errors="surrogateescape").rstrip("\n")
                found.append((entry, _real((entry / text).parent)))
    return found


_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty")


async def committed_files(where: Repository, base: str | None, head: str | None) -> list[str]:
    """Files that commits have changed since a worktree was made."""
    if base is None or head is None or base == head:
        return []
    listing = await git(where, "diff-tree", "-r", "--name-only", "--no-ext-diff", "--no-textconv", "-z", base, head)
    return [printable(name) for name in listing.split("\0") if name]


def _half_made(admin: Path | None) -> bool:
    """Only who holds our lock may believe it."""
    with suppress(OSError):
        return admin is not None and (admin / "locked").read_text().strip() == HALF_MADE
    return False


def _leads_to(marker: Path, admin: Path) -> bool:
    with suppress(OSError):
        text = marker.read_text(errors="surrogateescape").rstrip("\n")
        return not marker.is_symlink() and _real(marker.parent / text.removeprefix("gitdir: ")) == _real(admin)
    return False


def _read(reported: str) -> tuple[str | None, str | None, list[str]]:
    """Branch, commit and touched paths of `status --porcelain=v2 --branch -z`."""
    branch, head, touched = None, None, []
    fields = iter(reported.split("\0"))
    for field in fields:
        match field[:2]:
            case "# ":
                _, key, value = field.split(" ", 2)
                if key == "branch.head" and value != "(detached)":
                    branch = value
                elif key == "branch.oid" and value != "(initial)":
                    head = value
            case "1 ":
                touched.append(field.split(" ", 8)[8])
            case "2 ":  # renamed: the new name, and the old one in the next field
                touched += [field.split(" ", 9)[9], next(fields)]
            case "u ":
                touched.append(field.split(" ", 10)[10])
            case "? ":
                touched.append(field[2:])
    return branch, head, [printable(name) for name in touched]


def _reason(*candidates: tuple[str, bool]) -> str | None:
    return "; ".join(words for words, applies in candidates if applies) or None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
