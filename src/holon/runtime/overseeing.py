"""Overseeing: an agent's view of its tasks, and its word to them. Every task has one owner; nobody else's is shown.

Tools come with the context of a call; operators name the agent, and get records instead of text for a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holon.core.agents import AgentStatus
from holon.core.codec import Record, dumps, from_plain, to_plain
from holon.core.errors import AgentError, HolonError, NotFound
from holon.core.failures import FailureArtifact
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
    CommandTaskStatusSnapshot,
    InputTarget,
    RetrievalStatus,
    TaskKind,
    TaskListEntry,
    TaskOutputResult,
    TaskOutputSnapshot,
    TaskRecord,
    TaskStatus,
    TaskStatusSnapshot,
    WaitPolicy,
)
from holon.core.transitions import Transition
from holon.runtime.admission import Admission, admit, require_agent
from holon.runtime.command_tasks import CommandTasks
from holon.runtime.standing import with_status
from holon.runtime.supervising import archive_child, end_child_task, observe, supervision_of
from holon.store import Store, Tx, agents, tasks
from holon.tasks import outputs
from holon.tools.registry import CallContext, ToolOutcome
from holon.tools.tasking import ListInput, OutputInput, SendInput, StopInput, TaskInputs

PREVIEW_CHARS = 8_000
POLL_S = 0.05
CHILD_IS_DONE = "the child's work is over"


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


class Overseer:
    def __init__(
        self,
        store: Store,
        commands: CommandTasks,
        limits: Limits,
        kick: Callable[[str], None],
        abort_live: Callable[[str], None],
    ) -> None:
        self._store, self._commands, self._limits = store, commands, limits
        self._kick, self._abort_live = kick, abort_live

    async def listing(self, context: CallContext, _asked: ListInput) -> ToolOutcome:
        live = await self._store.read(lambda tx: tasks.live(tx, context.agent.agent_id))
        entries = [to_plain(_entry(task)) for task in live]
        return ToolOutcome(content=dumps({"ok": True, "tasks": entries}), summary=f"{len(entries)} tasks")

    async def status(self, context: CallContext, asked: TaskInputs) -> ToolOutcome:
        shown = await self._store.read(lambda tx: _snapshot(tx, _own(tx, context, asked.task_id)))
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
            self._kick(_child_of(task))

        return ToolOutcome(
            content=told.content,
            summary=told.summary,
            effect=lambda tx: self._tell_child(tx, task, asked.input),
            after=after,
        )

    async def stop(self, context: CallContext, asked: StopInput) -> ToolOutcome:
        task = await self._store.read(lambda tx: _own(tx, context, asked.task_id))
        receipt = await self._stop(task, force=asked.force)
        summary = f"{task.id}: {'asked to end' if receipt.stop_requested else 'was over'}"
        return ToolOutcome(content=dumps({"ok": True, **to_plain(receipt)}), summary=summary)

    async def look(self, agent_id: str, task_id: str) -> TaskStatusSnapshot:
        """The operator's `TaskStatus`."""
        return await self._store.read(lambda tx: _snapshot(tx, _named(tx, agent_id, task_id)))

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
        self._kick(_child_of(task))
        return _receipt(task, None, InputTarget.CHILD_FOLLOWUP, len(text.encode()))

    async def end(self, agent_id: str, task_id: str, *, force: bool = False) -> StopReceipt:
        """The operator's `TaskStop`."""
        return await self._stop(await self._store.read(lambda tx: _named(tx, agent_id, task_id)), force=force)

    async def stop_child(self, task: TaskRecord) -> bool:
        """Ends a child and everything below it, the deepest first."""
        child_id = _child_of(task)
        for below in await self._store.read(lambda tx: tasks.live(tx, child_id)):
            if below.kind is TaskKind.CHILD_AGENT_TASK:
                await self.stop_child(below)
            elif below.kind is TaskKind.COMMAND_TASK:
                await self._commands.stop(below.id, force=True)
        self._abort_live(child_id)

        def step(tx: Tx) -> None:
            stored = agents.get(tx, child_id)
            if stored is not None:
                agents.save_state(tx, archive_child(tx, stored.state, "stopped by its supervisor"))
            current = tasks.get(tx, task.id)
            if current is not None and not current.status.terminal:
                end_child_task(tx, current, TaskStatus.CANCELLED, "stopped by its supervisor", self._limits)

        await self._store.write(step, at=Transition.TASK_END)
        self._kick(task.agent_id)
        return True

    async def _output_of(self, task: TaskRecord, wait_ms: int | None) -> TaskOutputResult:
        timed_out = False
        if wait_ms is not None and not task.status.terminal:
            task, timed_out = await self._until_over(task, wait_ms / 1000)
        return await asyncio.to_thread(_output, task, timed_out)

    async def _type_into(self, task: TaskRecord, text: str) -> InputReceipt:
        running, refusal, sent = self._commands.running.get(task.id), None, 0
        spec = task.recovery.spec if isinstance(task.recovery, CommandRecovery) else None
        if running is None or task.status.terminal:
            refusal = "the task is over"
        else:
            try:
                sent = await running.send(text)
            except HolonError as error:
                refusal = str(error)
        target = None if refusal else (InputTarget.TTY if spec and spec.tty else InputTarget.STDIN)
        return _receipt(task, refusal, target, sent)

    async def _stop(self, task: TaskRecord, *, force: bool) -> StopReceipt:
        requested = False
        if not task.status.terminal:
            requested = (
                await self.stop_child(task)
                if task.kind is TaskKind.CHILD_AGENT_TASK
                else await self._commands.stop(task.id, force=force)
            )
        shown = await self._store.read(lambda tx: _snapshot(tx, tasks.get(tx, task.id) or task))
        return StopReceipt(task=shown, stop_requested=requested, force_stop_requested=requested and force)

    def _tell_child(self, tx: Tx, task: TaskRecord, text: str) -> None:
        """A follow-up for a child: a message of its own on the child's queue."""
        child_id = _child_of(task)
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
        while not task.status.terminal:
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


def _child_of(task: TaskRecord) -> str:
    return str((task.detail or {}).get("child_agent_id"))


def _snapshot(tx: Tx, task: TaskRecord) -> TaskStatusSnapshot:
    child = task.kind is TaskKind.CHILD_AGENT_TASK
    child_id = _child_of(task) if child else None
    seen = observe(tx, child_id) if child_id else None
    return TaskStatusSnapshot(
        task_id=task.id,
        kind=task.kind,
        status=task.status,
        created_at=task.created_at,
        updated_at=task.updated_at,
        wait_policy=WaitPolicy.BACKGROUND,
        summary=task.summary,
        parent_message_id=task.parent_message_id,
        command=_command(task),
        child_agent_id=child_id,
        child_supervision=supervision_of(task) if child else None,
        child_observability=to_plain(seen) if seen else None,
    )


def _entry(task: TaskRecord) -> TaskListEntry:
    return TaskListEntry(
        id=task.id,
        kind=task.kind,
        status=task.status,
        updated_at=task.updated_at,
        wait_policy=WaitPolicy.BACKGROUND,
        summary=task.summary,
        command=_command(task),
    )


def _command(task: TaskRecord) -> CommandTaskStatusSnapshot | None:
    if not isinstance(task.recovery, CommandRecovery):
        return None
    spec, detail = task.recovery.spec, task.detail or {}
    return CommandTaskStatusSnapshot(
        cmd=spec.cmd,
        cmd_digest=detail.get("cmd_digest"),
        workdir=spec.workdir,
        shell=spec.shell,
        login=spec.login,
        tty=spec.tty,
        output_path=detail.get("output_path"),
        result_summary=detail.get("result_summary"),
        exit_status=detail.get("exit_status"),
        terminal_reentry=spec.terminal_reentry,
        promoted_from_exec_command=True,
        accepts_input=True if spec.accepts_input else None,
        input_target=(InputTarget.TTY if spec.tty else InputTarget.STDIN) if spec.accepts_input else None,
    )


def _output(task: TaskRecord, timed_out: bool) -> TaskOutputResult:
    """Ready only with a stable snapshot: a file that can be read, or an excerpt that was stored."""
    detail = task.detail or {}
    text, truncated, kept = "", False, outputs.Artifacts(artifacts=[])
    stable = False
    folder = Path(str(detail["folder"])) if detail.get("folder") else None
    if folder is not None and folder.is_dir():
        shown, kept = outputs.combined(folder, PREVIEW_CHARS), outputs.artifacts(folder)
        text, truncated, stable = shown.text, shown.truncated, True
    stored = detail.get("output_summary") or detail.get("initial_output")
    if not stable and stored is not None:
        text, truncated, stable = str(stored)[:PREVIEW_CHARS], bool(detail.get("output_truncated")), True
    if task.status.terminal and (stable or detail.get("output_path")):
        status = RetrievalStatus.SUCCESS
    else:
        status = RetrievalStatus.TIMEOUT if timed_out else RetrievalStatus.NOT_READY
    return TaskOutputResult(
        retrieval_status=status,
        task=TaskOutputSnapshot(
            task_id=task.id,
            kind=task.kind,
            status=task.status,
            output_preview=text,
            output_truncated=truncated,
            artifacts=kept.artifacts,
            summary=task.summary,
            output_artifact=kept.output_artifact,
            result_summary=detail.get("result_summary"),
            exit_status=detail.get("exit_status"),
            failure_artifact=_failure(detail),
            child_supervision=supervision_of(task) if task.kind is TaskKind.CHILD_AGENT_TASK else None,
        ),
    )


def _failure(detail: dict[str, Any]) -> FailureArtifact | None:
    stored = detail.get("failure_artifact")
    return from_plain(stored, FailureArtifact) if stored else None


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
