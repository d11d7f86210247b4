"""Ids sort by the time and the order in which they were made, and never meet, within and across processes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from holon.core.ids import first_id, new_id

MILLISECONDS = st.integers(min_value=0, max_value=2**50 - 1)


def test_an_id_begins_with_its_prefix_and_is_safe_in_paths_and_urls():
    made = new_id("msg")
    prefix, _, rest = made.partition("_")
    assert prefix == "msg"
    assert len(rest) == 22
    assert rest.isascii()
    assert rest.isalnum()
    assert rest == rest.lower()


def test_ids_of_one_millisecond_sort_in_the_order_in_which_they_were_made():
    made = [new_id("out", 1_767_225_600_000) for _ in range(5_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


@given(MILLISECONDS, MILLISECONDS)
def test_an_id_of_a_later_moment_sorts_after_an_earlier_one(one: int, other: int):
    earlier, later = sorted((one, other))
    if earlier < later:
        assert new_id("x", earlier) < new_id("x", later)


@given(MILLISECONDS, st.integers(min_value=0, max_value=2**50 - 1))
def test_the_first_id_of_a_moment_parts_what_is_older_from_what_is_not(edge: int, other: int):
    assert (new_id("msg", other) < first_id("msg", edge)) == (other < edge)


def test_threads_never_make_the_same_id():
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: [new_id("x", 5) for _ in range(2_000)], range(4)))
    assert len({id_ for ids in made for id_ in ids}) == 8_000
    assert all(ids == sorted(ids) for ids in made)


def test_two_processes_at_the_same_millisecond_never_make_the_same_id():
    program = "from holon.core.ids import new_id; print(*[new_id('x', 5) for _ in range(2000)])"
    outputs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)
    ]
    one, other = (set(output.split()) for output in outputs)
    assert len(one) == len(other) == 2_000
    assert not one & other
