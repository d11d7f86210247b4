"""Progress: one line on stderr that says what is being measured now, so that nobody wonders whether it hangs."""

from __future__ import annotations

import sys
import time

#: Between two lines where the line cannot be rewritten (a file, a CI log).
QUIET_S = 2.0


class Progress:
    def __init__(self, name: str) -> None:
        self._name, self._started = name, time.monotonic()
        self._last = float("-inf")
        self._live = sys.stderr.isatty()

    def say(self, doing: str) -> None:
        now = time.monotonic()
        line = f"{self._name}: {doing} ({now - self._started:.0f} s)"
        if self._live:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif now - self._last >= QUIET_S:
            self._last = now
            print(line, file=sys.stderr, flush=True)

    def done(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
