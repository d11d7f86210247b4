"""A daemon's stand-in, to be killed: starts commands, says of each where it is before and after, and waits.

    python -m tests.tasks.standin HOME COUNT CMD pipes|tty

In CMD, {n} is the command's number. Its lines: `begin <n>`, `started <n>`, and at last `ready`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holon.tasks.commands import CommandRunner
from tests.tasks.workshop import spec_in


async def main(home: Path, count: int, cmd: str, tty: bool) -> None:
    async with CommandRunner(home / "run") as runner:

        async def start(n: int) -> None:
            print(f"begin {n}", flush=True)
            await runner.start(spec_in(home, str(n), cmd.replace("{n}", str(n)), tty=tty))
            print(f"started {n}", flush=True)

        await asyncio.gather(*(start(n) for n in range(count)))
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "tty"))
