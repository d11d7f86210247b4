"""The lock of a repository's worktrees belongs to git as well: a git that outlives its Holon still holds it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from holon.workspaces.locks import alone
from tests.workspaces.projects import Project

#: Holds the lock and runs a git that goes on until a file is there.
HOLDER = """
import asyncio, sys
from pathlib import Path
from holon.workspaces.git import git
from holon.workspaces.locks import alone

async def hold(common):
    async with alone(common):
        nap = f"!touch {common}/begun; while [ ! -e {common}/end ]; do sleep 0.01; done; touch {common}/ended"
        await git(common.parent, "-c", f"alias.nap={nap}", "nap")

asyncio.run(hold(Path(sys.argv[1])))
"""


async def test_the_next_holon_waits_for_a_git_that_outlived_the_last_one(tmp_path: Path) -> None:
    common = Project.new(tmp_path / "shop").common_dir
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, str(common))
    try:
        async with asyncio.timeout(20):
            await there(common / "begun")
    finally:
        holder.kill()
    assert await holder.wait() == -signal.SIGKILL

    async def take() -> bool:
        async with alone(common):
            return (common / "ended").exists()

    taking = asyncio.create_task(take())
    done, _ = await asyncio.wait({taking}, timeout=0.2)
    assert not done
    (common / "end").touch()
    async with asyncio.timeout(20):
        assert await taking


async def there(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
