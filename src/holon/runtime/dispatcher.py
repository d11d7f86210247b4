"""The dispatcher: gives each agent that has something to do one worker, and none to those that rest.

An agent at rest costs a row on disk and nothing in memory. A worker drains its agent's queue turn by turn and ends.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from holon.core.errors import Fenced, HolonError, StoreUnavailable
from holon.core.limits import Limits
from holon.core.transitions import Transition
from holon.core.turns import Turn
from holon.runtime.beginning import Assembly, AtRest, Beginning, Begun, Held, LeftOpen, Reduced, begin
from holon.runtime.outages import Outages
from holon.runtime.recovery import resume, set_aside, suspend, take_up_again
from holon.runtime.rounds import used_in
from holon.runtime.turn import LiveTurn, TurnDriver
from holon.runtime.windows import Windows
from holon.store import Store, agents, calls
from holon.tools.registry import ToolRegistry

log = logging.getLogger("holon.dispatcher")

#: After a failure, and twice as long after each that follows.
RETRY_S = 0.5
RETRY_AT_MOST_S = 60.0


class Dispatcher:
    def __init__(
        self,
        store: Store,
        driver: TurnDriver,
        registry: ToolRegistry,
        windows: Windows,
        limits: Limits,
        assemble: Callable[[str], Awaitable[Assembly]],
        on_fenced: Callable[[], None],
        outages: Outages,
    ) -> None:
        self._store, self._driver, self._registry, self._windows = store, driver, registry, windows
        self._limits, self._assemble, self._on_fenced, self._outages = limits, assemble, on_fenced, outages
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        #: Agents that were kicked before work may begin; None from then on.
        self._early: set[str] | None = set()
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        #: How often in a row the worker of an agent has failed.
        self._stumbles: dict[str, int] = {}
        self._slots = asyncio.Semaphore(limits.concurrent_turns)
        self._closing = False
        #: Called where a child may have come to its end: its parent was told, or there is something to clear first.
        self.child_rested: Callable[[], None] = lambda: None
        #: The turns that run now, by agent.
        self.live: dict[str, LiveTurn] = {}

    def kick(self, agent_id: str) -> None:
        """There may be something to do for this agent. Cheap, and safe to call too often."""
        if self._closing:
            return
        if self._early is not None:
            self._early.add(agent_id)
        elif agent_id in self._workers:
            self._again.add(agent_id)
        else:
            self._start(agent_id, None)

    def expect(self, agent_id: str) -> bool:
        """A message for this agent is on its way to the disk. If the agent has worked lately its worker starts at
        once: whatever it writes comes behind the message. False if it has not; then `kick` is still due."""
        if agent_id not in self._windows:
            return False
        self.kick(agent_id)
        return True

    def open(self, left_open: Iterable[Turn], ready: Iterable[str]) -> None:
        """From now on there is work. First the turns that an earlier process left open: whoever was kicked before that
        (by a result, by a new home) would begin with its queue, and two workers would go on with one turn."""
        early, self._early = self._early or set(), None
        for turn in left_open:
            self._start(turn.agent_id, turn)
        for agent_id in dict.fromkeys((*ready, *sorted(early))):
            self.kick(agent_id)

    @property
    def working(self) -> set[str]:
        return set(self._workers)

    async def close(self) -> None:
        """Stops where each turn stands. What is open stays open on disk and is taken up at the next start."""
        self._closing = True
        for alarm in self._alarms.values():
            alarm.cancel()
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        try:
            await self._store.write(suspend, at=Transition.TURN_SUSPEND)
        except HolonError as error:  # the next start then counts a crash; nothing is lost
            log.warning("open turns could not be marked as suspended: %s", error)

    def _start(self, agent_id: str, turn: Turn | None) -> None:
        self._workers[agent_id] = asyncio.get_running_loop().create_task(self._work(agent_id, turn))

    async def _work(self, agent_id: str, left_open: Turn | None) -> None:
        try:
            if left_open is not None:
                await self._resume(left_open)
            await self._drain(agent_id)
        except asyncio.CancelledError:
            raise
        except Fenced as error:
            log.error("%s", error)
            self._on_fenced()
        except StoreUnavailable as error:
            self.live.pop(agent_id, None)
            await self._outages.wait(agent_id, error)
            self._again.add(agent_id)
        except Exception:
            log.exception("the worker of agent %s failed", agent_id)
            stumbles = self._stumbles[agent_id] = self._stumbles.get(agent_id, 0) + 1
            self._wake_at(agent_id, min(RETRY_S * 2 ** min(stumbles - 1, 10), RETRY_AT_MOST_S))
        finally:
            self.live.pop(agent_id, None)
            self._workers.pop(agent_id, None)
            if agent_id in self._again and not self._closing:
                self._again.discard(agent_id)
                self._start(agent_id, None)

    async def _drain(self, agent_id: str) -> None:
        while True:
            self._again.discard(agent_id)
            at_rest = False
            async with self._slots:
                beginning, live = await self._begin(agent_id)
                if live is not None:
                    await self._run(agent_id, live)
                    at_rest = live.at_rest
            if isinstance(beginning, Reduced | AtRest) and beginning.told is not None:
                self._tell(beginning.told)
            match beginning:
                case Begun() if at_rest and agent_id not in self._again:
                    return
                case Begun() | Reduced():
                    continue
                case LeftOpen(turn=turn):
                    await self._resume_again(turn)
                case Held(until_ms=until_ms):
                    if until_ms is not None:
                        self._wake_at(agent_id, (until_ms - self._store.clock.now_ms()) / 1000)
                    return
                case AtRest():
                    if agent_id not in self._again:
                        return

    async def _begin(self, agent_id: str) -> tuple[Beginning, LiveTurn | None]:
        """What is to do, and the turn, if one has begun. Its first request is made while the disk is at work."""
        assembly = await self._assemble(agent_id)
        live: LiveTurn | None = None

        def enliven(beginning: Beginning) -> None:
            nonlocal live
            if isinstance(beginning, Begun) and live is None:
                live = self._enliven(beginning)

        try:
            beginning = await self._store.write(
                lambda tx: begin(tx, agent_id, limits=self._limits, assembly=assembly),
                at=Transition.TURN_BEGIN,
                meanwhile=enliven,
            )
        except BaseException as error:
            self._windows.forget(agent_id)  # it may have grown by what is not on disk
            recoverable = isinstance(error, Exception) and not isinstance(error, Fenced | StoreUnavailable)
            if not recoverable or not await self._gave_up(agent_id, error):
                raise
            return Reduced(), None
        self._stumbles.pop(agent_id, None)
        self._outages.over(agent_id)
        enliven(beginning)
        return beginning, live

    async def _gave_up(self, agent_id: str, error: BaseException) -> bool:
        """Whether the message that cannot be begun was set aside: after as many attempts as a crashing turn gets."""
        attempts = self._stumbles.get(agent_id, 0) + 1
        if attempts < self._limits.crash_attempts:
            return False
        log.error("agent %s: a message is set aside, it could not be begun: %r", agent_id, error)
        return await self._store.write(
            lambda tx: set_aside(tx, agent_id, attempts, error), at=Transition.MESSAGE_REDUCE
        )

    def _enliven(self, begun: Begun) -> LiveTurn:
        live = LiveTurn(begun.turn, begun.envelope, begun.stored.identity, begun.window, begun.prompt, [])
        self._driver.grow(live, begun.added)
        with suppress(Exception):  # the round makes it again, and fails where a failure ends the turn
            self._driver.prepare(live)
        return live

    async def _resume(self, turn: Turn) -> None:
        async with self._slots:
            begun, step = await self._store.write(
                lambda tx: resume(tx, turn.id, self._registry, self._limits, self._windows),
                at=Transition.TURN_RESUME,
            )
            live = LiveTurn(step.turn, begun.envelope, begun.stored.identity, begun.window, begun.prompt, step.begun)
            live.used = used_in(begun.stored.state, turn.id)
            live.nanodollars = await self._store.read(lambda tx: calls.spent_in_turn(tx, turn.agent_id, turn.id))
            live.aborting = step.turn.abort_requested  # asked for while the turn waited to be taken up
            self._driver.grow(live, step.added)
            await self._run(turn.agent_id, live)

    async def _resume_again(self, turn: Turn) -> None:
        taken = await self._store.write(lambda tx: take_up_again(tx, turn, self._limits), at=Transition.TURN_RESUME)
        if taken is not None:
            await self._resume(taken)
        elif (stored := await self._store.read(lambda tx: agents.get(tx, turn.agent_id))) is not None:
            self._tell(stored.identity.parent_agent_id)

    async def _run(self, agent_id: str, live: LiveTurn) -> None:
        live.progress_at = time.monotonic()
        self.live[agent_id] = live
        await self._driver.drive(live)
        self.live.pop(agent_id, None)
        self._tell(live.identity.parent_agent_id)

    def _tell(self, parent_id: str | None) -> None:
        """A child may have come to its end: then a result waits for its parent, or is brought when all is cleared."""
        if parent_id is not None:
            self.kick(parent_id)
            self.child_rested()

    def _wake_at(self, agent_id: str, in_s: float) -> None:
        if (earlier := self._alarms.pop(agent_id, None)) is not None:
            earlier.cancel()

        def ring() -> None:
            self._alarms.pop(agent_id, None)
            self.kick(agent_id)

        if not self._closing:
            self._alarms[agent_id] = asyncio.get_running_loop().call_later(max(0.0, in_s), ring)
