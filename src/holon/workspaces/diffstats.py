"""Diff stats: how much a worktree differs from the commit that it began with, as git counts it."""

from __future__ import annotations

from pathlib import Path

from holon.workspaces.git import Repository, git, own_filters
from holon.workspaces.git_problems import GitFailed
from holon.workspaces.worktree_status import STATUS_TIMEOUT_S, standing

_CHARS = 2_000


async def diff_stat(path: Path, *, common_dir: Path, base_commit: str) -> str | None:
    """Changed lines by file, and how many files git does not know yet. `None` where git cannot say."""
    found = standing(path, common_dir)
    if found.admin is None or not found.exists:
        return None
    where = Repository(git_dir=found.admin, work_tree=path)
    try:
        filters = await own_filters(where)
        counted = await git(
            where,
            *("diff", "--stat=100", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"),
            base_commit,
            timeout_s=STATUS_TIMEOUT_S,
            config=filters,
        )
        new = await git(
            where,
            *("ls-files", "--others", "--exclude-standard", "-z"),
            timeout_s=STATUS_TIMEOUT_S,
            config=filters,
        )
    except GitFailed:
        return None
    lines = [line.rstrip() for line in counted.splitlines() if line.strip()]
    unknown = new.count("\0")
    if unknown:
        lines.append(f" {unknown} new {'file' if unknown == 1 else 'files'} not yet in git")
    text = "\n".join(lines)
    return f"{text[:_CHARS]}\n…\n{lines[-1]}" if len(text) > _CHARS else text
