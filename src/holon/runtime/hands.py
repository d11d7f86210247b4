"""Hands: an agent's commands and patches, run where it is housed and gated by its execution policy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holon.core.codec import dumps, to_plain
from holon.core.errors import HolonError
from holon.core.ids import new_id
from holon.core.tasks import CommandTaskSpec, TaskHandle, TaskKind, TaskRecord, TaskStatus
from holon.core.transitions import Transition
from holon.runtime.command_tasks import CommandTasks
from holon.runtime.housing import Housing
from holon.runtime.place import TASK_OUTPUT, Place
from holon.store import Store, Tx, tasks
from holon.tasks import outcomes, outputs
from holon.tasks.commands import RunningCommand
from holon.tasks.protocol import CommandStatus
from holon.tasks.specs import CommandSpec
from holon.tools.commands import BatchInput, BatchItem, ExecInput, PatchInput
from holon.tools.registry import CallContext, ToolOutcome
from holon.workspaces import anchors
from holon.workspaces.policies import Action, ToolDenied

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
        async with self._started(context, task_id, spec, asked) as running:
            status = await running.wait(asked.yield_time_ms / 1000)
        if status is None:
            try:
                place.permit(Action.BACKGROUND_TASK, context.envelope)
            except ToolDenied:
                await self._end(task_id, spec.folder, running)
                raise
            return self._promoted(context, task_id, spec, running, budget)
        outcome = self._completed(task_id, spec, status, budget)
        return await self._noticed(context, [(asked.cmd, spec.workdir)] if status.exit_status == 0 else [], outcome)

    async def run_batch(self, context: CallContext, asked: BatchInput) -> ToolOutcome:
        """`ExecCommandBatch`: one after the other; an item that takes too long is ended, not promoted."""
        place = await self._housing.place(context.agent)
        place.permit(Action.PROCESS, context.envelope)
        items: list[dict[str, Any]] = []
        failed = False
        for index, item in enumerate(asked.items):
            if failed and asked.stop_on_error:
                items.append({"index": index, "cmd": item.cmd, "status": "skipped"})
                continue
            items.append(await self._item(context, place, index, item, len(asked.items)))
            failed = failed or items[-1]["status"] != "completed" or items[-1]["exit_status"] != 0
        counts = {
            f"{status}_count": sum(item["status"] == status for item in items)
            for status in ("completed", "failed", "rejected", "skipped")
        }
        text = "\n".join(_item_text(item) for item in items)
        summary = f"{len(items)} commands, {counts['completed_count']} completed"
        content = dumps({"ok": True, "item_count": len(items), **counts, "stop_on_error": asked.stop_on_error})
        done = [
            (item.cmd, anchors.confined_cwd(place.root, item.workdir) if item.workdir else place.cwd)
            for item, line in zip(asked.items, items, strict=True)
            if line.get("exit_status") == 0
        ]
        ran = len(items) - counts["skipped_count"]
        outcome = ToolOutcome(content=f"{content}\n{text}", summary=summary, command_items=ran)
        return await self._noticed(context, done, outcome)

    async def recover(self) -> None:
        """Completes or takes back a patch that a crash left half done, before any agent looks at its files."""
        if self._journal.is_dir():
            from holon.workspaces import patches

            for found in await asyncio.to_thread(patches.recover, self._journal):
                log.warning("a patch that a crash interrupted in %s: %s", found.root, found.outcome)

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
        noticed = await asyncio.to_thread(self.notice, context, done) if self.notice and done else None
        if noticed is None:
            return outcome
        before, effect = outcome.effect, noticed

        def both(tx: Tx) -> None:
            if before is not None:
                before(tx)
            effect(tx)

        return msgspec.structs.replace(outcome, effect=both)

    async def _same(self, context: CallContext, spec: CommandSpec) -> TaskRecord | None:
        live = await self._store.read(lambda tx: tasks.live(tx, context.agent.agent_id))
        digest = spec.digest()
        return next(
            (
                task
                for task in live
                if task.kind is TaskKind.COMMAND_TASK and (task.detail or {}).get("cmd_digest") == digest
            ),
            None,
        )

    @asynccontextmanager
    async def _started(
        self, context: CallContext, task_id: str, spec: CommandSpec, asked: ExecInput
    ) -> AsyncIterator[RunningCommand]:
        """A command for the time of its call. If the operator aborts the run, also while it starts, it ends with it; if
        this process ends, it is on record and the next one finds it."""
        starting = asyncio.ensure_future(self._commands.start(context, task_id, spec, _task_spec(asked)))
        try:
            yield await asyncio.shield(starting)
        except asyncio.CancelledError:
            if context.aborted():
                await asyncio.shield(self._abandon(task_id, spec.folder, starting))
            else:
                starting.cancel()
            raise

    async def _abandon(self, task_id: str, folder: Path, starting: asyncio.Future[RunningCommand]) -> None:
        try:
            running = await starting
        except HolonError:  # it could not start, and is on no record
            return
        await self._end(task_id, folder, running)

    async def _end(self, task_id: str, folder: Path, running: RunningCommand) -> None:
        """As if it had never been, but for what it did."""
        await running.stop(force=True)
        await running.wait(5)
        await self._store.write(lambda tx: tasks.delete(tx, task_id), at=Transition.TASK_CHANGE)
        await self._commands.forget(task_id, folder, keep_files=False)

    def _completed(self, task_id: str, spec: CommandSpec, status: CommandStatus, budget: int) -> ToolOutcome:
        found = outcomes.completed(status, spec.folder, budget, tty=spec.tty)
        keep = found.truncated
        if not keep:  # all of it is shown, and its files go
            found = msgspec.structs.replace(found, artifacts=[], stdout_artifact=None, stderr_artifact=None)

        async def after() -> None:
            await self._commands.forget(task_id, spec.folder, keep_files=keep)

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
        self, context: CallContext, place: Place, index: int, item: BatchItem, count: int
    ) -> dict[str, Any]:
        """One of `count` items: together they show no more than one command may."""
        began = time.perf_counter()
        asked = ExecInput(
            cmd=item.cmd, workdir=item.workdir, shell=item.shell, login=item.login, yield_time_ms=item.yield_time_ms
        )
        task_id = new_id("task", self._store.clock.now_ms())
        line: dict[str, Any] = {"index": index, "cmd": item.cmd}
        try:
            spec = _spec(context, place, asked, task_id)
            async with self._started(context, task_id, spec, asked) as running:
                status = await running.wait(item.yield_time_ms / 1000)
                timed_out = status is None
                if timed_out:
                    await running.stop(force=True)
                    status = await running.wait(10)
        except HolonError as error:
            return {**line, "status": "rejected", "error_kind": error.code, "error_message": str(error)}
        shown = running.preview(
            outputs.budget_chars(item.max_output_tokens, self._default_tokens, self._max_tokens // count)
        )
        await self._store.write(lambda tx: tasks.delete(tx, task_id), at=Transition.TASK_CHANGE)
        await self._commands.forget(task_id, spec.folder, keep_files=shown.truncated)
        return {
            **line,
            "status": "failed" if timed_out else "completed",
            "exit_status": status.exit_status if status else None,
            "stdout": shown.stdout,
            "stderr": shown.stderr,
            "truncated": shown.truncated,
            **({"notes": notes} if (notes := outcomes.notes_on(status) if status else []) else {}),
            "duration_ms": round((time.perf_counter() - began) * 1000),
            **({"error_kind": "timeout", "error_message": "it took too long and was ended"} if timed_out else {}),
        }


def _spec(context: CallContext, place: Place, asked: ExecInput, task_id: str) -> CommandSpec:
    workdir = anchors.confined_cwd(place.root, asked.workdir) if asked.workdir else place.cwd
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


def _already_running(task: TaskRecord) -> ToolOutcome:
    return ToolOutcome(content=_answer(outcomes.already_running(task)), summary=f"runs already as {task.id}")


def _answer(outcome: outcomes.ExecOutcome) -> str:
    return dumps({"ok": True, **to_plain(outcome)})


def _item_text(item: dict[str, Any]) -> str:
    head = f"--- [{item['index']}] {item['status']}: {item['cmd']}"
    if item["status"] in ("skipped", "rejected"):
        return head + (f"\n{item['error_message']}" if "error_message" in item else "")
    tail = f" (exit {item['exit_status']}, {item['duration_ms']} ms)"
    said = (item["stdout"].rstrip(), item["stderr"].rstrip(), *item.get("notes", []))
    body = "\n".join(part for part in said if part)
    return f"{head}{tail}\n{body}" if body else head + tail
