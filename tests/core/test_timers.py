"""A repeating timer keeps its grid, whatever the clock does, and never owes a backlog."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.timers import next_fire_ms

MS = st.integers(min_value=0, max_value=2**50)
INTERVAL = st.integers(min_value=1, max_value=2**40)


@given(due=MS, interval=INTERVAL, late=MS)
def test_the_next_fire_is_the_first_on_the_grid_after_now(due: int, interval: int, late: int):
    now = due + late
    following, missed = next_fire_ms(due, interval, now)
    assert now < following <= now + interval
    assert (following - due) % interval == 0
    assert missed == (following - due) // interval - 1


@given(due=MS, interval=INTERVAL, late=MS)
def test_fires_that_were_missed_are_counted_and_not_repeated(due: int, interval: int, late: int):
    """One tick now, and the grid goes on: those between are exactly the ones that fell together."""
    now = due + late
    _, missed = next_fire_ms(due, interval, now)
    assert due + missed * interval <= now < due + (missed + 1) * interval


@given(due=MS, interval=INTERVAL, back=MS)
def test_a_clock_that_was_set_back_misses_nothing_and_fires_no_earlier(due: int, interval: int, back: int):
    assert next_fire_ms(due, interval, due - back - 1) == (due + interval, 0)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (1_000, (1_100, 0)),  # on time
        (1_099, (1_100, 0)),  # late, but before the next
        (1_100, (1_200, 1)),  # the next one is due too
        (1_000 + 365 * 86_400_000, (1_000 + 365 * 86_400_000 + 100, 365 * 864_000)),  # a year ahead is one tick
    ],
)
def test_examples_of_a_timer_that_was_due_at_1000_every_100(now: int, expected: tuple[int, int]):
    assert next_fire_ms(1_000, 100, now) == expected
