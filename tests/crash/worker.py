"""The worker: a process that opens a home, does deeds to it, and may be killed at any instant.

python -m tests.crash.worker --home DIR --plan tour|rest|<seed> [--seconds S] [--kill-at turn.begin:after:1]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from random import Random

import msgspec

from holon.core.clock import SystemClock
from holon.core.codec import Record
from holon.core.limits import Limits
from holon.core.timers import TimerStatus
from holon.providers.selection import Providers
from holon.runtime.host import Host
from holon.runtime.settings import Settings
from holon.store import Tx
from tests.crash import stage
from tests.crash.deeds import Deed, Plan, tour
from tests.crash.doing import SURFACE, Doer, until
from tests.crash.outside import Outside

#: A watchdog so impatient that a slow round of the scripted model is a stall.
IMPATIENT_MS = 80
#: Messages that may wait before the load holds back, so that a home can be worked off soon after.
BACKLOG = 25
AT_ONCE = 6
NOT_AT_REST = 3

#: Limits that would slow a crash test down or end its turns for other reasons than crashes.
LIMITS = Limits(
    turns_per_hour=1_000_000,
    self_turns=1_000_000,
    self_turns_free=1_000_000,
    wake_hints=1_000,
    crash_attempts=1_000,
    live_children=10_000,
    home_children=10_000,
)


class Job(Record, frozen=True, kw_only=True):
    """What one worker does."""

    home: str
    #: A load of this seed; `deeds` is a list instead; neither is a run to rest.
    seed: int | None = None
    deeds: list[Deed] | None = None
    #: When a load ends, if nobody kills it before.
    seconds: float = 5.0
    kill_at: str | None = None
    #: The watchdog's patience. Short, it says `stalled`; it also wakes agents that nobody else woke, so a run to rest
    #: must do without it.
    stall_ms: int = 120_000
    crash_attempts: int = LIMITS.crash_attempts
    days_ago: int = 0

    @property
    def outside(self) -> Path:
        return Path(self.home).parent / f"{Path(self.home).name}-outside"


class PastClock(SystemClock):
    def __init__(self, days: int) -> None:
        self._behind_ms = days * 86_400_000

    def now_ms(self) -> int:
        return super().now_ms() - self._behind_ms


def work(job: Job) -> int:
    """The whole life of a worker; its exit status."""
    if job.kill_at:
        os.environ["HOLON_KILL_AT"] = job.kill_at
    return asyncio.run(_live(job))


async def _live(job: Job) -> int:
    outside = Outside(job.outside)
    home = Path(job.home)
    settings = Settings(
        home=home,
        socket_path=home / "run" / "holon.sock",
        model_default="scripted/crash",
        limits=msgspec.structs.replace(LIMITS, stall_ms=job.stall_ms, crash_attempts=job.crash_attempts),
    )
    providers = Providers.builtin(home=home, scripts={"crash": stage.SCRIPT})
    clock = PastClock(job.days_ago)
    async with await Host.open(settings, clock=clock, providers=providers, tools=stage.tools(outside)) as host:
        (job.outside / f"ready-{os.getpid()}").touch()
        doer = Doer(host, outside)
        for deed in outside.unanswered():
            await doer.again(deed)
        if job.seed is None and job.deeds is None:
            return await _rest(host, job.seconds)
        if job.deeds is not None:
            await _walk(doer, outside, Plan(deeds=job.deeds))
        else:
            await _storm(host, doer, outside, Plan(seed=job.seed), time.monotonic() + job.seconds)
        await host.request_shutdown(SURFACE)
    return 0


async def _walk(doer: Doer, outside: Outside, plan: Plan) -> None:
    """A list, one deed after the other."""
    n = max(outside.intents(), default=-1) + 1
    while (deed := plan.deed(n)) is not None:
        await doer.do(deed)
        n += 1


async def _storm(host: Host, doer: Doer, outside: Outside, plan: Plan, end: float) -> None:
    """A load: several deeds at a time, without waiting for what they lead to."""
    n = max(outside.intents(), default=-1) + 1
    pace = Random()  # when a deed comes is left to chance: only what it is follows from the seed
    running: set[asyncio.Task[None]] = set()

    async def room() -> bool:
        return len(running) < AT_ONCE and await host.store.read(_waiting) <= BACKLOG

    while time.monotonic() < end and (deed := plan.deed(n)) is not None:
        if deed.verb == "create_agent":
            await doer.do(deed)
        else:
            task = asyncio.create_task(doer.do(deed))
            running.add(task)
            task.add_done_callback(running.discard)
        n += 1
        await asyncio.sleep(pace.uniform(0, 0.008))
        await until(room)
    await asyncio.gather(*running)


async def _rest(host: Host, seconds: float) -> int:
    """Holds nothing back, starts nothing new, and waits until all is worked off."""
    for agent_id in await host.store.read(_held):
        await host.lifecycle.resume(agent_id, SURFACE)
    for agent_id in await host.store.read(_agents):
        for timer in await host.timers.listing(agent_id, limit=1_000):
            if timer.status is TimerStatus.ACTIVE and timer.repeat:
                await host.timers.cancel(agent_id, timer.id, surface=SURFACE)

    async def nothing_left() -> bool:
        return not await host.store.read(_left)

    if await until(nothing_left, seconds):
        return 0
    print(f"not at rest: {await host.store.read(_left)}", file=sys.stderr)
    return NOT_AT_REST


def _waiting(tx: Tx) -> int:
    row = tx.one("SELECT SUM(pending) FROM counters")
    return int(row[0] or 0) if row else 0


def _held(tx: Tx) -> list[str]:
    rows = tx.all("SELECT id FROM agents WHERE registry_status = 'active' AND status IN ('paused', 'stopped')")
    return [row[0] for row in rows]


def _agents(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT id FROM agents WHERE visibility = 'public'")]


_UNDONE = {
    "messages": "SELECT message_id, status FROM queue WHERE status IN ('queued', 'dequeued')",
    "turns": "SELECT id, phase FROM turns WHERE phase <> 'terminal'",
    "timers": "SELECT id FROM timers WHERE status = 'active'",
    "tasks": "SELECT id FROM tasks WHERE status NOT IN ('completed', 'failed', 'cancelled')",
    "errands": "SELECT id FROM outbox",
    "hints": "SELECT id FROM wake_hints",
    "agents": "SELECT id, status FROM agents WHERE registry_status = 'active' AND status <> 'asleep'",
}


def _left(tx: Tx) -> dict[str, list[tuple[object, ...]]]:
    return {what: rows for what, sql in _UNDONE.items() if (rows := tx.all(sql))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.worker", description=__doc__)
    parser.add_argument("--home", required=True)
    parser.add_argument("--plan", default="rest", help="tour, rest, or the seed of a load")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--kill-at")
    asked = parser.parse_args()
    job = Job(home=asked.home, seconds=asked.seconds, kill_at=asked.kill_at)
    if asked.plan == "tour":
        job = msgspec.structs.replace(job, deeds=tour(), stall_ms=IMPATIENT_MS)
    elif asked.plan != "rest":
        job = msgspec.structs.replace(job, seed=int(asked.plan))
    sys.exit(work(job))


if __name__ == "__main__":
    main()
