"""Numbers are judged against their limits, and the page shows the run that is kept as the reference."""

from __future__ import annotations

import json

import pytest

from benchmarks import report
from benchmarks.measures import Bound, Measure, Result, Scale, quantile


def measure(ours: float, *, limit: float, bound: Bound = Bound.AT_MOST) -> Measure:
    return Measure(
        what="a turn",
        unit="ms",
        ours=ours,
        baseline=2.0,
        baseline_is="bare SQLite",
        limit=limit,
        limit_is="3 × the baseline",
        bound=bound,
    )


@pytest.mark.parametrize(
    ("ours", "limit", "bound", "met"),
    [
        (5.0, 6.0, Bound.AT_MOST, True),
        (6.0, 6.0, Bound.AT_MOST, True),
        (6.1, 6.0, Bound.AT_MOST, False),
        (6.1, 6.0, Bound.AT_LEAST, True),
        (5.9, 6.0, Bound.AT_LEAST, False),
    ],
)
def test_a_limit_is_met_up_to_and_including_itself(ours: float, limit: float, bound: Bound, met: bool) -> None:
    assert measure(ours, limit=limit, bound=bound).met is met


def test_a_table_shows_each_number_beside_its_baseline_ratio_and_limit() -> None:
    result = Result(measures=[measure(3.0, limit=6.0), measure(7.5, limit=6.0)])
    assert report.table("turn", result).splitlines() == [
        "turn",
        "  measure  Holon   baseline  ratio  limit",
        "  -------  ------  --------  -----  -------------------------------  -------",
        "  a turn   3 ms    2 ms      1.50   at most 6 ms (3 × the baseline)  met",
        "  a turn   7.5 ms  2 ms      3.75   at most 6 ms (3 × the baseline)  NOT MET",
        "  a turn: baseline is bare SQLite",
        "  a turn: baseline is bare SQLite",
    ]


def test_a_page_gets_the_table_between_its_marks_and_keeps_the_rest() -> None:
    found = report.document({"turn": Result(measures=[measure(3.0, limit=6.0)])}, Scale.NORMAL)
    text = f"before\n{report.BEGIN}\nan old table\n{report.END}\nafter\n"
    made = report.page(text, found)
    assert made.startswith(f"before\n{report.BEGIN}\nTaken ")
    assert made.endswith(f"{report.END}\nafter\n")
    assert "| a turn | 3 ms | 2 ms (bare SQLite) | 1.50 | at most 6 ms (3 × the baseline) | met |" in made
    assert "an old table" not in made
    assert report.page(made, found) == made


def test_the_page_shows_the_reference_run() -> None:
    text, found = report.PAGE.read_text(), json.loads(report.REFERENCE.read_text())
    assert report.page(text, found) == text, "run 'python -m benchmarks.report'"
    assert found["scale"] != Scale.QUICK


@pytest.mark.parametrize(("share", "value"), [(0.01, 1), (0.5, 5), (0.99, 10), (1.0, 10)])
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed(share: float, value: float) -> None:
    assert quantile([3, 1, 2, 5, 4, 10, 9, 8, 7, 6], share) == value
