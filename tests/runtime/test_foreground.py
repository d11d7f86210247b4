"""Commands of a call that is aborted: no process, no folder, no record is left, wherever the abort met it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holon.core.errors import HolonError
from holon.tasks.processes import listing
from holon.tools.registry import CallContext, Tool, ToolOutcome
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, NoteInput, soon
from tests.runtime.test_hands import call, script

#: Aborts, and between two of them how much later the next one comes.
POINTS = 30
STEP_S = 0.006


async def abort(life: Any) -> None:
    with contextlib.suppress(HolonError):  # it may be over
        await life.host.lifecycle.abort("main", surface=SURFACE)


def running_here(home: Path) -> list[int]:
    """Processes of commands that work in this home."""
    found = []
    for process in listing():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}/cwd").resolve().is_relative_to(home / "agents"):
                found.append(process.pid)
    return found


async def assert_nothing_is_left(life: Any, home: Path) -> None:
    await life.at_rest()
    await soon(lambda: not life.host.commands.running)
    await soon(lambda: list(home.rglob("task-output/*")) == [])
    await soon(lambda: running_here(home) == [])
    assert await life.tasks() == []


@pytest.mark.parametrize(
    "calls",
    [
        [call("ExecCommandBatch", items=[{"cmd": f"echo {n}", "login": False} for n in range(8)])] * 2,
        [call("ExecCommand", cmd=f"echo {n}") for n in range(8)],
        [call("ExecCommandBatch", items=[{"cmd": "sleep 30", "login": False, "yield_time_ms": 20}] * 4)],
        [call("ExecCommand", cmd="sleep 30")],
    ],
    ids=["a batch", "commands", "a batch that times out", "a long command"],
)
async def test_aborts_at_many_points_leave_nothing(living: Opens, tmp_path: Path, calls: list[str]) -> None:
    life = await living(script(*calls))
    for point in range(POINTS):
        message_id = await life.say("go")
        await asyncio.sleep(point * STEP_S)
        await abort(life)
        await life.settled(message_id)
    await assert_nothing_is_left(life, tmp_path)


@pytest.mark.parametrize("name", ["ExecCommand", "ExecCommandBatch"])
async def test_an_abort_after_the_command_and_before_its_result_leaves_nothing(
    living: Opens, tmp_path: Path, name: str
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def look(_context: CallContext, _done: Sequence[tuple[str, Path]]) -> None:
        looking.set()
        go_on.wait(20)

    items = {"cmd": "echo done"} if name == "ExecCommand" else {"items": [{"cmd": "echo done", "login": False}]}
    life = await living(script(call(name, **items)))
    life.host._hands.notice = look
    message_id = await life.say("go")
    await soon(looking.is_set)
    await abort(life)
    go_on.set()
    settled = await life.settled(message_id)
    assert settled.queue
    assert settled.queue.status == "aborted"
    await assert_nothing_is_left(life, tmp_path)


async def test_what_was_done_at_the_moment_of_the_abort_is_on_record(living: Opens) -> None:
    """The call's consequences, such as a record that goes with its command, must not be lost with its result."""
    happened: list[str] = []
    life: Any = None

    async def after() -> None:
        happened.append("after")

    async def finish(_context: CallContext, _asked: NoteInput) -> ToolOutcome:
        asyncio.get_running_loop().call_soon(life.host.dispatcher.live["main"].abort)
        return ToolOutcome(content="did it", summary="did", effect=lambda _: happened.append("effect"), after=after)

    life = await living(script(call("Finish")), tools=[Tool("Finish", "Finishes.", NoteInput, finish)])
    message_id = await life.say("go")
    assert (await life.settled(message_id)).queue.status == "aborted"
    await soon(lambda: happened == ["effect", "after"])
    (turn,) = [turn for turn in await life.turns() if turn.message_id == message_id]
    (made,) = await life.calls(turn.id)
    assert (made.status, made.result) == ("completed", "did it")
