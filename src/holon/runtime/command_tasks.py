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
from typing import Any

import msgspec

from holon.core.agents import AgentState, RegistryStatus
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
from holon.tasks.commands import CommandRunner
from holon.tasks.failures import CommandUnreachable
from holon.tasks.finding import Ended, Lost, end_lost
from holon.tasks.folder import OUTPUT
from holon.tasks.outcomes import notes_on
from holon.tasks.protocol import CommandStatus, Started, read_started
from holon.tasks.running import RunningCommand
from holon.tasks.specs import CommandSpec
from holon.tools.registry import CallContext

log = logging.getLogger("holon.tasks")

RESULT_CHARS = 4_000
#: A start looks for so many commands at once, for each of them this long, and for all of them no longer than that: who
#: does not answer by then is looked for while the agents work.
ATTACHING, LOOK_S, MOMENT_S = 64, 1.0, 3.0
#: Between two attempts to find a command whose folder cannot be read, from the first to the last.
SEEK_AGAIN_S = (1.0, 30.0)
UNREACHABLE = "its runner does not answer, so it is not known how far it is; it is looked for until it does"

Found = RunningCommand | Ended | Lost


class CommandTasks:
    """Knows every command of this home that is not over, and waits for each."""

    def __init__(self, store: Store, runner: CommandRunner, limits: Limits, kick: Callable[[str], None]) -> None:
        self._store, self._runner, self._limits, self._kick = store, runner, limits, kick
        self.running: dict[str, RunningCommand] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        #: Commands that the start could not find, for as long as that is so.
        self._sought: set[str] = set()
        self._notes: set[asyncio.Task[None]] = set()

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
        if (running := self.running.get(task_id)) is not None:
            detail["runner"] = running.started._asdict()
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
        self._hold(record_id, running)
        self._watchers[record_id] = asyncio.get_running_loop().create_task(self._wait(record_id, agent_id, running))

    async def recover(self) -> None:
        """After a restart: goes on watching what runs, and ends what ended or got lost meanwhile. A runner that does
        not answer holds up neither the start nor the others."""
        records, slots = await self._store.read(tasks.live_commands), asyncio.Semaphore(ATTACHING)
        left = await asyncio.gather(*(self._attach(record, slots) for record in records))
        for record, found in zip(records, left, strict=True):
            self._watchers[record.id] = asyncio.get_running_loop().create_task(self._take_up(record, found))

    async def stop(self, task_id: str, *, force: bool) -> bool:
        """Asks a command to end; its watcher does the rest."""
        running = self.running.get(task_id)
        if running is None and task_id not in self._sought:
            return False
        await self._store.write(lambda tx: _cancelling(tx, task_id), at=Transition.TASK_CHANGE)
        try:
            return await running.stop(force=force) if running else True
        except CommandUnreachable as error:  # the word is on record, and passed on as soon as it answers
            log.warning("task %s: %s", task_id, error)
            return True

    async def close(self) -> None:
        """Lets go of everything; the commands run on."""
        watchers = [*self._watchers.values(), *self._notes]
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        with contextlib.suppress(Exception):
            await self._runner.close()

    async def _attach(self, record: TaskRecord, slots: asyncio.Semaphore) -> Found | None:
        """A first look, and what it found on record. None: there was nothing to be found out in a moment."""
        try:
            async with asyncio.timeout(MOMENT_S), slots:
                return await self._find(record)
        except (HolonError, OSError) as error:
            log.warning("task %s is looked for again: %s", record.id, error)
        self._sought.add(record.id)
        await self._store.write(lambda tx: _own_again(tx, record, None), at=Transition.TASK_CHANGE)
        return None

    async def _find(self, record: TaskRecord) -> Found:
        folder = Path(str((record.detail or {}).get("folder")))
        found = await self._runner.attach(folder, known=_runner_of(record), patience_s=LOOK_S)
        if isinstance(found, RunningCommand):
            self._hold(record.id, found)
        await self._store.write(lambda tx: _own_again(tx, record, found), at=Transition.TASK_CHANGE)
        self._sought.discard(record.id)
        return found

    async def _take_up(self, record: TaskRecord, found: Found | None) -> None:
        """Goes on with a command that an earlier process left, however often it takes to find it."""
        pause = SEEK_AGAIN_S[0]
        while True:
            try:
                await self._go_on(record, found or await self._find(record))
                return
            except (HolonError, OSError) as error:
                log.warning("task %s could not be taken up, and is tried again: %s", record.id, error)
                found = None
            except Exception:
                log.exception("task %s could not be taken up; the next restart tries again", record.id)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, SEEK_AGAIN_S[1])

    async def _go_on(self, record: TaskRecord, found: Found) -> None:
        match found:
            case RunningCommand() as running:
                if await self._store.read(lambda tx: _is_cancelling(tx, record.id)):
                    with contextlib.suppress(HolonError):  # the word to stop may not have reached it
                        await running.stop(force=False)
                await self._wait(record.id, record.agent_id, running)
            case Ended(status=status):
                await self._end(record.id, record.agent_id, status)
            case Lost(folder=folder, started=started):
                status = await asyncio.to_thread(end_lost, folder, started)
                await self._end(record.id, record.agent_id, status)

    def _hold(self, task_id: str, running: RunningCommand) -> None:
        self.running[task_id] = running
        running.on_contact = lambda reachable: self._note(task_id, reachable)

    def _note(self, task_id: str, reachable: bool) -> None:
        """Writes down that a runner went silent, or answers again."""
        note = asyncio.get_running_loop().create_task(self._write_note(task_id, reachable))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _write_note(self, task_id: str, reachable: bool) -> None:
        try:
            await self._store.write(lambda tx: _note_contact(tx, task_id, reachable), at=Transition.TASK_CHANGE)
        except HolonError as error:
            log.warning("task %s: it is not on record that its runner answers or not: %s", task_id, error)

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


_FOUND: dict[type[Found], str] = {Ended: "ended", Lost: "lost"}


def _kind_of(found: Found | None) -> str:
    if isinstance(found, RunningCommand):
        return "running" if found.reachable else "unreachable"
    return _FOUND[type(found)] if found else "unreachable"


def end_task(tx: Tx, task_id: str, status: CommandStatus, limits: Limits) -> None:
    """The end of a command task and its result, once."""
    record = tasks.get(tx, task_id)
    if record is None or record.status.terminal:
        return
    detail = from_plain({k: v for k, v in (record.detail or {}).items() if k != "foreground"}, CommandTaskDetail)
    folder = Path(str(detail.folder))
    tty = isinstance(record.recovery, CommandRecovery) and record.recovery.spec.tty
    shown = outputs.combined(folder, RESULT_CHARS, tty=tty, status=status)
    outcome = _outcome(record, status)
    words = _words(status, folder)
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
    if stored.identity.status is RegistryStatus.ARCHIVED:
        return  # nobody will ever read it; for one that is stopped it waits
    value = {
        "task_id": record.id,
        "kind": record.kind,
        "status": outcome,
        "summary": record.summary,
        "result": words,
        "exit_status": status.exit_status,
        "output_preview": output,
        "output_path": _path_of(record),
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
    detail = CommandTaskDetail(
        cmd_digest=spec.digest(),
        workdir=str(spec.workdir),
        shell=spec.found_shell,
        folder=str(spec.folder),
        output_path=str(spec.folder / OUTPUT),
    )
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


def _own_again(tx: Tx, record: TaskRecord, found: Found | None) -> None:
    """A command whose call was interrupted has become a task: its result comes by the queue. Who runs it, and whether
    that answers, is on its record."""
    tx.emit(record.agent_id, TaskReattached(task_id=record.id, found=_kind_of(found)))
    record = tasks.get(tx, record.id) or record
    detail = _with_note({**(record.detail or {}), "foreground": False}, _kind_of(found) != "unreachable")
    if isinstance(found, RunningCommand):
        detail["runner"] = found.started._asdict()
    stored = agents.get(tx, record.agent_id)
    if stored is not None and record.id not in stored.state.active_task_ids:
        record = _promoted(record)
        ids = [*stored.state.active_task_ids, record.id]
        agents.save_state(tx, msgspec.structs.replace(stored.state, active_task_ids=ids))
    if detail != record.detail:
        tasks.save(tx, msgspec.structs.replace(record, detail=detail))


def _note_contact(tx: Tx, task_id: str, reachable: bool) -> None:
    record = tasks.get(tx, task_id)
    if record is None or record.status.terminal:
        return
    detail = _with_note(record.detail or {}, reachable)
    tasks.save(tx, msgspec.structs.replace(record, detail=detail, updated_at=moment(tx.now_ms)))
    tx.emit(record.agent_id, TaskReattached(task_id=task_id, found="reachable" if reachable else "unreachable"))


def _with_note(detail: dict[str, Any], reachable: bool) -> dict[str, Any]:
    rest = {name: value for name, value in detail.items() if name != "result_summary"}
    return rest if reachable else {**rest, "result_summary": UNREACHABLE}


def _runner_of(record: TaskRecord) -> Started | None:
    """Which processes it is, as far as its record says."""
    known = (record.detail or {}).get("runner")
    return read_started(known) if known else None


def _path_of(record: TaskRecord) -> str | None:
    path = (record.detail or {}).get("output_path")
    return path if path and Path(path).is_file() else None


def _is_cancelling(tx: Tx, task_id: str) -> bool:
    record = tasks.get(tx, task_id)
    return record is not None and record.status is TaskStatus.CANCELLING


def _cancelling(tx: Tx, task_id: str) -> None:
    record = tasks.get(tx, task_id)
    if record is not None and not record.status.terminal:
        tasks.save(tx, msgspec.structs.replace(record, status=TaskStatus.CANCELLING, updated_at=moment(tx.now_ms)))


def _outcome(record: TaskRecord, status: CommandStatus) -> TaskStatus:
    if record.status is TaskStatus.CANCELLING or status.stopped is not None:
        return TaskStatus.CANCELLED
    return TaskStatus.COMPLETED if status.exit_status == 0 else TaskStatus.FAILED


def _words(status: CommandStatus, folder: Path) -> str:
    if status.detail and status.exit_status is None and status.signal is None:
        return status.detail
    notes = notes_on(status, folder)
    return "; ".join(notes if status.signal is not None else [f"ended with exit status {status.exit_status}", *notes])
