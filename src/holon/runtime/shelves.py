"""Shelves: the managed worktrees beside the repositories of an agent, whoever made them, and the operator's way to
remove one. An agent that leaves a worktree takes nothing away; so it stays to be seen here, until somebody decides."""

from __future__ import annotations

from pathlib import Path

from holon.core.codec import Record
from holon.core.errors import Conflict, NotFound
from holon.core.event_kinds import WorktreeCleanedUp
from holon.core.transitions import Transition
from holon.core.workspaces import AGENT_HOME, CleanupStatus, WorkspaceRefused
from holon.runtime.admission import require_agent
from holon.runtime.isolation import Isolation
from holon.runtime.supervising import worktree_of
from holon.store import Store, Tx, agents, tasks, workspaces
from holon.workspaces import anchors, worktrees
from holon.workspaces.task_worktrees import GONE


class ShelvedWorktree(Record, frozen=True, kw_only=True, omit_defaults=False):
    workspace_id: str
    path: str
    #: None where its head is detached.
    branch: str | None
    #: Its folder is there.
    exists: bool
    #: Where the repository keeps its data.
    common_dir: str
    #: The agents that work in it now, and the task that it was made for.
    used_by: list[str]
    task_id: str | None


class ShelvedOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    path: str
    branch: str
    cleanup_status: CleanupStatus
    #: Why it was kept.
    reason: str | None


class Shelves:
    def __init__(self, store: Store, isolation: Isolation) -> None:
        self._store, self._isolation = store, isolation

    async def look(self, agent_id: str) -> list[ShelvedWorktree]:
        """Of every repository that is attached to the agent, by path."""
        found = await self._store.read(lambda tx: _anchors(tx, agent_id))
        standing = [
            (key, common, each)
            for key, anchor, common in _repositories(found)
            for each in worktrees.managed(anchor, common)
        ]
        return await self._store.read(lambda tx: [_shown(tx, *each) for each in standing])

    async def remove(self, agent_id: str, path: Path, *, discard: bool = False) -> ShelvedOutcome:
        """Removed with its branch if nothing is lost, or with all that is in it. Not while somebody works in it."""
        shown = next((each for each in await self.look(agent_id) if each.path == str(path)), None)
        if shown is None:
            raise NotFound(
                f"{path} is no managed worktree of a repository of agent {agent_id!r}",
                hint=f"'holon workspace worktrees --agent {agent_id}' shows the ones that there are",
            )
        if shown.task_id is not None:
            raise Conflict(f"{path} belongs to a task", hint=f"'holon task remove-worktree {shown.task_id}' removes it")
        if shown.used_by or shown.branch is None:
            reason = f"agent {shown.used_by[0]!r} works in it" if shown.used_by else "its head is detached"
            raise Conflict(
                f"{path} stays: {reason}",
                hint="let the agent work elsewhere first: holon workspace use --id agent_home"
                if shown.used_by
                else "git switch to a branch in it, or remove it with git",
            )
        branch, common = shown.branch, Path(shown.common_dir)
        async with self._isolation.confined(agent_id, common, path):
            if discard:
                cleanup = await worktrees.discard(path, common_dir=common, branch=branch)
            else:
                cleanup = await worktrees.remove_if_clean(path, common_dir=common, branch=branch)
        if cleanup.status in GONE:
            told = WorktreeCleanedUp(path=shown.path, branch=branch, discarded=discard)
            await self._store.write(lambda tx: tx.emit(agent_id, told), at=Transition.WORKTREE_CLEARED)
        return ShelvedOutcome(path=shown.path, branch=branch, cleanup_status=cleanup.status, reason=cleanup.reason)


def _anchors(tx: Tx, agent_id: str) -> list[tuple[str, Path]]:
    attached = require_agent(tx, agent_id, private=True).state.attached_workspaces
    entries = [entry for key in attached if key != AGENT_HOME and (entry := workspaces.get(tx, key))]
    return [(entry.workspace_id, Path(entry.workspace_anchor)) for entry in entries]


def _repositories(found: list[tuple[str, Path]]) -> list[tuple[str, Path, Path]]:
    """Those that are still there."""
    repositories = []
    for key, anchor in found:
        try:
            common = anchors.detect(anchor).git_common_dir
        except WorkspaceRefused:
            continue
        if common is not None:
            repositories.append((key, anchor, common))
    return repositories


def _shown(tx: Tx, workspace_id: str, common: Path, each: worktrees.Shelved) -> ShelvedWorktree:
    owner = (each.branch or "").removeprefix("holon/")
    task = tasks.get(tx, owner) if owner.startswith("task_") else None
    return ShelvedWorktree(
        workspace_id=workspace_id,
        path=str(each.path),
        branch=each.branch,
        exists=each.path.is_dir(),
        common_dir=str(common),
        used_by=agents.working_in(tx, str(each.path)),
        task_id=task.id if task is not None and worktree_of(task) is not None else None,
    )
