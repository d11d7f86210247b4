"""The pulse: what happens because time passes. Timers, ends of rests, errands, the watchdog, retention."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from holon.core.agents import AgentStatus
from holon.core.codec import loads
from holon.core.errors import HolonError
from holon.core.event_kinds import AgentStalled
from holon.core.limits import Limits
from holon.core.transitions import Transition
from holon.runtime.dispatcher import Dispatcher
from holon.runtime.keeping import Keeping
from holon.runtime.sleeping import end_due_sleep
from holon.runtime.timers import fire_due
from holon.runtime.turn import LiveTurn
from holon.store import Store, Tx, agents, queue, tasks, timers
from holon.tools.registry import ToolRegistry

log = logging.getLogger("holon.pulse")

#: The longest nap between two looks at the clock, so that a clock that was set is noticed soon.
NAP_S = 1.0
RETENTION_EVERY_S = 3_600.0
RETENTION_FIRST_S = 60.0
ERRANDS_EVERY_S = 5.0


class Errands(Protocol):
    """Whoever has work in the outbox."""

    async def run_errands(self) -> None: ...


class Pulse:
    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        errands: Sequence[Errands],
        keeping: Keeping,
        limits: Limits,
        registry: ToolRegistry,
        on_beat: Callable[[HolonError | None], None],
    ) -> None:
        self._store, self._dispatcher, self._errands, self._keeping = store, dispatcher, errands, keeping
        self._limits, self._registry, self._on_beat = limits, registry, on_beat
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._announced: dict[str, float] = {}

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._beat())

    def changed(self) -> None:
        """A due moment was added or moved: look again."""
        self._changed.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        started = time.monotonic()
        next_errands, next_watch = started, started + self._watch_every()
        next_retention = started + RETENTION_FIRST_S
        said = ""
        while True:
            self._changed.clear()
            try:
                nap = await self.fire()
                now = time.monotonic()
                if now >= next_errands:
                    next_errands = now + ERRANDS_EVERY_S
                    for runs in self._errands:
                        await runs.run_errands()
                if now >= next_watch:
                    next_watch = now + self._watch_every()
                    await self.watch()
                if now >= next_retention:
                    next_retention = now + RETENTION_EVERY_S
                    await self._keeping.apply()
                self._on_beat(None)
                said = ""
            except HolonError as error:
                if str(error) != said:  # once for as long as it lasts
                    log.error("%s", error)
                said = str(error)
                self._on_beat(error)
                nap = NAP_S
            except Exception:  # the pulse must go on: an agent's rest depends on it
                log.exception("a beat failed")
                nap = NAP_S
            # Not `wait_for`: before 3.12 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(nap):
                    await self._changed.wait()

    async def fire(self) -> float:
        """Fires what is due and returns how long to nap."""
        due = await self._store.read(_next_due)
        if due is not None and due <= self._store.clock.now_ms():
            for agent_id in await self._store.write(lambda tx: _fire(tx, self._limits), at=Transition.TIMER_FIRE):
                self._dispatcher.kick(agent_id)
            due = await self._store.read(_next_due)
        if due is None:
            return NAP_S
        return min(NAP_S, max(0.0, (due - self._store.clock.now_ms()) / 1000))

    async def watch(self) -> None:
        """Work without progress becomes an event that people see, once per stall."""
        waiting = await self._store.read(_waiting_agents)
        for agent_id in waiting:
            if agent_id not in self._dispatcher.working:
                self._dispatcher.kick(agent_id)
        now = time.monotonic()
        for agent_id, live in list(self._dispatcher.live.items()):
            stalled_ms = round((now - live.progress_at) * 1000)
            if stalled_ms < self._limits.stall_ms or self._announced.get(agent_id) == live.progress_at:
                continue
            if stalled_ms < self._limits.stall_ms + self._waits_ms(live):
                continue
            self._announced[agent_id] = live.progress_at
            event = AgentStalled(
                pending=waiting.get(agent_id, 0),
                stalled_ms=stalled_ms,
                last_progress=live.doing,
                advice=f"look with 'holon status --agent {agent_id}', end it with 'holon agent abort {agent_id}'",
            )
            await self._store.write(
                lambda tx, agent_id=agent_id, event=event, turn_id=live.turn.id: tx.emit(  # type: ignore[misc]
                    agent_id, event, turn_id=turn_id
                ),
                at=Transition.WATCHDOG,
            )

    def _waits_ms(self, live: LiveTurn) -> int:
        """How long the calls that run now may be silent by their own word: several of them run side by side."""
        waits = (self._registry.waits_ms(call.name, loads(call.input, dict)) for call in live.begun)
        return max(waits, default=0)

    def _watch_every(self) -> float:
        return max(0.05, self._limits.stall_ms / 4000)


def _next_due(tx: Tx) -> int | None:
    return min((due for due in (timers.next_due_ms(tx), tasks.next_due_ms(tx)) if due is not None), default=None)


def _fire(tx: Tx, limits: Limits) -> list[str]:
    woken = fire_due(tx, limits)
    for job in tasks.due(tx, tx.now_ms):
        end_due_sleep(tx, job, limits)
        woken.append(job.agent_id)
    return woken


def _waiting_agents(tx: Tx) -> dict[str, int]:
    """Agents with messages that nothing but the runtime keeps waiting, and how many wait."""
    found: dict[str, int] = {}
    for agent_id in queue.agents_with_waiting(tx):
        stored = agents.get(tx, agent_id)
        if stored is None or stored.state.held_by is not None:
            continue
        if stored.state.status not in (AgentStatus.PAUSED, AgentStatus.STOPPED, AgentStatus.BOOTING):
            found[agent_id] = stored.counters.pending
    return found
