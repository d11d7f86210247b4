"""A command is born in the control groups that it was given, and its runner is not held to their limits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holon.tasks.failures import CommandSpawnFailed
from holon.workspaces import cgroups
from holon.workspaces.cgroups import Door
from tests.tasks.workshop import Workshop

Doors = Callable[[int], list[Door]]


@pytest.fixture
def doors() -> Iterator[Doors]:
    found, name = cgroups.controllers(), f"test-groups-{os.getpid()}"
    if found.processes is None:
        pytest.skip("no control groups can be made here")
    yield lambda processes: cgroups.doors(found, name, memory_bytes=1 << 28, processes=processes)
    deadline = time.monotonic() + 10
    while any(base and list(base.glob(f"holon-{name}")) for base in found):
        assert time.monotonic() < deadline, "somebody is left in a group"
        cgroups.clear(found, name)
        time.sleep(0.02)


def groups_of(pid: int | str) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


async def test_the_command_stays_and_the_runner_leaves(workshop: Workshop, doors: Doors):
    running = await workshop.start("cat /proc/self/cgroup; read line", accepts_input=True, groups=tuple(doors(100)))
    assert "holon-test-groups" not in groups_of(running.started.runner_pid)
    assert groups_of(running.started.runner_pid) == groups_of("self")
    await running.send("\n")
    await running.wait(10)
    joined = [line for line in running.preview(10_000).stdout.splitlines() if "holon-test-groups" in line]
    assert len(joined) == len(doors(100))


async def test_a_full_group_refuses_the_command_and_says_what_to_do(workshop: Workshop, doors: Doors):
    with pytest.raises(CommandSpawnFailed, match="within the limits of this agent's commands") as caught:
        await workshop.start("true", groups=tuple(doors(1)))
    assert "TaskList" in str(caught.value.hint)
    status, _ = await workshop.run("true", groups=tuple(doors(100)))
    assert status.exit_status == 0


async def test_a_group_that_is_gone_refuses_the_command(workshop: Workshop, tmp_path: Path):
    with pytest.raises(CommandSpawnFailed, match="limits") as caught:
        await workshop.start("true", groups=((str(tmp_path / "gone"), "/dev/null"),))
    assert caught.value.details["step"] == "groups"
