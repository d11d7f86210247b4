"""The clock of a twin: caches age by it, and a test moves it instead of waiting."""

from __future__ import annotations

import time

#: 2026-01-01T00:00:00Z
_STILL_SINCE_MS = 1_767_225_600_000


class TwinClock:
    """Milliseconds since 1970. It stands still until it is moved; with `flowing=True` it follows the system's clock."""

    def __init__(self, *, flowing: bool = False) -> None:
        self._flowing = flowing
        self._moved_ms = 0

    def now_ms(self) -> int:
        start = time.time_ns() // 1_000_000 if self._flowing else _STILL_SINCE_MS
        return start + self._moved_ms

    def move(self, ms: int) -> None:
        """Lets so many milliseconds pass at once."""
        self._moved_ms += ms
