"""Homes: scratch homes on the project's own disk, hosts on them, and prompts whose end one can wait for."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.processes import remove
from holon.cli.entry import GC_THRESHOLDS
from holon.core.agents import (
    AgentIdentity,
    AgentKind,
    AgentState,
    AgentStatus,
    Ownership,
    ProfilePreset,
    RegistryStatus,
    Visibility,
)
from holon.core.clock import moment
from holon.core.conversation import ModelBlock, TextBlock, UserText
from holon.core.limits import Limits
from holon.core.messages import AdmissionContext, DeliverySurface, MessageKind, OperatorOrigin, TextBody
from holon.core.usage import TokenUsage
from holon.providers.contract import OnProgress, ProviderRequest, ProviderResponse, StopReason
from holon.providers.selection import ProviderEntry, Providers
from holon.runtime.admission import Admission
from holon.runtime.host import Host
from holon.runtime.settings import Settings, load_settings
from holon.store import Tx, agents, events

T = TypeVar("T")

SCRATCH = Path(__file__).resolve().parents[1] / "build" / "bench"
TEXT = "say hello to everyone"
#: A short turn of the scripted model: admitted, begun, settled.
COMMITS_PER_TURN = 3

#: Longer than anything here may take; what takes longer hangs.
WAIT_S = 60.0

#: Nothing that is measured here should be held back by what protects a real home.
UNBOUND = Limits(turns_per_hour=1_000_000_000, queue_length=1_000_000_000)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards. Not in /tmp, which may be memory, where durability costs nothing."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    try:
        yield folder
    finally:
        remove(folder)


def settings_for(home: Path, **overrides: Any) -> Settings:
    return load_settings(home, {}, limits=UNBOUND, **overrides)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """On the loop that `holon serve` uses, and with its thresholds."""
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        from uvloop import new_event_loop
    except ImportError:
        new_event_loop = None  # type: ignore[assignment]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(coroutine)


class Instant:
    """A model that takes no time: it repeats the newest input and looks at nothing else of the conversation."""

    name = "scripted"

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        newest = request.conversation[-1]
        assert isinstance(newest, UserText)
        blocks: list[ModelBlock] = [TextBlock(text=newest.text.partition("\n")[2])]
        return ProviderResponse(blocks=blocks, stop_reason=StopReason.END_TURN, usage=TokenUsage.of(1_000, 6))


def instant() -> Providers:
    """Instead of the scripted model, whose echo reads the whole conversation to find out what it is in."""
    return Providers([ProviderEntry("scripted", "instant")], {"instant": lambda _entry: Instant()})


def prompt(agent_id: str) -> Admission:
    return Admission(
        agent_id=agent_id,
        kind=MessageKind.OPERATOR_PROMPT,
        origin=OperatorOrigin(),
        body=TextBody(text=TEXT),
        surface=DeliverySurface.CLI_PROMPT,
        context=AdmissionContext.LOCAL_PROCESS,
    )


def add_agents(tx: Tx, home: Path, agent_ids: Iterable[str]) -> None:
    """Agents at rest, as the directory makes them, with a folder each. What would stand in it is left out."""
    for agent_id in agent_ids:
        make_folder(home, agent_id)
        identity = AgentIdentity(
            agent_id=agent_id,
            agent_home=str(home / "agents" / agent_id),
            kind=AgentKind.NAMED,
            visibility=Visibility.PUBLIC,
            ownership=Ownership.SELF_OWNED,
            profile_preset=ProfilePreset.PUBLIC_NAMED,
            status=RegistryStatus.ACTIVE,
            created_at=moment(tx.now_ms),
        )
        agents.insert(tx, identity, AgentState(id=agent_id, status=AgentStatus.ASLEEP))


def make_folder(home: Path, agent_id: str) -> None:
    (home / "agents" / agent_id).mkdir(parents=True, exist_ok=True)


class Turns:
    """Prompts and the ends of their turns, seen from outside.

    The end is heard from the commits, not read from the store: a short turn leaves the same number of events each
    time, and the last of them are committed when it is settled. `check` makes sure afterwards that this was so.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._newest: dict[str, int] = {}
        self._open: dict[str, tuple[int, asyncio.Future[float]]] = {}
        self._events_per_turn = 0
        #: Commits that brought events, and turns that have ended.
        self.commits = self.turns = 0

    @classmethod
    async def of(cls, host: Host, agent_id: str) -> Turns:
        """Learns from the second turn of this agent what a turn leaves; the first one leaves a little more."""
        turns = cls(host)
        host.store.listen(turns._committed)
        for _ in range(2):
            before = (await host.store.read(lambda tx: events.bounds(tx, agent_id))).newest
            await host.inbox.admit(prompt(agent_id))
            async with asyncio.timeout(WAIT_S):
                while host.dispatcher.working:  # noqa: ASYNC110 - only here; from then on the commits tell
                    await asyncio.sleep(0.001)
            turns._events_per_turn = turns._newest[agent_id] - before
            turns.turns += 1
        return turns

    async def run(self, agent_id: str) -> float:
        """Prompts an agent at rest; seconds until the loop hears that its turn is settled on disk."""
        settled: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._open[agent_id] = (self._newest.get(agent_id, 0) + self._events_per_turn, settled)
        started = time.perf_counter()
        await self._host.inbox.admit(prompt(agent_id))
        seconds = await settled - started
        self.turns += 1
        looks = 0
        while agent_id in self._host.dispatcher.working:
            looks += 1
            await asyncio.sleep(0 if looks < 3 else 0.001)  # who only ever yields keeps the writer from its work
        return seconds

    async def check(self) -> None:
        """Every turn has ended: nothing was measured that did not happen."""
        counts = dict(await self._host.store.read(_phases))
        if counts != {"terminal": self.turns}:
            raise RuntimeError(f"{self.turns} turns were measured, but the store has {counts}")

    def _committed(self, grown: dict[str, int]) -> None:
        self.commits += 1
        for agent_id, newest in grown.items():
            self._newest[agent_id] = newest
            last, settled = self._open.get(agent_id, (newest + 1, None))
            if settled is not None and newest >= last:
                del self._open[agent_id]
                settled.set_result(time.perf_counter())


def _phases(tx: Tx) -> list[tuple[str, int]]:
    return [(row[0], row[1]) for row in tx.all("SELECT phase, COUNT(*) FROM turns GROUP BY phase")]
