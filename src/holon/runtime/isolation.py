"""Isolation: worktrees that the runtime makes. Noted before they are made; those of tasks are cleared by the runtime.

Behind every worktree of a task stands a live task, or an errand in the outbox. The errand is there before the worktree
is, goes in the transaction in which the task takes it over, and comes back in the one in which the task ends; so a kill
at any instant leaves somebody who will clear it. Clearing removes what is clean and keeps everything else for review.
One that an agent enters by itself (`UseWorkspace`) is the agent's from the transaction on in which it enters it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holon.core.agents import RegistryStatus
from holon.core.errors import Conflict, HolonError, NotFound
from holon.core.event_kinds import WorktreeCleanedUp, WorktreeCleanupFailed, WorktreeCreated, WorktreeRetained
from holon.core.events import EventPayload
from holon.core.limits import Limits
from holon.core.tasks import TaskKind, TaskRecord
from holon.core.transitions import Transition
from holon.core.turns import ToolCallStatus
from holon.core.values import Value
from holon.core.workspaces import AGENT_HOME, ActiveWorkspace, CleanupStatus, TaskWorktree, WorkspaceRefused
from holon.runtime.command_tasks import CommandTasks
from holon.runtime.supervising import CLEAR_WORKTREE, tell_parent, with_worktree, worktree_of
from holon.store import Store, Tx, agents, outbox, tasks, turns
from holon.store.outbox import Errand
from holon.tools.registry import CallContext
from holon.workspaces import worktrees
from holon.workspaces.git_cell import GitCell
from holon.workspaces.task_worktrees import GONE, clear
from holon.workspaces.worktrees import Worktree

log = logging.getLogger("holon.isolation")

#: How long a child that was ended may take to let go of its worktree before the errand is put off.
PATIENCE_S = 3.0
POLL_S = 0.02
#: The pauses between attempts to remove what could not be removed; after the last one it waits for a person.
RETRIES_MS = (1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000)


class Apart(Value, frozen=True):
    """A worktree that was made for somebody, and the errand that would clear it if nobody takes it over."""

    worktree: Worktree
    errand_id: str

    def take_over(self, tx: Tx, agent_id: str, turn_id: str) -> None:
        """In the transaction that makes the task, or enters it: from now on somebody answers for the worktree."""
        outbox.done(tx, self.errand_id)
        made = self.worktree
        tx.emit(agent_id, WorktreeCreated(path=str(made.path), branch=made.branch), turn_id=turn_id)


class Isolation:
    def __init__(
        self,
        store: Store,
        commands: CommandTasks,
        limits: Limits,
        kick: Callable[[str], None],
        cell_of: Callable[[Tx, str], GitCell | None],
    ) -> None:
        self._store, self._commands, self._limits, self._kick = store, commands, limits, kick
        #: Where git runs for an agent's sake; nowhere special for one that is not confined.
        self._cell_of = cell_of
        #: Tasks whose worktree is in the making in this process.
        self._making: set[str] = set()
        self._clearing: dict[str, asyncio.Task[None]] = {}
        #: Somebody asked to look since the last look began; somebody looks now.
        self._asked = self._looking = self._closing = False

    async def make(self, context: CallContext, active: ActiveWorkspace, task_id: str) -> Apart:
        """A worktree of the workspace's repository, on a branch of the task's own: all of it, or nothing."""
        root = Path(active.execution_root)
        _refuse_without_repository(active, root)
        return await self.branch_off(context, root, worktrees.task_branch(task_id), task_id)

    async def branch_off(self, context: CallContext, root: Path, branch: str, owner_id: str) -> Apart:
        """The same for any owner. Whoever called says when the making is over (`made`)."""
        path, common = await worktrees.place_of(root, branch)
        note = {
            "task_id": owner_id,
            "path": str(path),
            "branch": branch,
            "common_dir": str(common),
            "agent_id": context.agent.agent_id,
            "turn_id": context.turn_id,
            "call_id": context.call_id,
        }
        self._making.add(owner_id)
        errand_id = await self._store.write(
            lambda tx: outbox.put(tx, CLEAR_WORKTREE, note), at=Transition.WORKTREE_NOTE
        )
        try:
            async with self.confined(context.agent.agent_id, common, path, root, common.parent):
                return Apart(await worktrees.create(root, branch), errand_id)
        except BaseException:
            self.made(owner_id)
            raise

    def made(self, owner_id: str) -> None:
        """The making is over, whatever came of it."""
        self._making.discard(owner_id)
        self.look()

    def look(self) -> None:
        """There may be something to clear. Cheap, and safe to call too often."""
        self._asked = True
        if not self._looking and not self._closing:
            self._looking = True
            self._begin("look", self._look())

    async def run_errands(self) -> None:
        """Begins to clear what is due. What fails is tried again later."""
        for errand in await self._store.read(outbox.due):
            task_id = str(errand.payload.get("task_id"))
            if errand.topic == CLEAR_WORKTREE and task_id not in self._clearing:
                self._begin(task_id, self._clear(errand))

    async def cleared(self, task_id: str) -> None:
        """Waits until a task's worktree was looked at once, if it has one."""
        await self.run_errands()
        if (running := self._clearing.get(task_id)) is not None:
            await asyncio.wait({running})

    async def end_orphans(self) -> None:
        """After a restart: commands of agents that were archived meanwhile are nobody's, and end."""
        for record in await self._store.read(_orphaned_commands):
            await self._commands.stop(record.id, force=True)

    async def quieten(self, agent_id: str) -> bool:
        """Ends what an archived agent still runs; whether nothing of it is left."""
        deadline, asked = asyncio.get_running_loop().time() + PATIENCE_S, set[str]()
        while True:
            turn_id, left = await self._store.read(lambda tx: _running(tx, agent_id))
            if turn_id is None and not left:
                return True
            for record in left:
                if record.id not in asked and await self._commands.stop(record.id, force=True):
                    asked.add(record.id)
            if self._closing or asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(POLL_S)

    async def remove(self, agent_id: str, task_id: str, *, discard: bool = False) -> TaskRecord:
        """The operator's word on a worktree that was kept: removed if nothing is lost, or with all that is in it."""
        task = await self._store.read(lambda tx: tasks.get(tx, task_id))
        worktree = worktree_of(task) if task is not None and task.agent_id == agent_id else None
        if task is None or worktree is None:
            raise NotFound(
                f"agent {agent_id!r} has no task {task_id!r} with a worktree",
                hint=f"'holon task worktrees --agent {agent_id}' shows the ones that there are",
            )
        if not task.status.terminal or worktree.cleanup_status is CleanupStatus.PENDING:
            raise Conflict(
                f"the worktree of {task_id} is in use", hint=f"end its task first: holon task stop {task_id}"
            )
        if worktree.cleanup_status in GONE:
            return task
        async with self.confined(agent_id, Path(str(worktree.common_dir)), Path(worktree.worktree_path)):
            after = await clear(worktree, discard=discard)
        return await self._store.write(
            lambda tx: _settle(tx, task, after, self._limits, discarded=discard), at=Transition.WORKTREE_CLEARED
        )

    async def close(self) -> None:
        """Lets git end what it removes; what takes longer is left to the next start."""
        self._closing = True
        if clearing := set(self._clearing.values()):
            _, left = await asyncio.wait(clearing, timeout=PATIENCE_S)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    @asynccontextmanager
    async def confined(self, agent_id: str, common: Path, path: Path, *seen: Path) -> AsyncIterator[None]:
        """Git, as far as the agent's own commands would get."""
        cell = await self._store.read(lambda tx: self._cell_of(tx, agent_id))
        if cell is None:
            yield
            return
        with cell.around(common, path.parent, *seen):
            yield

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_logged(work))
        self._clearing[name] = task
        task.add_done_callback(lambda _: self._clearing.pop(name, None))

    async def _look(self) -> None:
        try:
            while self._asked:
                self._asked = False
                await self.run_errands()
        finally:
            self._looking = False

    async def _clear(self, errand: Errand) -> None:
        task_id = str(errand.payload["task_id"])
        task = await self._store.read(lambda tx: tasks.get(tx, task_id))
        if task is not None:
            await self._clear_owned(errand, task)
        elif task_id in self._making and await self._store.read(lambda tx: _may_come(tx, errand.payload)):
            await self._put_off(errand, RETRIES_MS[0])
        else:
            await self._clear_unowned(errand)

    async def _clear_owned(self, errand: Errand, task: TaskRecord) -> None:
        worktree = worktree_of(task)
        if worktree is None or not task.status.terminal or worktree.cleanup_status in GONE:
            # Taken over since the errand was read, or removed by a person between two attempts.
            await self._store.write(lambda tx: outbox.done(tx, errand.id), at=Transition.WORKTREE_CLEARED)
            return
        if not await self.quieten(str((task.detail or {}).get("child_agent_id"))):
            await self._put_off(errand, RETRIES_MS[0])
            return
        async with self.confined(task.agent_id, Path(str(worktree.common_dir)), Path(worktree.worktree_path)):
            after = await clear(worktree)

        def step(tx: Tx) -> None:
            _settle(tx, task, after, self._limits)
            if after.cleanup_status is CleanupStatus.FAILED and errand.attempts < len(RETRIES_MS):
                outbox.postpone(tx, errand.id, RETRIES_MS[errand.attempts])
            else:
                outbox.done(tx, errand.id)

        await self._store.write(step, at=Transition.WORKTREE_CLEARED)
        self._kick(task.agent_id)

    async def _clear_unowned(self, errand: Errand) -> None:
        """Its task never came about, and nobody was told of it: there is nothing in it to be kept."""
        note = errand.payload
        path, common = Path(note["path"]), Path(note["common_dir"])
        async with self.confined(str(note.get("agent_id")), common, path):
            cleanup = await worktrees.discard(path, common_dir=common, branch=str(note["branch"]))
        if cleanup.status is CleanupStatus.FAILED:
            log.warning("worktree %s of no task is still there: %s", note["path"], cleanup.reason)
            await self._put_off(errand, RETRIES_MS[min(errand.attempts, len(RETRIES_MS) - 1)])
        else:
            await self._store.write(lambda tx: outbox.done(tx, errand.id), at=Transition.WORKTREE_CLEARED)

    async def _put_off(self, errand: Errand, by_ms: int) -> None:
        await self._store.write(lambda tx: outbox.postpone(tx, errand.id, by_ms), at=Transition.WORKTREE_CLEARED)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except HolonError as error:
        log.error("%s", error)
    except Exception:
        log.exception("a worktree could not be looked at; it is tried again")


def _settle(tx: Tx, before: TaskRecord, after: TaskWorktree, limits: Limits, *, discarded: bool = False) -> TaskRecord:
    """What became of a worktree, on the record of its task; its owner hears of the task's end with it, once."""
    task = tasks.get(tx, before.id) or before
    known = worktree_of(task)
    task = with_worktree(task, after, tx.now_ms)
    tasks.save(tx, task)
    if known != after:
        tx.emit(task.agent_id, _event(task.id, after, discarded))
    if known is None or known.cleanup_status is CleanupStatus.PENDING:
        tell_parent(tx, task, limits)
    return task


def _event(task_id: str, worktree: TaskWorktree, discarded: bool) -> EventPayload:
    path, branch = worktree.worktree_path, worktree.worktree_branch
    reason = worktree.cleanup_reason or "it is not known why"
    match worktree.cleanup_status:
        case CleanupStatus.RETAINED:
            files = worktree.changed_file_count
            return WorktreeRetained(task_id=task_id, path=path, branch=branch, reason=reason, changed_files=files)
        case CleanupStatus.FAILED:
            return WorktreeCleanupFailed(task_id=task_id, path=path, branch=branch, reason=reason)
        case _:
            return WorktreeCleanedUp(task_id=task_id, path=path, branch=branch, discarded=discarded)


def _may_come(tx: Tx, note: dict[str, Any]) -> bool:
    """Whether the call that makes the worktree can still commit."""
    calls = turns.calls(tx, str(note["turn_id"]))
    return any(call.call_id == note["call_id"] and call.status is ToolCallStatus.BEGUN for call in calls)


def _running(tx: Tx, agent_id: str) -> tuple[str | None, list[TaskRecord]]:
    """The turn and the commands that an agent has under way."""
    stored = agents.get(tx, agent_id)
    live = [task for task in tasks.live(tx, agent_id) if task.kind is TaskKind.COMMAND_TASK]
    return stored.state.current_turn_id if stored else None, live


def _orphaned_commands(tx: Tx) -> list[TaskRecord]:
    return [
        record
        for record in tasks.live_commands(tx)
        if (owner := agents.get(tx, record.agent_id)) is None or owner.identity.status is RegistryStatus.ARCHIVED
    ]


def _refuse_without_repository(active: ActiveWorkspace, root: Path) -> None:
    if active.workspace_id == AGENT_HOME or not os.path.lexists(root / ".git"):
        raise WorkspaceRefused(
            f"your workspace {root} is no git repository, so there is nothing to make a worktree of",
            hint="enter a repository first with UseWorkspace(path=...), or spawn with workspace_mode 'inherit'",
            field="workspace_mode",
        )
