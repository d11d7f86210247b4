"""Workspaces: the projects an agent may work on, the folder it works in now, and the worktree it may be in.

An anchor is a project's lasting identity. An execution root is the concrete folder that tools act in: the anchor
itself, or a git worktree of it. A managed worktree changes the root and never the anchor. Every agent has exactly one
active workspace, and that is its own home where it has chosen nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from holon.core.codec import Record
from holon.core.errors import AgentError

#: The workspace that is always there. It cannot be left for nothing and cannot be detached.
AGENT_HOME = "agent_home"


class WorkspaceRefused(AgentError):
    """A workspace cannot be chosen, entered or detached as it was asked for."""

    code = "workspace_refused"


class WorkspaceKind(StrEnum):
    AGENT_HOME = "agent_home"
    GIT_REPOSITORY = "git_repository"
    DIRECTORY = "directory"


class ProjectionKind(StrEnum):
    """What an execution root is: the project's own folder, or a worktree of it."""

    CANONICAL_ROOT = "canonical_root"
    GIT_WORKTREE_ROOT = "git_worktree_root"


class AccessMode(StrEnum):
    """How a root is held among agents. Kept by the runtime; no tool takes or shows it."""

    SHARED_READ = "shared_read"
    EXCLUSIVE_WRITE = "exclusive_write"


class WorkspaceMode(StrEnum):
    """What `UseWorkspace` may be asked for."""

    DIRECT = "direct"
    ISOLATED = "isolated"


class CleanupStatus(StrEnum):
    """What became of a task's worktree."""

    PENDING = "pending"
    REMOVED = "removed"
    ALREADY_REMOVED = "already_removed"
    RETAINED = "retained"
    FAILED = "failed"


class WorkspaceEntry(Record, frozen=True, kw_only=True):
    """A workspace that the host knows."""

    workspace_id: str
    workspace_anchor: str
    created_at: datetime
    updated_at: datetime
    workspace_alias: str | None = None
    workspace_kind: WorkspaceKind | None = None
    owner_agent_id: str | None = None
    repo_name: str | None = None


class ActiveWorkspace(Record, frozen=True, kw_only=True):
    """The execution root that an agent has entered."""

    workspace_id: str
    workspace_anchor: str
    execution_root_id: str
    execution_root: str
    projection_kind: ProjectionKind
    access_mode: AccessMode
    cwd: str
    occupancy_id: str | None = None
    #: Where the repository keeps its data, as it was found when the root was entered. Later nothing that the agent
    #: could have written is asked for it.
    git_common_dir: str | None = None


class WorktreeSession(Record, frozen=True, kw_only=True):
    """The managed worktree that an agent is in, and where it came from. It outlives a restart."""

    original_cwd: str
    original_branch: str
    worktree_path: str
    worktree_branch: str


class TaskWorktree(Record, frozen=True, kw_only=True):
    """A worktree as an artifact of the task that owns it: what a reviewer needs to find, read and clear it."""

    worktree_path: str
    worktree_branch: str
    base_commit: str
    #: The first of them; `changed_file_count` says how many there are.
    changed_files: list[str] = msgspec.field(default_factory=list)
    changed_file_count: int = 0
    #: What git counts of the changes, against the commit that it began with.
    diff_stat: str | None = None
    cleanup_status: CleanupStatus = CleanupStatus.PENDING
    #: Why it was kept, or what failed.
    cleanup_reason: str | None = None
    #: Where the repository keeps its data: asked instead of the worktree, which its agent can write.
    common_dir: str | None = None

    @property
    def retained_for_review(self) -> bool:
        return self.cleanup_status in (CleanupStatus.RETAINED, CleanupStatus.FAILED)

    @property
    def auto_cleaned_up(self) -> bool:
        return self.cleanup_status in (CleanupStatus.REMOVED, CleanupStatus.ALREADY_REMOVED)


def check_selector(path: str | None, workspace_id: str | None) -> None:
    """`UseWorkspace` takes exactly one of the two."""
    if (path is None) == (workspace_id is None):
        given = "neither path nor workspace_id" if path is None else "both path and workspace_id"
        raise WorkspaceRefused(
            f"UseWorkspace was given {given}",
            hint=f"give exactly one: a path to look at, or the id of an attached workspace ({AGENT_HOME!r} for home)",
            field="path",
        )


def attach(attached: Sequence[str], workspace_id: str) -> list[str]:
    """The agent's set with this workspace in it. Home is always at hand and never in the set."""
    known = [each for each in attached if each != AGENT_HOME]
    return known if workspace_id in (AGENT_HOME, *known) else [*known, workspace_id]


def check_attached(attached: Sequence[str], workspace_id: str) -> None:
    """An id can be entered only where it was attached before; only a path is searched for."""
    if workspace_id != AGENT_HOME and workspace_id not in attached:
        raise WorkspaceRefused(
            f"workspace {workspace_id!r} is not attached to this agent",
            hint="use one of: " + ", ".join([AGENT_HOME, *attached]) + "; or attach another one by its path",
            field="workspace_id",
        )


def detach(attached: Sequence[str], active_id: str, workspace_id: str | None) -> list[str]:
    """The agent's set without this workspace. Nothing is looked up: what no longer exists can be detached as well."""
    if not workspace_id:
        raise WorkspaceRefused(
            "DetachWorkspace needs a workspace_id", hint="name the workspace to detach", field="workspace_id"
        )
    if workspace_id == AGENT_HOME:
        raise WorkspaceRefused(
            "the agent's home cannot be detached: it is where the agent is when nothing else is chosen",
            hint="detach another workspace",
            field="workspace_id",
        )
    if workspace_id == active_id:
        raise WorkspaceRefused(
            f"workspace {workspace_id!r} is active and cannot be detached",
            hint=f"switch first, for example with UseWorkspace(workspace_id={AGENT_HOME!r})",
            field="workspace_id",
        )
    check_attached(attached, workspace_id)
    return [each for each in attached if each != workspace_id]
