"""Milliseconds, moments and their text say the same time."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from holon.core.clock import ManualClock, SystemClock, iso, moment, to_ms

MILLISECONDS = st.integers(min_value=-2_000_000_000_000, max_value=32_503_680_000_000)


@given(MILLISECONDS)
def test_a_millisecond_count_survives_the_way_through_a_moment(ms: int):
    assert to_ms(moment(ms)) == ms


@given(MILLISECONDS)
def test_the_text_of_a_moment_is_iso_8601_in_utc_and_reads_back(ms: int):
    text = iso(ms)
    assert text.endswith("Z")
    assert to_ms(datetime.fromisoformat(text)) == ms


def test_a_known_moment():
    assert iso(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"
    assert moment(1_767_225_600_007) == datetime(2026, 1, 1, 0, 0, 0, 7_000, UTC)


def test_the_system_clock_is_the_systems():
    before = time.time_ns() // 1_000_000
    assert before <= SystemClock().now_ms() <= time.time_ns() // 1_000_000


def test_a_manual_clock_stands_still_until_it_is_moved_in_either_direction():
    clock = ManualClock(1_000)
    assert clock.now_ms() == clock.now_ms() == 1_000
    clock.move(500)
    clock.move(-700)
    assert clock.now_ms() == 800
