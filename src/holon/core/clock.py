"""Time: UTC everywhere; integer milliseconds in tables, ISO-8601 with `Z` on the wire."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Where the runtime reads the time from: the system's clock, or one that a test moves by hand."""

    def now_ms(self) -> int: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests: it stands still until it is moved, in either direction."""

    def __init__(self, start_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def move(self, by_ms: int) -> None:
        self._now_ms += by_ms


@lru_cache(maxsize=16)  # all records of one transaction have the same
def moment(ms: int) -> datetime:
    """The UTC moment of a millisecond count, as records carry it."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def to_ms(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def iso(ms: int) -> str:
    """`2026-01-01T00:00:00.000Z`"""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(maxsize=16)
def _second(number: int) -> str:
    return moment(number * 1000).isoformat()[:19]
