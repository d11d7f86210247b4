"""Admission: how many messages 64 producers can get onto the disk, beside what plain SQLite could take.

The agents are busy (their model thinks for longer than the benchmark runs), so that only admission is measured.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import bare, homes
from benchmarks.measures import Bound, Measure, Result, Scale, middle, quantile
from benchmarks.progress import Progress
from holon.providers.selection import Providers
from holon.runtime.host import Host

PRODUCERS = 64
AGENTS = [f"agent-{n}" for n in range(8)]
#: Rounds, and messages that each producer sends in one.
SIZES = {Scale.QUICK: (1, 3), Scale.NORMAL: (15, 60), Scale.FULL: (31, 150)}

_THINKING = """
rules:
  - when: {}
    rounds:
      - {text: done, delay_ms: 3600000}
"""


class Round(NamedTuple):
    per_second: float
    ceiling: float
    batch: float
    latencies: list[float]


def measure(scale: Scale, progress: Progress) -> Result:
    rounds, each = SIZES[scale]
    found: list[Round] = []
    for number in range(rounds):
        progress.say(f"round {number + 1} of {rounds}, {PRODUCERS} producers × {each} messages")
        with homes.scratch() as home:
            found.append(_round(home, each))
    ceiling = middle([round_.ceiling for round_ in found])
    latencies = [latency for round_ in found for latency in round_.latencies]
    return Result(
        measures=[
            Measure(
                what=f"durable admissions, {PRODUCERS} producers",
                unit="/s",
                ours=middle([round_.per_second for round_ in found]),
                baseline=ceiling,
                baseline_is="the same rows in batches of the same size, bare SQLite, one thread",
                limit=ceiling / 2,
                limit_is="half of the baseline",
                bound=Bound.AT_LEAST,
            ),
        ],
        details={
            "rounds": rounds,
            "messages_per_round": PRODUCERS * each,
            "batch": round(middle([round_.batch for round_ in found]), 1),
            "ratios": [round(round_.per_second / round_.ceiling, 3) for round_ in found],
            "per_second": [round(round_.per_second) for round_ in found],
            "ceiling_per_second": [round(round_.ceiling) for round_ in found],
            "p50_ms": round(quantile(latencies, 0.5) * 1000, 2),
            "p99_ms": round(quantile(latencies, 0.99) * 1000, 2),
        },
    )


def _round(home: Path, each: int) -> Round:
    """Ours, then the baseline with the rows that ours left."""
    seconds, commits, latencies = homes.run(_admit(home, each))
    rows = bare.admitted_rows(homes.settings_for(home).database_path)
    count = PRODUCERS * each
    assert len(rows) == count, f"{count} messages were admitted, {len(rows)} are on disk"
    batch = count / commits
    baseline = bare.write_admissions(home / "bare.sqlite3", rows, max(1, round(batch)))
    return Round(count / seconds, count / baseline, batch, latencies)


async def _admit(home: Path, each: int) -> tuple[float, int, list[float]]:
    settings = homes.settings_for(home, model_default="scripted/thinking")
    async with await Host.open(settings, providers=Providers.builtin(scripts={"thinking": _THINKING})) as host:
        await host.store.write(lambda tx: homes.add_agents(tx, home, AGENTS))
        for agent_id in AGENTS:
            await host.inbox.admit(homes.prompt(agent_id))
        async with asyncio.timeout(homes.WAIT_S):
            while len(host.dispatcher.live) < len(AGENTS):  # noqa: ASYNC110 - nobody announces that a model thinks
                await asyncio.sleep(0.005)
        commits = 0
        latencies: list[float] = []

        def committed(_grown: dict[str, int]) -> None:
            nonlocal commits
            commits += 1

        async def produce(agent_id: str) -> None:
            for _ in range(each):
                began = time.perf_counter()
                await host.inbox.admit(homes.prompt(agent_id))
                latencies.append(time.perf_counter() - began)

        host.store.listen(committed)
        started = time.perf_counter()
        async with asyncio.timeout(homes.WAIT_S):
            await asyncio.gather(*(produce(AGENTS[n % len(AGENTS)]) for n in range(PRODUCERS)))
        return time.perf_counter() - started, commits, latencies
