"""Turn: what the runtime itself costs for one short turn, in time and on disk, and whether that stays so.

The model takes no time, so all that is left is ours. One agent, one turn after the other: nothing shares a commit,
which is the dearest case.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import bare, homes
from benchmarks.measures import Measure, Result, Scale, middle, quantile
from benchmarks.progress import Progress
from holon.runtime.host import Host

OLD, NEW = "old", "new"
WARM_UP = 10
LIMIT_BYTES = 10_000
FLAT = 1.2


class Sizes(NamedTuple):
    #: Turns of the one agent, in all.
    turns: int
    #: Turns between two signs of progress.
    block: int
    #: Turns at the beginning and at the end that are compared.
    edge: int


SIZES = {
    Scale.QUICK: Sizes(30, 10, 10),
    Scale.NORMAL: Sizes(10_000, 250, 500),
    Scale.FULL: Sizes(30_000, 250, 1_000),
}


class Blocks(NamedTuple):
    """Seconds of every turn, and among them the seconds of the commits that one turn needs."""

    turns: list[float]
    baselines: list[float]
    #: The same agent after all these turns, and a new one: alternating, so that the comparison sees one machine.
    old: list[float]
    new: list[float]
    commits_per_turn: float
    pages_per_turn: float
    bytes_per_turn: float


def measure(scale: Scale, progress: Progress) -> Result:
    sizes = SIZES[scale]
    with homes.scratch() as home:
        found = homes.run(_turns(home, sizes, progress))
        content = _content_bytes(homes.settings_for(home).database_path)
    own, floor = middle(found.turns), middle(found.baselines)
    first, last = middle(found.turns[: sizes.edge]), middle(found.turns[-sizes.edge :])
    old, new = middle(found.old), middle(found.new)
    measures = [
        Measure(
            what="own time per turn",
            unit="ms",
            ours=own * 1000,
            baseline=floor * 1000,
            baseline_is=f"{homes.COMMITS_PER_TURN} durable commits of as many pages, bare SQLite",
            limit=3 * floor * 1000,
            limit_is="3 × the commits that it needs",
        ),
        Measure(
            what=f"turn {sizes.turns:,} beside turn {WARM_UP}",
            unit="ms",
            ours=last * 1000,
            baseline=first * 1000,
            baseline_is="the first turns of the same agent",
            limit=FLAT * first * 1000,
            limit_is=f"{FLAT} × the first",
        ),
        Measure(
            what="an old agent beside a new one",
            unit="ms",
            ours=old * 1000,
            baseline=new * 1000,
            baseline_is="an agent that has just begun, turn by turn in the same minute",
            limit=FLAT * new * 1000,
            limit_is=f"{FLAT} × the new one",
        ),
        Measure(
            what="a short turn on disk",
            unit="bytes",
            ours=found.bytes_per_turn,
            baseline=content,
            baseline_is="the records themselves, without pages and indexes",
            limit=LIMIT_BYTES,
            limit_is="10 KB",
        ),
    ]
    details: dict[str, Any] = {
        "turns": sizes.turns,
        "commits_per_turn": found.commits_per_turn,
        "pages_per_turn": found.pages_per_turn,
        "p99_ms": round(quantile(found.turns, 0.99) * 1000, 3),
        "median_ms_by_tenth": [round(middle(part) * 1000, 3) for part in _parts(found.turns, 10)],
        "baseline_ms_by_tenth": [round(middle(part) * 1000, 3) for part in _parts(found.baselines, 10)],
    }
    if os.environ.get("WITH_LANGGRAPH"):
        from benchmarks import langgraph_turns

        beside, peer = langgraph_turns.measure(scale, progress, own=own, own_bytes=found.bytes_per_turn)
        measures += beside
        details["langgraph"] = peer
    return Result(measures=measures, details=details)


async def _turns(home: Path, sizes: Sizes, progress: Progress) -> Blocks:
    settings = homes.settings_for(home)
    async with await Host.open(settings, providers=homes.instant()) as host:
        await host.store.write(lambda tx: homes.add_agents(tx, home, [OLD, NEW]))
        turns = await homes.Turns.of(host, OLD)
        async with asyncio.timeout(homes.WAIT_S):
            for _ in range(WARM_UP - turns.turns):
                await turns.run(OLD)
        before, commits, begun = host.store.size_bytes(), turns.commits, turns.turns
        disk = bare.DurableCommits(home / "bare.sqlite3")
        pages = await _pages_per_turn(settings.database_path, turns)
        needed = [round(pages / homes.COMMITS_PER_TURN)] * homes.COMMITS_PER_TURN
        times: list[float] = []
        baselines: list[float] = []
        while len(times) < sizes.turns:
            progress.say(f"turn {len(times):,} of {sizes.turns:,}")
            async with asyncio.timeout(homes.WAIT_S):
                for number in range(sizes.block):
                    times.append(await turns.run(OLD))
                    if number % 5 == 0:  # in between, so that both see the same neighbours
                        baselines.append(disk.write(needed))
        disk.close()
        counted = turns.turns - begun
        commits_per_turn = (turns.commits - commits) / counted
        bytes_per_turn = (host.store.size_bytes() - before) / counted
        for _ in range(WARM_UP):
            await turns.run(NEW)
        progress.say("an old agent beside a new one")
        pairs = [(await turns.run(OLD), await turns.run(NEW)) for _ in range(sizes.edge)]
        await turns.check()
    return Blocks(
        times, baselines, [old for old, _ in pairs], [new for _, new in pairs], commits_per_turn, pages, bytes_per_turn
    )


async def _pages_per_turn(database: Path, turns: homes.Turns) -> float:
    """What the commits of one turn give to the disk: whole pages, as SQLite writes them."""
    count = 50
    bare.fold_in(database)
    for _ in range(count):
        await turns.run(OLD)
    return bare.log_pages(database) / count


def _content_bytes(database: Path) -> float:
    """The bytes in all columns of what turns leave, per turn."""
    total = 0
    with closing(sqlite3.connect(database)) as connection:
        for table in ("messages", "queue", "turns", "transcript", "briefs", "events"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            lengths = " + ".join(f"COALESCE(LENGTH(CAST({column} AS BLOB)), 0)" for column in columns)
            total += connection.execute(f"SELECT COALESCE(SUM({lengths}), 0) FROM {table}").fetchone()[0]
        (turns,) = connection.execute("SELECT COUNT(*) FROM turns").fetchone()
    return float(total / max(1, turns))


def _parts(values: list[float], parts: int) -> list[list[float]]:
    step = max(1, len(values) // parts)
    return [values[first : first + step] for first in range(0, len(values) - step + 1, step)]
