"""A campaign: one home under load, killed at random instants and started again, then worked off and looked over."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.invariants import broken
from tests.crash.nursery import Nursery
from tests.crash.remains import Remains, has_begun, read_remains
from tests.crash.worker import Job

REST_S = 15.0
#: One kill in so many falls into the start itself: opening, recovery, the first steps.
EARLY = 5


@dataclass(slots=True)
class Tally:
    """What a campaign did, for the table at its end."""

    kills: int = 0
    messages: int = 0
    turns: int = 0
    resumed: int = 0
    tool_calls: int = 0
    interrupted: int = 0
    quarantined: int = 0
    events: int = 0
    seconds: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(slots=True)
class Campaign:
    home: Path
    seed: int
    nursery: Nursery
    #: After how many deaths at one step a message is set aside; a high number leaves every message to be worked off.
    crash_attempts: int = 1_000
    on_kill: Callable[[], None] = lambda: None
    _intake: dict[str, str] = field(default_factory=dict)

    def run(self, kills: int) -> Tally:
        """Kills so often and checks each time; then runs to rest and checks everything. Raises what is wrong."""
        began = time.monotonic()
        random = Random(self.seed)
        for number in range(kills):
            self._live_and_die(random)
            self._check(f"after kill {number + 1}", at_rest=False)
            self.on_kill()
        run_to_rest(self.nursery, self.home, crash_attempts=self.crash_attempts)
        self._check("at rest", at_rest=True)
        return _tally(read_remains(self.home), kills, time.monotonic() - began)

    def _live_and_die(self, random: Random) -> None:
        job = Job(home=str(self.home), seed=self.seed, seconds=30, crash_attempts=self.crash_attempts)
        worker = self.nursery.start(job)
        early, uptime = random.randrange(EARLY) == 0, random.uniform(0.03, 0.3)
        if early:
            time.sleep(random.uniform(0, 0.06))
        elif worker.wait_until_ready():
            time.sleep(uptime)
        ended = worker.kill()
        assert ended == -signal.SIGKILL, f"{self._where()}: the worker ended by itself ({ended}):\n{worker.said()}"

    def _check(self, when: str, *, at_rest: bool) -> None:
        if not has_begun(self.home):
            return
        remains = read_remains(self.home)
        wrong = broken(remains, at_rest=at_rest) + self._rewritten(remains)
        assert not wrong, f"{self._where()}, {when}:\n" + "\n".join(wrong)

    def _rewritten(self, remains: Remains) -> list[str]:
        """The intake log only grows: what was in it once is in it still, as it was."""
        kept = {row["id"]: _hash(row["envelope"]) for row in remains.messages.values()}
        changed = [message_id for message_id, seen in self._intake.items() if kept.get(message_id) != seen]
        self._intake = kept
        return [f"message {message_id} was rewritten or removed" for message_id in changed]

    def _where(self) -> str:
        return f"seed {self.seed}, home {self.home}"


def run_to_rest(nursery: Nursery, home: Path, *, crash_attempts: int = 1_000) -> None:
    """Starts the home once more, without load and without kills, until there is nothing left to do."""
    worker = nursery.start(Job(home=str(home), seconds=REST_S, crash_attempts=crash_attempts))
    ended = worker.wait(REST_S + 5)
    assert ended == 0, f"{home} does not come to rest ({ended}):\n{worker.said()}"


def _tally(remains: Remains, kills: int, seconds: float) -> Tally:
    return Tally(
        kills=kills,
        messages=len(remains.messages),
        turns=len(remains.turns),
        resumed=len(remains.events_of("turn_resumed")),
        tool_calls=len(remains.tool_calls),
        interrupted=len(remains.events_of("tool_call_interrupted")),
        quarantined=len(remains.events_of("message_quarantined")),
        events=len(remains.events),
        seconds=seconds,
    )


def _hash(envelope: object) -> str:
    return hashlib.sha256(repr(envelope).encode()).hexdigest()
