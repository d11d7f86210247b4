"""Foreground: a command for as long as its call lasts. Nothing is left of it then, whichever way the call ends.

What is cleared away is cleared to the end, also if the call is cancelled meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holon.core.tasks import CommandTaskSpec
from holon.core.transitions import Transition
from holon.runtime.command_tasks import CommandTasks
from holon.store import Store, tasks
from holon.tasks.folder import status_of
from holon.tasks.running import RunningCommand
from holon.tasks.specs import CommandSpec
from holon.tools.registry import CallContext

log = logging.getLogger("holon.hands")

#: How long a call waits for the end of a command that was killed. One that takes longer stays on record until then.
ENDING_S = 10.0


class Foreground:
    def __init__(self, store: Store, commands: CommandTasks) -> None:
        self._store, self._commands = store, commands
        self._clearing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def command(
        self, context: CallContext, task_id: str, spec: CommandSpec, asked: CommandTaskSpec
    ) -> AsyncIterator[RunningCommand]:
        """If the operator aborts the run, also while the command starts, or if its call fails, it ends. If this process
        ends, it is on record and the next one finds it."""
        starting = asyncio.ensure_future(self._commands.start(context, task_id, spec, asked))
        try:
            yield await asyncio.shield(starting)
        except asyncio.CancelledError:
            if context.aborted():
                await self._clear(self._abandon(task_id, spec.folder, starting))
            else:
                starting.cancel()
            raise
        except Exception:
            await self._clear(self._abandon(task_id, spec.folder, starting))
            raise

    async def end(self, task_id: str, folder: Path, running: RunningCommand) -> None:
        """As if it had never been, but for what it did."""
        await self._clear(self._end(task_id, folder, running))

    async def settle(self, task_id: str, folder: Path, *, keep_files: bool) -> None:
        """It has ended, and nothing but its answer needs to know of it."""
        await self._clear(self._delete(task_id, folder, keep_files=keep_files))

    async def forget(self, task_id: str, folder: Path, *, keep_files: bool) -> None:
        """The same where the record has gone with the answer."""
        await self._clear(self._commands.forget(task_id, folder, keep_files=keep_files))

    async def _clear(self, work: Coroutine[Any, Any, None]) -> None:
        """Whoever waits may be cancelled, or have no more patience; the work goes on. It takes no answer away: what it
        cannot do stays on record, for the next start."""
        clearing = asyncio.get_running_loop().create_task(_logged(work))
        self._clearing.add(clearing)
        clearing.add_done_callback(self._clearing.discard)
        await asyncio.wait([clearing], timeout=ENDING_S)

    async def _abandon(self, task_id: str, folder: Path, starting: asyncio.Future[RunningCommand]) -> None:
        try:
            running = await starting
        except Exception:  # it could not start, and is on no record; a folder without a status keeps a late runner out
            if status_of(folder) is not None:
                await self._commands.forget(task_id, folder, keep_files=False)
            return
        await self._end(task_id, folder, running)

    async def _end(self, task_id: str, folder: Path, running: RunningCommand) -> None:
        await running.stop(force=True)
        if await running.wait() is not None:  # otherwise this process has let go of it
            await self._delete(task_id, folder, keep_files=False)

    async def _delete(self, task_id: str, folder: Path, *, keep_files: bool) -> None:
        await self._store.write(lambda tx: tasks.delete(tx, task_id), at=Transition.TASK_CHANGE)
        await self._commands.forget(task_id, folder, keep_files=keep_files)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("a command could not be cleared away; the next start looks after it")
