"""Timers: a wake at a moment, once or at an interval. Missed fires coalesce into one."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from holon.core.codec import Record


class TimerStatus(StrEnum):
    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Timer(Record, frozen=True, kw_only=True):
    id: str
    agent_id: str
    created_at: datetime
    duration_ms: int
    status: TimerStatus
    interval_ms: int | None = None
    summary: str | None = None
    next_fire_at: datetime | None = None
    last_fired_at: datetime | None = None
    fire_count: int = 0
    #: Fires that fell together with an earlier one, because the runtime was down, asleep or behind.
    coalesced_count: int = 0

    @property
    def repeat(self) -> bool:
        return self.interval_ms is not None


def next_fire_ms(due_ms: int, interval_ms: int, now_ms: int) -> tuple[int, int]:
    """The next due moment after `now_ms` on the timer's own grid, and how many fires fell together on the way.

    A clock that jumped ahead by a year costs one tick, not a backlog of them.
    """
    missed = max(0, (now_ms - due_ms) // interval_ms)
    return due_ms + (missed + 1) * interval_ms, missed
