"""Overseeing: an agent's view of its tasks, and its word to them. Every task has one owner; nobody else's is shown.

Tools come with the context of a call; operators name the agent, and get records instead of text for a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holon.core.agents import AgentStatus
from holon.core.codec import Record, dumps, to_plain
from holon.core.errors import AgentError, HolonError, NotFound
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    Priority,
    SystemOrigin,
    TextBody,
)
from holon.core.tasks import (
    CommandRecovery,
    InputTarget,
    TaskKind,
    TaskOutputResult,
    TaskRecord,
    TaskStatus,
    TaskStatusSnapshot,
)
from holon.core.transitions import Transition
from holon.runtime.admission import Admission, admit, require_agent
from holon.runtime.archiving import archive
from holon.runtime.command_tasks import CommandTasks
from holon.runtime.isolation import Isolation
from holon.runtime.sleeping import cancel_sleep
from holon.runtime.standing import with_status
from holon.runtime.supervising import STOPPED, end_child_task, shown, worktree_of
from holon.runtime.task_views import child_of, is_over, output_of, snapshot_of
from holon.runtime.waking import WakeRequest, wake
from holon.store import Store, Tx, agents, tasks
from holon.tasks.snapshots import list_entry
from holon.tools.registry import CallContext, ToolOutcome
from holon.tools.tasking import ListInput, OutputInput, SendInput, StopInput, TaskInputs

POLL_S = 0.05
WORKTREES_SHOWN = 500
CHILD_IS_DONE = "the child's work is over"
A_REST_IS_DEAF = "a rest takes no input: TaskStop ends it"
REST_ENDED = "the operator ended the rest before its time"


class UnknownTask(AgentError):
    code = "unknown_task"
    status = 404


class TaskRef(Record, frozen=True, kw_only=True, omit_defaults=False):
    task_id: str
    kind: TaskKind
    status: TaskStatus


class InputReceipt(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Whether a task took what was said to it, and how."""

    task: TaskRef
    accepted_input: bool
    input_target: InputTarget | None
    bytes_written: int
    summary_text: str


class StopReceipt(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Whether a task was asked to end; one that was over is not."""

    task: TaskStatusSnapshot
    stop_requested: bool
    force_stop_requested: bool


class OwnedWorktree(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A worktree, as the artifact of the task that owns it."""

    task_id: str
    task_status: TaskStatus
    summary: str | None
    worktree: dict[str, Any]


class Overseer:
    def __init__(
        self,
        store: Store,
        commands: CommandTasks,
        isolation: Isolation,
        limits: Limits,
        kick: Callable[[str], None],
        abort_live: Callable[[str], None],
    ) -> None:
        self._store, self._commands, self._isolation, self._limits = store, commands, isolation, limits
        self._kick, self._abort_live = kick, abort_live

    async def listing(self, context: CallContext, _asked: ListInput) -> ToolOutcome:
        live = await self._store.read(lambda tx: tasks.live(tx, context.agent.agent_id))
        entries = [to_plain(list_entry(task)) for task in live]
        return ToolOutcome(content=dumps({"ok": True, "tasks": entries}), summary=f"{len(entries)} tasks")

    async def status(self, context: CallContext, asked: TaskInputs) -> ToolOutcome:
        shown = await self._store.read(lambda tx: snapshot_of(tx, _own(tx, context, asked.task_id)))
        content = dumps({"ok": True, "task": to_plain(shown)})
        return ToolOutcome(content=content, summary=f"{shown.task_id} is {shown.status}")

    async def output(self, context: CallContext, asked: OutputInput) -> ToolOutcome:
        """With `block` it waits inside the turn; meanwhile the agent's status says so."""
        task = await self._store.read(lambda tx: _own(tx, context, asked.task_id))
        if asked.block and not task.status.terminal:
            await self._mark_waiting(context.agent.agent_id)
        result = await self._output_of(task, asked.timeout_ms if asked.block else None)
        return ToolOutcome(
            content=dumps({"ok": True, **to_plain(result)}), summary=f"{task.id}: {result.retrieval_status}"
        )

    async def send(self, context: CallContext, asked: SendInput) -> ToolOutcome:
        task = await self._store.read(lambda tx: _own(tx, context, asked.task_id))
        if task.kind is not TaskKind.CHILD_AGENT_TASK:
            return _told(await self._type_into(task, asked.input))
        if task.status.terminal:
            return _told(_receipt(task, CHILD_IS_DONE, None, 0))
        told = _told(_receipt(task, None, InputTarget.CHILD_FOLLOWUP, len(asked.input.encode())))

        async def after() -> None:
            self._kick(child_of(task))

        return ToolOutcome(
            content=told.content,
            summary=told.summary,
            effect=lambda tx: self._tell_child(tx, task, asked.input),
            after=after,
        )

    async def stop(self, context: CallContext, asked: StopInput) -> ToolOutcome:
        task = await self._store.read(lambda tx: _own(tx, context, asked.task_id))
        receipt = await self._stop(task, force=asked.force, by_owner=True)
        summary = f"{task.id}: {'asked to end' if receipt.stop_requested else 'was over'}"
        return ToolOutcome(content=dumps({"ok": True, **to_plain(receipt)}), summary=summary)

    async def look(self, agent_id: str, task_id: str) -> TaskStatusSnapshot:
        """The operator's `TaskStatus`."""
        return await self._store.read(lambda tx: snapshot_of(tx, _named(tx, agent_id, task_id)))

    async def read_output(self, agent_id: str, task_id: str, *, wait_ms: int | None = None) -> TaskOutputResult:
        """The operator's `TaskOutput`. It may wait for the end, which is nothing to the agent."""
        task = await self._store.read(lambda tx: _named(tx, agent_id, task_id))
        return await self._output_of(task, wait_ms)

    async def say(self, agent_id: str, task_id: str, text: str) -> InputReceipt:
        """The operator's `TaskInput`."""
        task = await self._store.read(lambda tx: _named(tx, agent_id, task_id))
        if task.kind is not TaskKind.CHILD_AGENT_TASK:
            return await self._type_into(task, text)
        if task.status.terminal:
            return _receipt(task, CHILD_IS_DONE, None, 0)
        await self._store.write(lambda tx: self._tell_child(tx, task, text), at=Transition.MESSAGE_ADMIT)
        self._kick(child_of(task))
        return _receipt(task, None, InputTarget.CHILD_FOLLOWUP, len(text.encode()))

    async def end(self, agent_id: str, task_id: str, *, force: bool = False) -> StopReceipt:
        """The operator's `TaskStop`."""
        task = await self._store.read(lambda tx: _named(tx, agent_id, task_id))
        return await self._stop(task, force=force, by_owner=False)

    async def worktrees(self, agent_id: str) -> list[OwnedWorktree]:
        """The worktrees of an agent's tasks, newest first: those in use, those kept for review, those that went."""

        def read(tx: Tx) -> list[OwnedWorktree]:
            require_agent(tx, agent_id)
            return [
                OwnedWorktree(task_id=task.id, task_status=task.status, summary=task.summary, worktree=shown(worktree))
                for task in tasks.of_agent(tx, agent_id, limit=WORKTREES_SHOWN)
                if (worktree := worktree_of(task)) is not None
            ]

        return await self._store.read(read)

    async def remove_worktree(self, agent_id: str, task_id: str, *, discard: bool = False) -> TaskStatusSnapshot:
        """The operator's word on a worktree that was kept for review."""
        await self._store.read(lambda tx: _named(tx, agent_id, task_id))
        task = await self._isolation.remove(agent_id, task_id, discard=discard)
        return await self._store.read(lambda tx: snapshot_of(tx, task))

    async def stop_child(self, task: TaskRecord) -> bool:
        """Ends a child and everything below it, the deepest first, and clears the worktree that its task owns."""
        child_id = child_of(task)

        def step(tx: Tx) -> bool:
            """Whether it is over; not as long as it has children of its own."""
            if any(below.kind is TaskKind.CHILD_AGENT_TASK for below in tasks.live(tx, child_id)):
                return False
            if (stored := agents.get(tx, child_id)) is not None:
                agents.save_state(tx, archive(tx, stored.state, STOPPED))
            current = tasks.get(tx, task.id)
            if current is not None and not current.status.terminal:
                end_child_task(tx, current, TaskStatus.CANCELLED, STOPPED, self._limits)
            return True

        while True:
            for below in await self._store.read(lambda tx: tasks.live(tx, child_id)):
                if below.kind is TaskKind.CHILD_AGENT_TASK:
                    await self.stop_child(below)
            if await self._store.write(step, at=Transition.TASK_END):
                break
        self._abort_live(child_id)
        await self._isolation.quieten(child_id)
        await self._isolation.cleared(task.id)
        self._kick(task.agent_id)
        return True

    async def _output_of(self, task: TaskRecord, wait_ms: int | None) -> TaskOutputResult:
        timed_out = False
        if wait_ms is not None and not is_over(task):
            task, timed_out = await self._until_over(task, wait_ms / 1000)
        return await asyncio.to_thread(output_of, task, timed_out)

    async def _type_into(self, task: TaskRecord, text: str) -> InputReceipt:
        running, refusal, sent = self._commands.running.get(task.id), None, 0
        spec = task.recovery.spec if isinstance(task.recovery, CommandRecovery) else None
        if task.kind is TaskKind.SLEEP_JOB:
            refusal = A_REST_IS_DEAF
        elif task.status.terminal:
            refusal = "the task is over"
        elif running is None:
            refusal = "the command cannot be reached now: see TaskStatus, and try again later"
        else:
            try:
                sent = await running.send(text)
            except HolonError as error:
                refusal = str(error)
        target = None if refusal else (InputTarget.TTY if spec and spec.tty else InputTarget.STDIN)
        return _receipt(task, refusal, target, sent)

    async def _stop(self, task: TaskRecord, *, force: bool, by_owner: bool) -> StopReceipt:
        requested = False
        if not task.status.terminal:
            match task.kind:
                case TaskKind.CHILD_AGENT_TASK:
                    requested = await self.stop_child(task)
                case TaskKind.SLEEP_JOB:
                    requested = await self._end_rest(task, by_owner=by_owner)
                case TaskKind.COMMAND_TASK:
                    requested = await self._commands.stop(task.id, force=force)
        shown = await self._store.read(lambda tx: snapshot_of(tx, tasks.get(tx, task.id) or task))
        return StopReceipt(task=shown, stop_requested=requested, force_stop_requested=requested and force)

    async def _end_rest(self, job: TaskRecord, *, by_owner: bool) -> bool:
        """Whether this ended it. An agent that ends its own rest is awake; anybody else wakes it with that."""

        def step(tx: Tx) -> bool:
            if not cancel_sleep(tx, job, "ended by its agent" if by_owner else REST_ENDED):
                return False
            stored = agents.get(tx, job.agent_id)
            if not by_owner and stored is not None and stored.state.status is not AgentStatus.STOPPED:
                asked, told = WakeRequest(reason=REST_ENDED, causation_id=job.id), f"{REST_ENDED}: {job.summary}"
                wake(tx, stored, asked, self._limits, surface="task_stop", body=TextBody(text=told))
            return True

        ended = await self._store.write(step, at=Transition.TASK_END)
        self._kick(job.agent_id)
        return ended

    def _tell_child(self, tx: Tx, task: TaskRecord, text: str) -> None:
        """A follow-up for a child: a message of its own on the child's queue."""
        child_id = child_of(task)
        admit(
            tx,
            child_id,
            Admission(
                agent_id=child_id,
                kind=MessageKind.INTERNAL_FOLLOWUP,
                origin=SystemOrigin(subsystem="parent_followup"),
                body=TextBody(text=text),
                surface=DeliverySurface.RUNTIME_SYSTEM,
                context=AdmissionContext.RUNTIME_OWNED,
                priority=Priority.NEXT,
                causation_id=task.id,
                private=True,
            ),
            self._limits,
        )

    async def _mark_waiting(self, agent_id: str) -> None:
        def step(tx: Tx) -> None:
            stored = agents.get(tx, agent_id)
            if stored is not None and stored.state.status is AgentStatus.AWAKE_RUNNING:
                agents.save_state(tx, with_status(tx, stored.state, AgentStatus.AWAITING_TASK, "waits for a task"))

        await self._store.write(step, at=Transition.TASK_CHANGE)

    async def _until_over(self, task: TaskRecord, timeout_s: float) -> tuple[TaskRecord, bool]:
        task_id, deadline = task.id, asyncio.get_running_loop().time() + timeout_s
        while not is_over(task):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return task, True
            running = self._commands.running.get(task_id)
            if running is not None:
                await running.wait(left)
            await asyncio.sleep(min(POLL_S, left))
            if (now := await self._store.read(lambda tx: tasks.get(tx, task_id))) is None:
                raise UnknownTask(f"task {task_id!r} ended within its call", hint="the call's result has its output")
            task = now
        return task, False


def _own(tx: Tx, context: CallContext, task_id: str) -> TaskRecord:
    task = tasks.get(tx, task_id)
    if task is None or task.agent_id != context.agent.agent_id:
        raise UnknownTask(
            f"you have no task {task_id!r}", hint="TaskList shows the ones that you have", field="task_id"
        )
    return task


def _named(tx: Tx, agent_id: str, task_id: str) -> TaskRecord:
    require_agent(tx, agent_id)
    task = tasks.get(tx, task_id)
    if task is None or task.agent_id != agent_id:
        raise NotFound(
            f"agent {agent_id!r} has no task {task_id!r}",
            hint=f"'holon task list --agent {agent_id}' shows the ones that it has",
        )
    return task


def _receipt(task: TaskRecord, refusal: str | None, target: InputTarget | None, sent: int) -> InputReceipt:
    return InputReceipt(
        task=TaskRef(task_id=task.id, kind=task.kind, status=task.status),
        accepted_input=refusal is None,
        input_target=target,
        bytes_written=sent,
        summary_text=refusal or f"{sent} bytes delivered",
    )


def _told(receipt: InputReceipt) -> ToolOutcome:
    return ToolOutcome(content=dumps({"ok": True, **to_plain(receipt)}), summary=receipt.summary_text)
