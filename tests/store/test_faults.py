"""A process that is killed around a commit: before it nothing is on disk, after it everything."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holon.core.errors import InvalidSettings
from holon.core.transitions import Transition
from holon.store.faults import FaultPlan

PROGRAM = """
import asyncio, sys
from pathlib import Path
from holon.core.event_kinds import ControlApplied
from holon.core.transitions import Transition
from holon.store import Store

store = Store(Path(sys.argv[1]))

def write(key):
    def run(tx):
        tx.run("INSERT INTO idempotency VALUES ('t', ?, '', '', 0)", key)
        tx.emit("main", ControlApplied(action=key, surface="test"))
        if key == "fails":
            raise ValueError(key)
    return run

async def main():
    await store.write(write("plain"), Transition.AUDIT)
    for key in sys.argv[2:]:
        try:
            await store.write(write(key), Transition.MESSAGE_ADMIT)
        except ValueError:
            pass
        print(key, flush=True)

asyncio.run(main())
store.close()
"""


def _run(path: Path, kill_at: str, *keys: str) -> tuple[int, list[str], set[str]]:
    """The exit status, what was acknowledged, and what is on disk afterwards."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), *keys],
        env={**os.environ, "HOLON_KILL_AT": kill_at},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    with closing(sqlite3.connect(path)) as connection:
        found = {row[0] for row in connection.execute("SELECT key FROM idempotency")}
        events = [row[0] for row in connection.execute("SELECT seq FROM events ORDER BY seq")]
        assert events == list(range(1, len(found) + 1))
        assert connection.execute("SELECT event_seq FROM counters").fetchall() == [(len(found),)]
    return ran.returncode, ran.stdout.split(), found


@pytest.mark.parametrize(
    ("kill_at", "acknowledged", "on_disk"),
    [
        ("message.admit:before:1", [], {"plain"}),
        ("message.admit:after:1", [], {"plain", "one"}),
        ("message.admit:before:2", ["one"], {"plain", "one"}),
        ("message.admit:after:2", ["one"], {"plain", "one", "two"}),
        ("message.admit:after", [], {"plain", "one"}),
    ],
)
def test_a_kill_before_the_commit_leaves_nothing_and_after_it_everything(
    path: Path, kill_at: str, acknowledged: list[str], on_disk: set[str]
):
    assert _run(path, kill_at, "one", "two", "three") == (-9, acknowledged, on_disk)


@pytest.mark.parametrize("kill_at", ["turn.begin:after:1", "message.admit:before:9", ""])
def test_a_place_that_is_not_reached_kills_nobody(path: Path, kill_at: str):
    assert _run(path, kill_at, "one", "two") == (0, ["one", "two"], {"plain", "one", "two"})


def test_a_write_that_fails_is_no_commit_and_is_not_counted(path: Path):
    assert _run(path, "message.admit:after:2", "fails", "one", "two", "three") == (
        -9, ["fails", "one"], {"plain", "one", "two"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "turn.begin", "turn.begin:during", "nowhere:after:1", "turn.begin:after:x", "turn.begin:after:0",
        "turn.begin:after:-1", "turn.begin:after:1:2", "turn.begin:after:²", ":after:1", "turn.begin::1",
    ],
)  # fmt: skip
def test_a_place_that_cannot_be_is_refused_with_how_to_write_it(text: str):
    with pytest.raises(InvalidSettings, match=r"names no place.*turn\.begin:after:1"):
        FaultPlan.from_environment({"HOLON_KILL_AT": text})


def test_no_place_is_no_plan():
    assert FaultPlan.from_environment({}) is None
    assert FaultPlan.from_environment({"HOLON_KILL_AT": ""}) is None


@pytest.mark.parametrize("transition", Transition)
def test_every_transition_can_be_named(transition: Transition):
    plan = FaultPlan.from_environment({"HOLON_KILL_AT": f"{transition}:before:3"})
    assert plan is not None
    assert (plan.transition, plan.moment, plan.remaining) == (transition, "before", 3)
