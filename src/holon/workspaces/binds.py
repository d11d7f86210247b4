"""Binds: which folders a confined command sees, and which of them it may write.

A repository needs care. Its git folder must be writable for commits, but some files in it name programs that git runs
for whoever uses the repository next, outside of any confinement. Those stay read-only, each under a mount of its own so
that it cannot be moved away either.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from holon.core.workspaces import WorkspaceRefused
from holon.workspaces.places import real
from holon.workspaces.worktree_status import admin_dir


class GitAccess(StrEnum):
    """What a command may do with its repository."""

    #: Make commits. It can then also remove branches and objects: a repository's worktrees share them.
    COMMIT = "commit"
    READ = "read"
    #: Also make and remove worktrees, as the runtime does.
    MANAGE = "manage"


class Bind(NamedTuple):
    path: Path
    writable: bool


def ordered(binds: Iterable[Bind]) -> list[Bind]:
    """Outer folders before what lies in them: the inner one's word counts. Of two for one path, the stricter."""
    strictest: dict[Path, Bind] = {}
    for bind in binds:
        known = strictest.get(bind.path)
        strictest[bind.path] = bind if known is None else Bind(bind.path, known.writable and bind.writable)
    return sorted(strictest.values(), key=lambda bind: (len(bind.path.parts), bind.path))


def of_repository(root: Path, common: Path, access: GitAccess) -> list[Bind]:
    """What git needs in an execution root. `common` is what was found when the root was entered."""
    if access is GitAccess.MANAGE or (root == common.parent and common.name == ".git"):
        return _of_main_tree(common, access)
    admin = admin_dir(common, root)
    if admin is None:
        raise WorkspaceRefused(
            f"{root} is no longer a worktree of {common.parent}",
            hint='choose a workspace with UseWorkspace, for example workspace_id="agent_home"',
        )
    return _of_worktree(root, common, admin, access)


#: In a main tree's git folder: programs by name, programs, other trees' state, and where objects come from. What is
#: absent is made, empty, because otherwise the command could make it.
_FOLDERS_IN_MAIN = ("hooks", "modules", "objects/info", "worktrees")
_FILES_IN_MAIN = ("config", "config.worktree")
#: What a commit in a worktree writes to in the shared git folder.
_SHARED_BY_WORKTREES = ("objects", "refs", "logs", "reftable")
_FILES_IN_WORKTREE = ("commondir", "gitdir", "config.worktree")


def set_aside(common: Path) -> Path | None:
    """Moves away what would make git take a main tree's configuration from elsewhere; where to, if it was there."""
    planted = common / "commondir"
    if not os.path.lexists(planted):
        return None
    aside = common / f"commondir.set-aside-{time.time_ns()}"
    try:
        planted.rename(aside)
    except FileNotFoundError:
        return None
    return aside


def _of_main_tree(common: Path, access: GitAccess) -> list[Bind]:
    if os.path.lexists(common / "commondir"):
        raise WorkspaceRefused(
            f"{common / 'commondir'} makes git take its configuration from elsewhere; a main tree has no such file",
            hint="an operator looks into it and removes it",
        )
    if access is GitAccess.READ:
        return [Bind(common, writable=False)]
    for name in _FOLDERS_IN_MAIN:
        (common / name).mkdir(exist_ok=True)
    for name in _FILES_IN_MAIN:
        _make_empty(common / name)
    folders = [name for name in _FOLDERS_IN_MAIN if name != "worktrees" or access is not GitAccess.MANAGE]
    fixed = _existing(common, (*folders, *_FILES_IN_MAIN), writable=False)
    return [Bind(common, writable=True), *fixed]


def _of_worktree(root: Path, common: Path, admin: Path, access: GitAccess) -> list[Bind]:
    readable = [Bind(common, writable=False), *_existing(root, (".git",), writable=False)]
    if access is GitAccess.READ:
        return readable
    (common / "logs").mkdir(exist_ok=True)
    _make_empty(admin / "config.worktree")
    return [
        *readable,
        *_existing(common, _SHARED_BY_WORKTREES, writable=True),
        *_existing(common, ("objects/info",), writable=False),
        Bind(admin, writable=True),
        *_existing(admin, _FILES_IN_WORKTREE, writable=False),
    ]


def _make_empty(file: Path) -> None:
    """What is there stays as it is, also a link: it is looked at later, and never followed."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _existing(folder: Path, names: Iterable[str], *, writable: bool) -> list[Bind]:
    """Only plain files and folders: a link put there would open what it leads to."""
    found = []
    for name in names:
        path = folder / name
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or real(path) != path:
            raise WorkspaceRefused(
                f"{path} is a link or something else that no repository has there",
                hint="an operator looks into it and removes it",
            )
        found.append(Bind(path, writable))
    return found
