"""Command tasks: the books of commands that run, and their one way back into the queue.

A command is on record before it starts, so that a restart finds it. One that ends within its call leaves the books with
that call; any other is a task, and its end is one transaction: terminal record, state, result message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from holon.core.agents import AgentState, AgentStatus, RegistryStatus
from holon.core.clock import moment
from holon.core.codec import from_plain, to_plain
from holon.core.errors import HolonError
from holon.core.event_kinds import TaskCreated, TaskReattached, TaskStatusUpdated
from holon.core.failures import FailureArtifact, FailureCategory
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    JsonBody,
    MessageKind,
    Priority,
    TaskOrigin,
)
from holon.core.tasks import CommandRecovery, CommandTaskDetail, CommandTaskSpec, TaskKind, TaskRecord, TaskStatus
from holon.core.transitions import Transition
from holon.runtime.admission import Admission, admit
from holon.store import Store, Tx, agents, tasks
from holon.tasks import outputs
from holon.tasks.commands import CommandRunner, Ended, Lost, RunningCommand, end_lost
from holon.tasks.folder import OUTPUT
from holon.tasks.outcomes import notes_on
from holon.tasks.protocol import CommandStatus
from holon.tasks.specs import CommandSpec
from holon.tools.registry import CallContext

log = logging.getLogger("holon.tasks")

RESULT_CHARS = 4_000


class CommandTasks:
    """Knows every command of this home that is not over, and waits for each."""

    def __init__(self, store: Store, runner: CommandRunner, limits: Limits, kick: Callable[[str], None]) -> None:
        self._store, self._runner, self._limits, self._kick = store, runner, limits, kick
        self.running: dict[str, RunningCommand] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}

    async def start(
        self, context: CallContext, task_id: str, spec: CommandSpec, asked: CommandTaskSpec
    ) -> RunningCommand:
        """Puts the command on record, then starts it. If it cannot start, the record goes again."""
        record = _record(context, task_id, spec, asked, self._store.clock.now_ms())
        await self._store.write(lambda tx: tasks.save(tx, record), at=Transition.TASK_START)
        try:
            running = await self._runner.start(spec)
        except Exception:
            await self._store.write(lambda tx: tasks.delete(tx, task_id), at=Transition.TASK_CHANGE)
            raise
        self.running[task_id] = running
        return running

    def promote(self, tx: Tx, state: AgentState, task_id: str, initial: str, context: CallContext) -> AgentState:
        """In the call's transaction: what still runs is a task from now on."""
        record = tasks.get(tx, task_id)
        assert record is not None
        detail = {**(record.detail or {}), "initial_output": initial[:RESULT_CHARS], "foreground": False}
        tasks.save(tx, msgspec.structs.replace(_promoted(record), detail=detail, updated_at=moment(tx.now_ms)))
        tx.emit(
            state.id,
            TaskCreated(task_id=task_id, task_kind=record.kind, summary=record.summary),
            message_id=context.envelope.id,
            turn_id=context.turn_id,
        )
        return msgspec.structs.replace(state, active_task_ids=[*state.active_task_ids, task_id])

    async def forget(self, task_id: str, folder: Path, *, keep_files: bool) -> None:
        """After the call's commit: a command that ended within it needs no books."""
        self.running.pop(task_id, None)
        if not keep_files:
            await asyncio.to_thread(shutil.rmtree, folder, True)

    def watch(self, record_id: str, agent_id: str, running: RunningCommand) -> None:
        self.running[record_id] = running
        self._watchers[record_id] = asyncio.get_running_loop().create_task(self._wait(record_id, agent_id, running))

    async def recover(self) -> None:
        """After a restart: goes on watching what runs, and ends what ended or got lost meanwhile.

        That happens in watchers, which begin after this returns: a result must not wake an agent before the turn that
        it left open is taken up, or two workers would go on with that turn.
        """
        left: list[tuple[TaskRecord, RunningCommand | Ended | Lost]] = []
        for record in await self._store.read(tasks.live_commands):
            folder = Path(str((record.detail or {}).get("folder")))
            found = await self._runner.attach(folder)
            event = TaskReattached(task_id=record.id, found=_FOUND[type(found)])
            await self._store.write(
                lambda tx, record=record, event=event: _own_again(tx, record, event),  # type: ignore[misc]
                at=Transition.TASK_CHANGE,
            )
            left.append((record, found))
        for record, found in left:
            if isinstance(found, RunningCommand):
                self.running[record.id] = found
            self._watchers[record.id] = asyncio.get_running_loop().create_task(self._take_up(record, found))

    async def stop(self, task_id: str, *, force: bool) -> bool:
        """Asks a command to end; its watcher does the rest."""
        running = self.running.get(task_id)
        if running is None:
            return False
        await self._store.write(lambda tx: _cancelling(tx, task_id), at=Transition.TASK_CHANGE)
        return await running.stop(force=force)

    async def close(self) -> None:
        """Lets go of everything; the commands run on."""
        watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        with contextlib.suppress(Exception):
            await self._runner.close()

    async def _take_up(self, record: TaskRecord, found: RunningCommand | Ended | Lost) -> None:
        try:
            match found:
                case RunningCommand():
                    if record.status is TaskStatus.CANCELLING:  # the word to stop may not have reached it
                        with contextlib.suppress(HolonError):
                            await found.stop(force=False)
                    await self._wait(record.id, record.agent_id, found)
                case Ended(status=status):
                    await self._end(record.id, record.agent_id, status)
                case Lost(folder=folder):
                    await self._end(record.id, record.agent_id, await asyncio.to_thread(end_lost, folder))
        except Exception:
            log.exception("task %s could not be taken up; the next restart tries again", record.id)

    async def _wait(self, task_id: str, agent_id: str, running: RunningCommand) -> None:
        try:
            status = await running.wait()
            if status is not None:
                await self._end(task_id, agent_id, status)
        except Exception:
            log.exception("the end of task %s could not be written; a restart takes it up", task_id)

    async def _end(self, task_id: str, agent_id: str, status: CommandStatus) -> None:
        await self._store.write(lambda tx: end_task(tx, task_id, status, self._limits), at=Transition.TASK_END)
        self.running.pop(task_id, None)
        self._watchers.pop(task_id, None)
        self._kick(agent_id)


_FOUND = {RunningCommand: "running", Ended: "ended", Lost: "lost"}


def end_task(tx: Tx, task_id: str, status: CommandStatus, limits: Limits) -> None:
    """The end of a command task and its result, once."""
    record = tasks.get(tx, task_id)
    if record is None or record.status.terminal:
        return
    detail = from_plain({k: v for k, v in (record.detail or {}).items() if k != "foreground"}, CommandTaskDetail)
    folder = Path(str(detail.folder))
    shown = outputs.combined(folder, RESULT_CHARS)
    outcome = _outcome(record, status)
    words = _words(status)
    failure = None
    if outcome is not TaskStatus.COMPLETED:
        failure = FailureArtifact(
            category=FailureCategory.TASK, kind=outcome, summary=words, task_id=task_id, exit_status=status.exit_status
        )
    detail = msgspec.structs.replace(
        detail,
        exit_status=status.exit_status,
        output_summary=shown.text,
        output_truncated=shown.truncated,
        result_summary=words,
        failure_artifact=failure,
    )
    tasks.save(
        tx,
        msgspec.structs.replace(record, status=outcome, updated_at=moment(tx.now_ms), detail=to_plain(detail)),
    )
    tx.emit(record.agent_id, TaskStatusUpdated(task_id=task_id, status=outcome, reason=words))
    _rejoin(tx, record, outcome, status, shown.text, words, limits)


def _rejoin(
    tx: Tx, record: TaskRecord, outcome: TaskStatus, status: CommandStatus, output: str, words: str, limits: Limits
) -> None:
    stored = agents.get(tx, record.agent_id)
    if stored is None:
        return
    still = [task_id for task_id in stored.state.active_task_ids if task_id != record.id]
    agents.save_state(tx, msgspec.structs.replace(stored.state, active_task_ids=still))
    if stored.state.status is AgentStatus.STOPPED or stored.identity.status is RegistryStatus.ARCHIVED:
        return
    value = {
        "task_id": record.id,
        "kind": record.kind,
        "status": outcome,
        "summary": record.summary,
        "result": words,
        "exit_status": status.exit_status,
        "output_preview": output,
        "output_path": (record.detail or {}).get("output_path"),
    }
    admit(
        tx,
        record.agent_id,
        Admission(
            agent_id=record.agent_id,
            kind=MessageKind.TASK_RESULT,
            origin=TaskOrigin(task_id=record.id),
            body=JsonBody(value=value),
            surface=DeliverySurface.TASK_REJOIN,
            context=AdmissionContext.RUNTIME_OWNED,
            priority=Priority.NEXT,
            metadata={"task_id": record.id},
            source_refs={"task_result_id": record.id},
            causation_id=record.parent_message_id,
            private=True,
        ),
        limits,
    )


def _record(context: CallContext, task_id: str, spec: CommandSpec, asked: CommandTaskSpec, now_ms: int) -> TaskRecord:
    detail = CommandTaskDetail(cmd_digest=spec.digest(), folder=str(spec.folder), output_path=str(spec.folder / OUTPUT))
    return TaskRecord(
        id=task_id,
        agent_id=context.agent.agent_id,
        kind=TaskKind.COMMAND_TASK,
        status=TaskStatus.RUNNING,
        created_at=moment(now_ms),
        updated_at=moment(now_ms),
        parent_message_id=context.envelope.id,
        summary=" ".join(spec.cmd.split())[:120],
        detail={**to_plain(detail), "foreground": True},
        recovery=CommandRecovery(summary=" ".join(spec.cmd.split())[:120], spec=asked, trust=context.envelope.trust),
    )


def _promoted(record: TaskRecord) -> TaskRecord:
    assert isinstance(record.recovery, CommandRecovery)
    recovery = msgspec.structs.replace(record.recovery, promoted_from_exec_command=True)
    return msgspec.structs.replace(record, recovery=recovery)


def _own_again(tx: Tx, record: TaskRecord, event: TaskReattached) -> None:
    """A command whose call was interrupted has become a task: its result comes by the queue."""
    tx.emit(record.agent_id, event)
    stored = agents.get(tx, record.agent_id)
    if stored is not None and record.id not in stored.state.active_task_ids:
        detail = {**(record.detail or {}), "foreground": False}
        tasks.save(tx, msgspec.structs.replace(_promoted(record), detail=detail))
        ids = [*stored.state.active_task_ids, record.id]
        agents.save_state(tx, msgspec.structs.replace(stored.state, active_task_ids=ids))


def _cancelling(tx: Tx, task_id: str) -> None:
    record = tasks.get(tx, task_id)
    if record is not None and not record.status.terminal:
        tasks.save(tx, msgspec.structs.replace(record, status=TaskStatus.CANCELLING, updated_at=moment(tx.now_ms)))


def _outcome(record: TaskRecord, status: CommandStatus) -> TaskStatus:
    if record.status is TaskStatus.CANCELLING or status.stopped is not None:
        return TaskStatus.CANCELLED
    return TaskStatus.COMPLETED if status.exit_status == 0 else TaskStatus.FAILED


def _words(status: CommandStatus) -> str:
    if status.detail and status.exit_status is None and status.signal is None:
        return status.detail
    if status.signal is not None:
        return f"ended by signal {status.signal}"
    return "; ".join([f"ended with exit status {status.exit_status}", *notes_on(status)])
