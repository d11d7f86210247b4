"""What the tests of this room share: commands that are never left behind, and waiting for what must come."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holon.tasks.commands import CommandRunner
from holon.tasks.outputs import OutputPreview
from holon.tasks.processes import listing
from holon.tasks.protocol import CommandStatus
from holon.tasks.running import RunningCommand
from holon.tasks.specs import CommandSpec

#: Longer than anything here may take; what takes longer hangs.
PATIENCE_S = 30.0

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def spec_in(root: Path, name: str, cmd: str, **changes: Any) -> CommandSpec:
    given: dict[str, Any] = {"workdir": root, "folder": root / "commands" / name, "env": ENV, "shell": "sh"}
    return CommandSpec(cmd=cmd, **{**given, **changes})


class Workshop:
    """Starts commands in folders of their own, and ends those that still run when the test is over."""

    def __init__(self, root: Path, runner: CommandRunner) -> None:
        self.root, self.runner = root, runner
        self._started: list[RunningCommand] = []

    def spec(self, cmd: str, **changes: Any) -> CommandSpec:
        return spec_in(self.root, f"c{time.monotonic_ns()}", cmd, **changes)

    async def start(self, cmd: str, **changes: Any) -> RunningCommand:
        running = await self.runner.start(self.spec(cmd, **changes))
        self._started.append(running)
        return running

    async def run(self, cmd: str, **changes: Any) -> tuple[CommandStatus, OutputPreview]:
        running = await self.start(cmd, **changes)
        return await ended(running), running.preview(100_000)

    async def close(self) -> None:
        for running in self._started:
            if running.status is None and await running.stop(force=True):
                await ended(running)


async def ended(running: RunningCommand) -> CommandStatus:
    status = await running.wait(PATIENCE_S)
    assert status is not None, f"{running.folder} still runs after {PATIENCE_S} s"
    return status


async def eventually(condition: Callable[[], Any]) -> Any:
    """The first true value of a condition that must come true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    """Also a zombie is dead."""
    return any(process.pid == pid for process in listing())


def memory_kb(pid: int, field: str) -> int:
    """A line of /proc/<pid>/status, such as VmHWM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
