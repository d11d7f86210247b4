"""Hands: an agent's commands and patches, run where it is housed and gated by its execution policy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holon.core.codec import dumps, to_plain
from holon.core.errors import HolonError
from holon.core.ids import new_id
from holon.core.tasks import CommandRecovery, CommandTaskSpec, TaskHandle, TaskKind, TaskRecord, TaskStatus
from holon.runtime.command_tasks import CommandTasks
from holon.runtime.foreground import ENDING_S, Foreground
from holon.runtime.housing import Housing
from holon.runtime.place import TASK_OUTPUT, Place
from holon.store import Store, Tx, tasks
from holon.tasks import outcomes, outputs
from holon.tasks.protocol import CommandStatus
from holon.tasks.running import RunningCommand
from holon.tasks.specs import CommandSpec
from holon.tools.batches import (
    HEAD_CHARS,
    ItemReceipt,
    Ran,
    RanReceipt,
    batch_receipt,
    broken,
    skipped,
    written_chars,
)
from holon.tools.commands import BatchInput, BatchItem, ExecInput, PatchInput
from holon.tools.registry import CallContext, ToolOutcome
from holon.workspaces import anchors
from holon.workspaces.policies import Action

if TYPE_CHECKING:
    from holon.workspaces.patches import PatchResult

#: (context, commands with their folders) -> what to commit with their result, if anything.
Notice = Callable[[CallContext, Sequence[tuple[str, Path]]], Callable[[Tx], None] | None]


log = logging.getLogger("holon.hands")


class Hands:
    def __init__(
        self,
        store: Store,
        housing: Housing,
        commands: CommandTasks,
        journal: Path,
        default_tokens: int,
        max_tokens: int,
    ) -> None:
        self._store, self._housing, self._commands, self._journal = store, housing, commands, journal
        self._foreground = Foreground(store, commands)
        self._default_tokens, self._max_tokens = default_tokens, max_tokens
        #: Looks at commands that ended well, with their folders; what it finds is committed with their result.
        self.notice: Notice | None = None

    async def run(self, context: CallContext, asked: ExecInput) -> ToolOutcome:
        """`ExecCommand`: completed within its time, or a task, or the task that runs the same already."""
        place = await self._housing.place(context.agent)
        place.permit(Action.PROCESS, context.envelope)
        task_id = new_id("task", self._store.clock.now_ms())
        spec = _spec(context, place, asked, task_id)
        if asked.duplicate_policy == "reuse_running" and (same := await self._same(context, spec)) is not None:
            return _already_running(same)
        budget = outputs.budget_chars(asked.max_output_tokens, self._default_tokens, self._max_tokens)
        async with self._foreground.command(context, task_id, spec, _task_spec(asked)) as running:
            status = await running.wait(asked.yield_time_ms / 1000)
            if status is None:
                place.permit(Action.BACKGROUND_TASK, context.envelope)  # refused, it ends
                return self._promoted(context, task_id, spec, running, budget)
            outcome = self._completed(task_id, spec, status, budget)
            return await self._noticed(context, [(asked.cmd, spec.workdir)] if status.exit_status == 0 else [], outcome)

    async def run_batch(self, context: CallContext, asked: BatchInput) -> ToolOutcome:
        """`ExecCommandBatch`: one after the other; an item that takes too long is ended, not promoted. Whatever happens
        to one, what the others brought is told."""
        place = await self._housing.place(context.agent)
        place.permit(Action.PROCESS, context.envelope)
        items: list[ItemReceipt] = []
        done: list[tuple[str, Path]] = []
        failed = False
        room = outputs.budget_chars(self._max_tokens, max_tokens=self._max_tokens) - HEAD_CHARS
        for index, item in enumerate(asked.items):
            if failed and asked.stop_on_error:
                found = skipped(index, item.cmd)
            else:
                # Together they show no more than one command may; what one does not need is there for the next.
                share = room // (len(asked.items) - index)
                found, workdir = await self._item(context, place, index, item, share)
                went_well = isinstance(found, RanReceipt) and found.went_well
                failed = failed or not went_well
                if went_well and workdir:
                    done.append((item.cmd, workdir))
            room -= written_chars(found)
            items.append(found)
        receipt = batch_receipt(items, stop_on_error=asked.stop_on_error)
        outcome = ToolOutcome(
            content=receipt.text,
            summary=f"{receipt.item_count} commands, {receipt.completed_count} completed",
            command_items=receipt.item_count - receipt.skipped_count,
        )
        return await self._noticed(context, done, outcome)

    async def recover(self) -> None:
        """Completes or takes back a patch that a crash left half done, before any agent looks at its files."""
        if self._journal.is_dir():
            from holon.workspaces import patches

            for found in await asyncio.to_thread(patches.recover, self._journal):
                log.warning("a patch that a crash interrupted: %s (%s)", found.message, found.outcome)

    async def patch(self, context: CallContext, asked: PatchInput) -> ToolOutcome:
        """`ApplyPatch`: all of it or nothing, inside the execution root."""
        place = await self._housing.place(context.agent)

        def apply() -> PatchResult:
            from holon.workspaces import patches  # with the first patch: a start does not wait for it

            self._journal.mkdir(parents=True, exist_ok=True)
            return patches.apply(patches.check(patches.parse(asked.patch), place.files()), self._journal)

        result = await asyncio.to_thread(apply)
        return ToolOutcome(content=dumps({"ok": True, **to_plain(result)}), summary=result.summary_text or "patched")

    async def _noticed(
        self, context: CallContext, done: Sequence[tuple[str, Path]], outcome: ToolOutcome
    ) -> ToolOutcome:
        """What commands touched is a remark: it never takes their result away."""
        try:
            noticed = await asyncio.to_thread(self.notice, context, done) if self.notice and done else None
        except Exception:
            log.exception("what commands touched could not be told")
            return outcome
        if noticed is None:
            return outcome
        before, effect = outcome.effect, noticed

        def both(tx: Tx) -> None:
            if before is not None:
                before(tx)
            if (refusal := tx.attempt(effect)) is not None:
                log.warning("what commands touched could not be written: %s", refusal)

        return msgspec.structs.replace(outcome, effect=both)

    async def _same(self, context: CallContext, spec: CommandSpec) -> TaskRecord | None:
        """A task that does the same and will go on doing it. One that was told to end will not, and neither will one
        whose call is just being aborted."""
        live = await self._store.read(lambda tx: tasks.live(tx, context.agent.agent_id))
        digest = spec.digest()
        return next((task for task in live if _does(task, digest, accepts_input=spec.accepts_input)), None)

    def _completed(self, task_id: str, spec: CommandSpec, status: CommandStatus, budget: int) -> ToolOutcome:
        found = outcomes.completed(status, spec.folder, budget, tty=spec.tty)
        keep = found.truncated
        if not keep:  # all of it is shown, and its files go
            found = msgspec.structs.replace(found, artifacts=[], stdout_artifact=None, stderr_artifact=None)

        async def after() -> None:
            await self._foreground.forget(task_id, spec.folder, keep_files=keep)

        return ToolOutcome(
            content=_answer(found),
            summary=f"exit status {status.exit_status}",
            command_items=1,
            effect=lambda tx: tasks.delete(tx, task_id),
            after=after,
        )

    def _promoted(
        self, context: CallContext, task_id: str, spec: CommandSpec, running: RunningCommand, budget: int
    ) -> ToolOutcome:
        handle = TaskHandle(task_id=task_id, task_kind=TaskKind.COMMAND_TASK, status=TaskStatus.RUNNING)
        found = outcomes.promoted(handle, spec.folder, budget, tty=spec.tty)
        initial = found.initial_output_preview

        async def after() -> None:
            self._commands.watch(task_id, context.agent.agent_id, running)

        return ToolOutcome(
            content=_answer(found),
            summary=f"goes on as {task_id}",
            command_items=1,
            change=lambda tx, state: self._commands.promote(tx, state, task_id, initial, context),
            after=after,
        )

    async def _item(
        self, context: CallContext, place: Place, index: int, item: BatchItem, room: int
    ) -> tuple[ItemReceipt, Path | None]:
        """What it brought, and where it ran: it may have removed that folder itself."""
        asked = ExecInput(
            cmd=item.cmd, workdir=item.workdir, shell=item.shell, login=item.login, yield_time_ms=item.yield_time_ms
        )
        task_id = new_id("task", self._store.clock.now_ms())
        began = False
        try:
            spec = _spec(context, place, asked, task_id)
            async with self._foreground.command(context, task_id, spec, _task_spec(asked)) as running:
                began = True
                return await self._ran(task_id, index, item, running, room), spec.workdir
        except HolonError as error:
            return broken(index, item.cmd, error, began=began), None
        except Exception as error:
            log.exception("item %d of a batch failed", index)
            return broken(index, item.cmd, error, began=began), None

    async def _ran(self, task_id: str, index: int, item: BatchItem, running: RunningCommand, room: int) -> RanReceipt:
        started = time.perf_counter()
        status = await running.wait(item.yield_time_ms / 1000)
        timed_out = status is None
        if timed_out:
            await running.stop(force=True)
            status = await running.wait(ENDING_S)
        ran = Ran(
            index=index,
            cmd=item.cmd,
            status=status,
            duration_ms=round((time.perf_counter() - started) * 1000),
            folder=running.folder,
            timed_out_ms=item.yield_time_ms if timed_out else None,
        )
        budget = outputs.budget_chars(item.max_output_tokens, self._default_tokens, self._max_tokens)
        found = ran.receipt(running.preview, budget, room)
        if status is None:
            await self._foreground.end(task_id, running.folder, running)
        else:
            await self._foreground.settle(task_id, running.folder, keep_files=found.truncated)
        return found


def _spec(context: CallContext, place: Place, asked: ExecInput, task_id: str) -> CommandSpec:
    workdir = anchors.confined_cwd(place.root, asked.workdir, field="workdir") if asked.workdir else place.cwd
    confined = place.confined(workdir)
    return CommandSpec(
        cmd=asked.cmd,
        workdir=workdir,
        folder=Path(context.agent.agent_home) / TASK_OUTPUT / task_id,
        env=place.env,
        shell=asked.shell,
        login=asked.login,
        tty=asked.tty,
        accepts_input=asked.tty if asked.accepts_input is None else asked.accepts_input,
        argv_prefix=confined.prefix,
        limits=confined.limits,
        groups=confined.groups,
        time_limit_s=place.time_limit_s,
    )


def _task_spec(asked: ExecInput) -> CommandTaskSpec:
    return CommandTaskSpec(
        cmd=asked.cmd,
        workdir=asked.workdir,
        shell=asked.shell,
        login=asked.login,
        tty=asked.tty,
        yield_time_ms=asked.yield_time_ms,
        max_output_tokens=asked.max_output_tokens,
        accepts_input=asked.tty if asked.accepts_input is None else asked.accepts_input,
        terminal_reentry=True,
    )


def _does(task: TaskRecord, digest: str, *, accepts_input: bool) -> bool:
    detail, recovery = task.detail or {}, task.recovery
    return (
        task.kind is TaskKind.COMMAND_TASK
        and task.status in (TaskStatus.QUEUED, TaskStatus.RUNNING)
        and not detail.get("foreground")
        and detail.get("cmd_digest") == digest
        and isinstance(recovery, CommandRecovery)
        and recovery.spec.accepts_input == accepts_input
    )


def _already_running(task: TaskRecord) -> ToolOutcome:
    return ToolOutcome(content=_answer(outcomes.already_running(task)), summary=f"runs already as {task.id}")


def _answer(outcome: outcomes.ExecOutcome) -> str:
    return dumps({"ok": True, **to_plain(outcome)})
