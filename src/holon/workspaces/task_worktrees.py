"""Task worktrees: the end of a worktree that a task owns, and what its record says of it from then on."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from holon.core.workspaces import CleanupStatus, TaskWorktree
from holon.workspaces import worktrees
from holon.workspaces.diffstats import diff_stat

#: How many changed files a record names; it counts all of them.
NAMED_FILES = 100
GONE = (CleanupStatus.REMOVED, CleanupStatus.ALREADY_REMOVED)


async def clear(worktree: TaskWorktree, *, discard: bool = False) -> TaskWorktree:
    """Removes it with its branch if nothing is lost (`discard`: whatever is lost); else it is kept, and described."""
    path, common = Path(worktree.worktree_path), Path(str(worktree.common_dir))
    if _nothing_left(path, common):
        return _after(worktree, CleanupStatus.ALREADY_REMOVED)
    if discard:
        cleanup = await worktrees.discard(path, common_dir=common, branch=worktree.worktree_branch)
    else:
        cleanup = await worktrees.remove_if_clean(
            path, common_dir=common, branch=worktree.worktree_branch, base_commit=worktree.base_commit
        )
    worktree = _after(worktree, cleanup.status, cleanup.reason)
    if cleanup.state is not None:
        changed = cleanup.state.changed_files
        worktree = msgspec.structs.replace(
            worktree, changed_files=list(changed[:NAMED_FILES]), changed_file_count=len(changed)
        )
    if worktree.cleanup_status is CleanupStatus.RETAINED:
        stat = await diff_stat(path, common_dir=common, base_commit=worktree.base_commit)
        worktree = msgspec.structs.replace(worktree, diff_stat=stat)
    return worktree


def _nothing_left(path: Path, common: Path) -> bool:
    """The whole project is gone."""
    return not common.is_dir() and not os.path.lexists(path)


def _after(worktree: TaskWorktree, status: CleanupStatus, reason: str | None = None) -> TaskWorktree:
    return msgspec.structs.replace(worktree, cleanup_status=status, cleanup_reason=reason)
