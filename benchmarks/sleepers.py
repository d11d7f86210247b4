"""Sleepers: ten thousand agents that have worked once and sleep in one process. What they cost, how fast one wakes."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks import homes
from benchmarks.measures import Measure, Result, Scale, middle, quantile
from benchmarks.progress import Progress
from holon.runtime.host import Host

ALONE = "alone"
LIMIT_MB = 300
LIMIT_MS = 100
#: Agents that are prompted at the same time: in the first half of the prompts one, in the second half so many.
TOGETHER = 8


class Sizes(NamedTuple):
    agents: int
    prompts: int


SIZES = {Scale.QUICK: Sizes(40, 16), Scale.NORMAL: Sizes(10_000, 200), Scale.FULL: Sizes(50_000, 1_000)}


class Found(NamedTuple):
    empty_mb: float
    full_mb: float
    #: Seconds until the answer, with one agent in the home and with all of them.
    alone: list[float]
    random: list[float]


def measure(scale: Scale, progress: Progress) -> Result:
    sizes = SIZES[scale]
    with homes.scratch() as home:
        found = homes.run(_sleepers(home, sizes, progress))
    return Result(
        measures=[
            Measure(
                what=f"memory of {sizes.agents:,} sleeping agents",
                unit="MB",
                ours=found.full_mb - found.empty_mb,
                baseline=found.empty_mb,
                baseline_is="the same process with an empty host",
                limit=LIMIT_MB,
                limit_is="above the empty host",
            ),
            Measure(
                what="a prompt to one of them, p99",
                unit="ms",
                ours=quantile(found.random, 0.99) * 1000,
                baseline=quantile(found.alone, 0.99) * 1000,
                baseline_is="a prompt to the only agent of a home, p99",
                limit=LIMIT_MS,
                limit_is="until the answer is on disk",
            ),
        ],
        details={
            "agents": sizes.agents,
            "prompts": sizes.prompts,
            "bytes_per_agent": round((found.full_mb - found.empty_mb) * 1e6 / sizes.agents),
            "p50_ms": round(middle(found.random) * 1000, 2),
            "alone_p50_ms": round(middle(found.alone) * 1000, 2),
        },
    )


async def _sleepers(home: Path, sizes: Sizes, progress: Progress) -> Found:
    agents = [f"agent-{n}" for n in range(sizes.agents)]
    async with await Host.open(homes.settings_for(home), providers=homes.instant()) as host:
        await host.store.write(lambda tx: homes.add_agents(tx, home, [ALONE]))
        turns = await homes.Turns.of(host, ALONE)
        alone = [await turns.run(ALONE) for _ in range(sizes.prompts)]
        empty_mb = _resident_mb()
        progress.say(f"{sizes.agents:,} agents are made")
        await host.store.write(lambda tx: homes.add_agents(tx, home, agents))
        for first in range(0, len(agents), 500):
            progress.say(f"agent {first:,} of {sizes.agents:,} has its first turn")
            await _prompt(turns, agents[first : first + 500], at_once=64)
        full_mb = _resident_mb()
        progress.say(f"{sizes.prompts} random ones are prompted")
        chosen = random.Random(7).sample(agents, min(sizes.prompts, len(agents)))
        half = len(chosen) // 2
        random_ = [*await _prompt(turns, chosen[:half], at_once=1), *await _prompt(turns, chosen[half:], TOGETHER)]
        await turns.check()
    return Found(empty_mb, max(full_mb, _resident_mb()), alone, random_)


async def _prompt(turns: homes.Turns, agents: list[str], at_once: int) -> list[float]:
    """Prompts each agent once, so many at the same time; the seconds of each."""
    waiting = iter(agents)
    seconds: list[float] = []

    async def one_after_the_other() -> None:
        for agent_id in waiting:
            seconds.append(await turns.run(agent_id))

    async with asyncio.timeout(homes.WAIT_S):
        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
    return seconds


def _resident_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6
