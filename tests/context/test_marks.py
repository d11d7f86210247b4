"""Where a request is marked, and that what was written is found again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.context.marks import MarkPlan, plan_marks
from holon.core.models import CacheKind, CacheRules

EXPLICIT = CacheRules(kind=CacheKind.EXPLICIT, floor_tokens=1024, look_back_blocks=20, max_marks=4)


@pytest.mark.spec("CA-013", "CA-014", "RT-217")
def test_four_marks_at_most_tools_system_and_two_that_roll() -> None:
    assert plan_marks(EXPLICIT, [1, 1, 1], has_tools=True, last_marked=1) == MarkPlan(True, True, [1, 2])
    assert plan_marks(EXPLICIT, [1, 1, 1], has_tools=False, last_marked=1) == MarkPlan(False, True, [1, 2])


def test_the_first_request_marks_its_newest_item_and_one_within_reach() -> None:
    assert plan_marks(EXPLICIT, [1], has_tools=True) == MarkPlan(True, True, [0])
    assert plan_marks(EXPLICIT, [1] * 40, has_tools=True).conversation == [21, 39]


def test_an_empty_conversation_has_no_rolling_mark() -> None:
    assert plan_marks(EXPLICIT, [], has_tools=True) == MarkPlan(True, True, [])


@pytest.mark.spec("CA-016")
@pytest.mark.parametrize("kind", [CacheKind.AUTOMATIC, CacheKind.NONE])
def test_a_provider_without_explicit_marks_gets_none(kind: CacheKind) -> None:
    assert plan_marks(CacheRules(kind=kind), [1, 2, 3], has_tools=True) == MarkPlan(False, False, [])


@given(
    steps=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4), min_size=1, max_size=20),
    has_tools=st.booleans(),
)
def test_what_the_last_request_wrote_is_always_found(steps: list[list[int]], has_tools: bool) -> None:
    """Each request's older mark stands exactly where the last one's newest stood, however much was added since."""
    counts: list[int] = []
    last: int | None = None
    for added in steps:
        counts += added
        plan = plan_marks(EXPLICIT, counts, has_tools=has_tools, last_marked=last)
        assert len(plan.conversation) + plan.tools + plan.system <= EXPLICIT.max_marks
        assert plan.conversation[-1] == len(counts) - 1
        assert plan.conversation == sorted(set(plan.conversation))
        if last is not None:
            assert last in plan.conversation
        last = plan.conversation[-1]
