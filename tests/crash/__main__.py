"""`make crash KILLS=n`: kills the runtime at n random instants and looks each time at what is left."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.crash.campaign import Campaign, Tally
from tests.crash.nursery import Nursery

KILLS_PER_HOME = 50


class Progress:
    """One line that is written over on a terminal, and now and then elsewhere."""

    def __init__(self, kills: int) -> None:
        self._kills, self._done, self._began = kills, 0, time.monotonic()
        self._lock = threading.Lock()

    def kill(self) -> None:
        with self._lock:
            self._done += 1
            words = f"{self._done}/{self._kills} kills, {time.monotonic() - self._began:.0f} s"
            if sys.stdout.isatty():
                print(f"\r{words} ", end="" if self._done < self._kills else "\n", flush=True)
            elif self._done % 100 == 0 or self._done == self._kills:
                print(words, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, help="play the load of this seed again (kills still fall by chance)")
    parser.add_argument("--at-once", type=int, default=2 * (os.cpu_count() or 1), help="homes at the same time")
    asked = parser.parse_args()
    first = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000)
    shares = [min(KILLS_PER_HOME, asked.kills - done) for done in range(0, asked.kills, KILLS_PER_HOME)]
    progress = Progress(asked.kills)
    print(f"{asked.kills} kills on {len(shares)} homes, seeds from {first}", flush=True)

    folder = Path(tempfile.mkdtemp(prefix="holon-crash-"))

    def campaign(number: int) -> Tally | str:
        # Every other home sets messages aside that were open in three crashes, as a real one does.
        crash_attempts = 3 if number % 2 else 1_000
        with Nursery() as nursery:
            home = folder / f"home-{number}"
            plan = Campaign(home, first + number, nursery, crash_attempts=crash_attempts, on_kill=progress.kill)
            try:
                return plan.run(shares[number])
            except AssertionError as error:
                return str(error)

    with ThreadPoolExecutor(min(asked.at_once, len(shares)) or 1) as pool:
        outcomes = list(pool.map(campaign, range(len(shares))))
    return _report([o for o in outcomes if isinstance(o, Tally)], [o for o in outcomes if isinstance(o, str)], folder)


def _report(tallies: list[Tally], wrong: list[str], folder: Path) -> int:
    total = sum(tallies, Tally())
    print("\n| what | how many |\n|---|---:|")
    for name in ("kills", "messages", "turns", "resumed", "tool_calls", "interrupted", "quarantined", "events"):
        print(f"| {name.replace('_', ' ')} | {getattr(total, name):,} |")
    print(f"| homes that are wrong | {len(wrong)} |")
    if not wrong:
        print("\nNothing lost, nothing done twice.")
        shutil.rmtree(folder)
        return 0
    for words in wrong:
        print(f"\n{words}", file=sys.stderr)
    print(f"\nThe homes are in {folder}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
