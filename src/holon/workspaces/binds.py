"""Binds: which folders a confined command sees, and which of them it may write.

A repository needs care. Its git folder must be writable for commits, but some files in it name programs that git runs
for whoever uses the repository next, outside of any confinement. Those stay read-only, each under a mount of its own so
that it cannot be moved away either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holon.core.workspaces import WorkspaceRefused
from holon.workspaces.places import real
from holon.workspaces.worktree_status import admin_dir


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


def of_repository(root: Path, common: Path) -> list[Bind]:
    """What git needs in an execution root. `common` is what was found when the root was entered."""
    if root == common.parent and common.name == ".git":
        return _of_main_tree(common)
    admin = admin_dir(common, root)
    if admin is None:
        raise WorkspaceRefused(
            f"{root} is no longer a worktree of {common.parent}",
            hint='choose a workspace with UseWorkspace, for example workspace_id="agent_home"',
        )
    return _of_worktree(root, common, admin)


#: In a main tree's git folder: programs by name, programs, other trees' state, and where objects come from.
_FIXED_IN_MAIN = ("config", "config.worktree", "hooks", "modules", "worktrees", "objects/info")
#: What a commit in a worktree writes to in the shared git folder.
_SHARED_BY_WORKTREES = ("objects", "refs", "logs", "reftable")
_FIXED_IN_WORKTREE = ("commondir", "gitdir", "config.worktree")


def _of_main_tree(common: Path) -> list[Bind]:
    if os.path.lexists(common / "commondir"):
        raise WorkspaceRefused(
            f"{common / 'commondir'} makes git take its configuration from elsewhere; a main tree has no such file",
            hint="an operator looks into it and removes it",
        )
    (common / "hooks").mkdir(exist_ok=True)  # an absent folder could be made by the command
    return [Bind(common, writable=True), *_existing(common, _FIXED_IN_MAIN, writable=False)]


def _of_worktree(root: Path, common: Path, admin: Path) -> list[Bind]:
    (common / "logs").mkdir(exist_ok=True)
    return [
        Bind(common, writable=False),
        *_existing(common, _SHARED_BY_WORKTREES, writable=True),
        *_existing(common, ("objects/info",), writable=False),
        Bind(admin, writable=True),
        *_existing(admin, _FIXED_IN_WORKTREE, writable=False),
        *_existing(root, (".git",), writable=False),
    ]


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
