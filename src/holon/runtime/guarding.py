"""Guarding: a repository's git folder while confined commands can write in it.

Git obeys one file that a main tree never has and that cannot be forbidden beforehand (`commondir`: where the rest of
the repository is, its configuration included). A command that makes it would have its programs run by whoever uses git
there next. So it is moved aside while commands run and when they have ended, and the operator is told.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path

from holon.core.errors import HolonError
from holon.core.event_kinds import RepositoryTampered
from holon.core.tasks import TaskKind
from holon.core.transitions import Transition
from holon.store import Store, Tx, tasks
from holon.workspaces.binds import set_aside

log = logging.getLogger("holon.guarding")

#: Between two looks, while a command runs.
LOOK_S = 0.2
#: How long the guard stays at least: a command is on record only after it was asked for, on a slow disk long after.
STAY_S = 30.0


class GitGuard:
    def __init__(self, store: Store) -> None:
        self._store = store
        #: Git folders, with the agents whose commands can write in them and when that was last said.
        self._watched: dict[Path, dict[str, float]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()

    def watch(self, agent_id: str, common: Path) -> None:
        """As long as the agent has commands."""
        self._watched.setdefault(common, {})[agent_id] = time.monotonic()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """A last look. One that is under way comes to its end: what was moved is told."""
        self._ending.set()
        if self._watching is not None:
            await asyncio.wait([self._watching])
        for common, agents in self._watched.items():
            await self._look(common, list(agents))

    async def _watch(self) -> None:
        while self._watched and not self._ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), LOOK_S)
            for common, agents in list(self._watched.items()):
                await self._look(common, list(agents))
                for agent_id in list(agents):
                    if not await self._busy(agent_id) and time.monotonic() - agents[agent_id] > STAY_S:
                        del agents[agent_id]
                if not agents:
                    del self._watched[common]

    async def _busy(self, agent_id: str) -> bool:
        try:
            live = await self._store.read(lambda tx: tasks.live(tx, agent_id))
        except HolonError:  # it is not known
            return True
        return any(task.kind is TaskKind.COMMAND_TASK for task in live)

    async def _look(self, common: Path, agents: list[str]) -> None:
        """What it cannot do now it does with the next look: nobody else's work may end by it."""
        planted = common / "commondir"
        try:
            moved = set_aside(common)
            if moved is None:
                return
            log.error("%s was made by a command and has been moved to %s", planted, moved)
            told = RepositoryTampered(path=str(planted), moved_to=str(moved))

            def tell(tx: Tx) -> None:
                for agent_id in agents:
                    tx.emit(agent_id, told)

            await self._store.write(tell, at=Transition.AGENT_CONTROL)
        except (HolonError, OSError) as error:
            log.error("%s: %s", planted, error)
