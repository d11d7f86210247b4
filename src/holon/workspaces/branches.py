"""Branches: the names under which isolated work is kept, and where its worktrees stand."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from holon.workspaces.git_problems import GitFailed, GitProblem

_LONGEST = 200


def task_branch(task_id: str) -> str:
    """A branch for one task's worktree: the task's id is unique, so the branch is."""
    return f"holon/{_plain(task_id)}"


def session_branch(agent_id: str) -> str:
    """A branch for an agent that asked for isolation: a new one each time."""
    return f"holon/{_plain(agent_id)}-{secrets.token_hex(4)}"


def shelf(anchor: Path) -> Path:
    """The folder beside a repository that holds its managed worktrees."""
    return anchor.parent / f".holon-worktrees-{anchor.name}"


def placed(anchor: Path, branch: str) -> Path:
    """Where the managed worktree of a branch stands."""
    return shelf(anchor) / re.sub(r"[/\\\s]", "-", branch)


def check_name(branch: str) -> None:
    """Refuses what git refuses, and what git would take for an option or for something else than a new branch."""
    if (
        branch in ("", "@", "HEAD")
        or len(branch.encode(errors="surrogateescape")) > _LONGEST
        or branch.startswith("-")
        or re.search(r"[\x00-\x20\x7f\ud800-\udfff~^:?*\[\\]|\.\.|@\{", branch)
        or any(not part or part.startswith(".") or part.endswith((".lock", ".")) for part in branch.split("/"))
    ):
        raise GitFailed(
            GitProblem.INVALID_BRANCH,
            f"{branch[:_LONGEST]!r} is no valid branch name",
            hint="use letters, digits, '-', '_', '.' and '/'",
        )


def _plain(name: str) -> str:
    """A part of a branch name: what may not stand in one becomes a dash."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "unnamed"
