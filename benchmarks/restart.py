"""Restart: a home with a long history and many agents. How soon is it ready again?

The history of one agent is made by the runtime's own steps (admit, begin, answer), so its records are the real ones;
the other agents get copies of it. Some messages still wait and some turns are open, as a killed process leaves them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import homes
from benchmarks.measures import Measure, Result, Scale, middle
from benchmarks.processes import fresh, seconds_until_ready
from benchmarks.progress import Progress
from holon.core.conversation import TextBlock
from holon.core.usage import TokenUsage
from holon.providers.attempts import RoundOutcome, timeline_of
from holon.providers.contract import AttemptOutcome, AttemptRecord, ProviderResponse, StopReason
from holon.providers.models import ModelTable
from holon.runtime.admission import admit
from holon.runtime.beginning import Assembly, Begun, begin
from holon.runtime.guiding import POLICY
from holon.runtime.host import Host
from holon.runtime.prompting import sent_of
from holon.runtime.rounds import Booking, RoundTimes, record_answer
from holon.runtime.windows import Windows
from holon.store import Store, Tx
from holon.tools.registry import ToolRegistry
from holon.tools.rest import SLEEP

LIMIT_S = 2.0
MODEL = "scripted/echo"
#: Agents whose histories are copied in one commit.
COMMIT_EVERY = 20


class Sizes(NamedTuple):
    messages: int
    agents: int
    #: Turns that were open, and messages that waited, when the process died.
    open_turns: int
    waiting: int
    repeats: int


SIZES = {
    Scale.QUICK: Sizes(60, 10, 2, 3, 1),
    Scale.NORMAL: Sizes(100_000, 1_000, 20, 100, 5),
    Scale.FULL: Sizes(300_000, 3_000, 60, 300, 9),
}


def measure(scale: Scale, progress: Progress) -> Result:
    sizes = SIZES[scale]
    with homes.scratch() as home:
        database = homes.settings_for(home).database_path
        _build(home, sizes, progress)
        size = database.stat().st_size
        opened, bare, served, empty = [], [], [], []
        for number in range(sizes.repeats):
            progress.say(f"start {number + 1} of {sizes.repeats}")
            bare.append(fresh(_open_bare, database))
            opened.append(fresh(_open_host, home))
            served.append(seconds_until_ready(home))
            with homes.scratch() as new:
                empty.append(seconds_until_ready(new))
    return Result(
        measures=[
            Measure(
                what=f"host ready, {sizes.messages:,} messages, {sizes.agents:,} agents",
                unit="s",
                ours=middle(opened),
                baseline=middle(bare),
                baseline_is="opening the database and counting its agents",
                limit=LIMIT_S,
                limit_is="until it works",
            ),
            Measure(
                what="'holon serve' ready on that home",
                unit="s",
                ours=middle(served),
                baseline=middle(empty),
                baseline_is="'holon serve' ready on an empty home",
                limit=LIMIT_S,
                limit_is="from the command to its ready line",
            ),
        ],
        details={
            **sizes._asdict(),
            "database_mb": round(size / 1e6),
            "first_host_s": round(opened[0], 3),
            "first_serve_s": round(served[0], 3),
        },
    )


def _build(home: Path, sizes: Sizes, progress: Progress) -> None:
    """One agent lives through its share of the history; the others are copies of it, with ids of their own."""
    database = homes.settings_for(home).database_path
    agents = [f"agent-{n:05}" for n in range(sizes.agents)]
    history, store = History(), Store(database)
    try:
        progress.say("the history of one agent is made")
        store.write_now(partial(homes.add_agents, home=home, agent_ids=agents[:1]))
        for _ in range(sizes.messages // sizes.agents):
            store.write_now(partial(history.turns, agent_ids=agents[:1]))
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            for number, agent_id in enumerate(agents[1:], start=1):
                if number % COMMIT_EVERY == 1:
                    progress.say(f"agent {number:,} of {sizes.agents:,} gets its history")
                    connection.execute("BEGIN IMMEDIATE")
                homes.make_folder(home, agent_id)
                _copy_agent(connection, agents[0], agent_id, number)
                if number % COMMIT_EVERY == 0 or number == len(agents) - 1:
                    connection.execute("COMMIT")
        store.write_now(partial(history.open_turns, agent_ids=agents[: sizes.open_turns]))
        store.write_now(partial(history.waiting, agent_ids=agents[-sizes.waiting :]))
    finally:
        store.close()


def _copy_agent(connection: sqlite3.Connection, source: str, target: str, number: int) -> None:
    """Copies every row of an agent, in every table that has agents. Ids begin with `_01` and their time until 2079."""
    for table, owner, columns in _tables(connection):
        copied = ", ".join(f"REPLACE(REPLACE({column}, :source, :target), '_01', :ids)" for column in columns)
        connection.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {copied} FROM {table} WHERE {owner} = :source",
            {"source": source, "target": target, "ids": f"_01{number:04x}"},
        )


@cache
def _tables(connection: sqlite3.Connection) -> list[tuple[str, str, list[str]]]:
    """(table, the column that says whose row it is, all columns)."""
    found = []
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        owner = {"agents": "id", "counters": "scope"}.get(table, "agent_id")
        if owner in columns:
            found.append((table, owner, columns))
    return found


class History:
    """The steps of short turns, as the dispatcher takes them, without waiting for anything."""

    def __init__(self) -> None:
        self._registry = ToolRegistry.of([SLEEP])
        self._assembly = Assembly(
            windows=Windows(),
            models=ModelTable(),
            model_default=MODEL,
            tools=self._registry.specs(),
            sections=POLICY,
        )
        usage = TokenUsage.of(1_000, 6)
        attempt = AttemptRecord(
            provider="scripted",
            model_ref=MODEL,
            attempt=1,
            max_attempts=3,
            outcome=AttemptOutcome.SUCCEEDED,
            advanced_to_fallback=False,
            duration_ms=0.1,
            token_usage=usage,
        )
        response = ProviderResponse(blocks=[TextBlock(text=homes.TEXT)], stop_reason=StopReason.END_TURN, usage=usage)
        self._outcome = RoundOutcome(response=response, timeline=timeline_of(MODEL, [attempt]))

    def turns(self, tx: Tx, agent_ids: Iterable[str]) -> None:
        for agent_id in agent_ids:
            begun = self._begin(tx, agent_id)
            booking = Booking(self._assembly.models.card(MODEL), sent_of(begun.prompt, begun.window))
            times = RoundTimes(0.0, tx.now_ms, tx.now_ms, 0.1)
            step = record_answer(tx, begun.turn, self._outcome, times, booking, self._registry, homes.UNBOUND)
            begun.prompt.was_sent(booking.sent, [])
            self._assembly.windows.grow(agent_id, begun.window, begun.prompt, step.added)

    def open_turns(self, tx: Tx, agent_ids: Iterable[str]) -> None:
        for agent_id in agent_ids:
            self._begin(tx, agent_id)

    def waiting(self, tx: Tx, agent_ids: Iterable[str]) -> None:
        for agent_id in agent_ids:
            admit(tx, agent_id, homes.prompt(agent_id), homes.UNBOUND)

    def _begin(self, tx: Tx, agent_id: str) -> Begun:
        self.waiting(tx, [agent_id])
        begun = begin(tx, agent_id, limits=homes.UNBOUND, assembly=self._assembly)
        assert isinstance(begun, Begun)
        self._assembly.windows.grow(agent_id, begun.window, begun.prompt, begun.added)
        return begun


def _open_host(home: Path) -> float:
    async def open_() -> float:
        started = time.perf_counter()
        async with await Host.open(homes.settings_for(home)):
            return time.perf_counter() - started

    return homes.run(open_())


def _open_bare(database: Path) -> float:
    started = time.perf_counter()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT COUNT(*) FROM agents").fetchone()
        return time.perf_counter() - started
