"""`python -m twins`: a twin as a process of its own. It prints its addresses as a line of JSON and runs until ended."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from twins.clock import TwinClock
from twins.script import InvalidScript, Script, load_script
from twins.server import Twin


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m twins", description="Twins of model providers, on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 takes a free one (default)")
    parser.add_argument("--script", type=Path, help="what the models say (YAML or JSON); without it they echo")
    parser.add_argument("--still", action="store_true", help="the clock stands still until /_twin/clock moves it")
    options = parser.parse_args(arguments)
    try:
        script = load_script(options.script) if options.script else Script()
    except InvalidScript as error:
        print(error, file=sys.stderr)
        return 2
    asyncio.run(_serve(script, options.port, TwinClock(flowing=not options.still)))
    return 0


async def _serve(script: Script, port: int, clock: TwinClock) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Twin.start(script, port=port, clock=clock) as twin:
        print(json.dumps(twin.urls), flush=True)
        await ended.wait()


if __name__ == "__main__":
    sys.exit(main())
