"""Hundreds of commands leave nothing behind in the daemon, in the zygote, or on the machine."""

from __future__ import annotations

import asyncio

from holon.tasks import zygote
from holon.tasks.processes import descendants, listing
from tests.tasks.workshop import Workshop, eventually, open_descriptors


async def test_hundreds_of_short_commands_leak_nothing(workshop: Workshop):
    await asyncio.gather(*(workshop.run("true") for _ in range(16)))  # whatever is made once is made now
    before = open_descriptors()
    tty = [{"tty": True}, {}]
    for _ in range(10):
        found = await asyncio.gather(*(workshop.run("echo x; echo y >&2", **tty[n % 2]) for n in range(20)))
        assert [status.exit_status for status, _ in found] == [0] * 20
    pid = workshop.runner.zygote_pid
    assert pid
    await eventually(lambda: len(descendants(pid)) == zygote.SPARES)
    await eventually(lambda: open_descriptors() <= before)
    spares = {process.pid for process in descendants(pid)}
    runners = [process for process in listing() if process.parent == pid and process.pid not in spares]
    assert runners == []
    folders = workshop.root / "run" / "spares"  # a spare makes its own a moment after it is born
    await eventually(lambda: len(list(folders.iterdir())) == zygote.SPARES)
