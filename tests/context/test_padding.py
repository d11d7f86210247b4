"""Padding: added only where it pays, whole bodies or nothing, and never worse than the better of the two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.context.guidelines import OPERATING_GUIDELINES
from holon.context.padding import (
    MAX_BASE_PROMPT_TOKENS,
    Filler,
    PaddingMode,
    plan_padding,
    run_cost,
)
from holon.core.models import (
    MAX_CACHEABLE_PREFIX_TOKENS,
    MIN_CACHEABLE_PREFIX_TOKENS,
    CacheKind,
    CacheRules,
    Prices,
)
from holon.core.tokens import estimate

GUIDELINES = Filler("operating_guidelines", OPERATING_GUIDELINES)
RULES = CacheRules(kind=CacheKind.EXPLICIT, floor_tokens=4096)
PRICES = Prices(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)


def body(name: str, tokens: int) -> Filler:
    return Filler(name, "x" * (tokens * 4))


@pytest.mark.spec("CA-027")
def test_the_constants_of_the_text_are_the_defaults_for_an_unknown_model() -> None:
    assert (MIN_CACHEABLE_PREFIX_TOKENS, MAX_CACHEABLE_PREFIX_TOKENS) == (4500, 5500)
    assert CacheRules().floor_tokens == 4500


@pytest.mark.spec("CA-040", "CA-041", "CA-042", "CA-043", "CA-044")
def test_the_guidelines_alone_lift_a_bare_prompt_over_the_floor() -> None:
    assert estimate(OPERATING_GUIDELINES) >= MIN_CACHEABLE_PREFIX_TOKENS - MAX_BASE_PROMPT_TOKENS
    assert "lorem" not in OPERATING_GUIDELINES.lower()
    plan = plan_padding(
        MAX_BASE_PROMPT_TOKENS, CacheRules(kind=CacheKind.EXPLICIT), PRICES, [], GUIDELINES, mode=PaddingMode.ALWAYS
    )
    assert [filler.name for filler in plan.fillers] == ["operating_guidelines"]
    assert MAX_BASE_PROMPT_TOKENS + plan.tokens >= MIN_CACHEABLE_PREFIX_TOKENS


@pytest.mark.spec("CA-030", "CA-032", "CA-035", "CA-039")
@pytest.mark.parametrize("prefix", [4096, 4097, 6000, 60_000])
def test_a_prefix_that_reaches_the_floor_is_left_as_it_is(prefix: int) -> None:
    for mode in PaddingMode:
        assert plan_padding(prefix, RULES, PRICES, [body("a", 500)], GUIDELINES, mode=mode).fillers == []


@pytest.mark.spec("CA-029", "CA-031", "CA-037", "CA-038", "CA-046")
def test_whole_bodies_come_first_by_name_until_the_floor_is_reached() -> None:
    bodies = [body("c", 900), body("a", 1500), body("b", 1500), body("d", 900)]
    plan = plan_padding(1000, RULES, PRICES, bodies, GUIDELINES, mode=PaddingMode.ALWAYS, upper_tokens=5000)
    assert [filler.name for filler in plan.fillers] == ["a", "b", "c"]
    assert 4096 <= 1000 + plan.tokens <= 5000


def test_a_body_that_does_not_fit_is_left_out_and_never_cut() -> None:
    bodies = [body("a", 9000), body("b", 3200)]
    plan = plan_padding(1000, RULES, PRICES, bodies, GUIDELINES, mode=PaddingMode.ALWAYS, upper_tokens=5000)
    assert plan.fillers == [bodies[1]]


@pytest.mark.spec("CA-036")
def test_always_pads_the_bare_default_too() -> None:
    rules = CacheRules(kind=CacheKind.EXPLICIT, floor_tokens=4000)
    assert plan_padding(265, rules, PRICES, [], GUIDELINES, mode=PaddingMode.ALWAYS).fillers


def test_never_means_never_and_a_model_without_a_cache_is_not_padded() -> None:
    assert plan_padding(1000, RULES, PRICES, [], GUIDELINES, mode=PaddingMode.NEVER).fillers == []
    none = CacheRules(kind=CacheKind.NONE)
    assert plan_padding(1000, none, PRICES, [], GUIDELINES, mode=PaddingMode.ALWAYS).fillers == []


@pytest.mark.spec("CA-045")
def test_the_same_facts_give_the_same_bytes() -> None:
    bodies = [body("b", 400), body("a", 400)]
    plans = [
        plan_padding(2000, RULES, PRICES, order, GUIDELINES, mode=PaddingMode.ALWAYS)
        for order in (bodies, bodies[::-1])
    ]
    assert plans[0] == plans[1]


@given(
    prefix=st.integers(200, 6_000),
    floor=st.sampled_from([512, 1024, 2048, 4096]),
    calls=st.integers(1, 200),
    growth=st.integers(50, 3_000),
    kind=st.sampled_from([CacheKind.EXPLICIT, CacheKind.AUTOMATIC]),
)
def test_auto_is_never_worse_than_the_better_of_padding_and_not_padding(
    prefix: int, floor: int, calls: int, growth: int, kind: CacheKind
) -> None:
    rules = CacheRules(kind=kind, floor_tokens=floor, step_tokens=1 if kind is CacheKind.EXPLICIT else 128)

    def cost(mode: PaddingMode) -> float:
        plan = plan_padding(
            prefix, rules, PRICES, [], GUIDELINES, mode=mode, expected_calls=calls, growth_tokens=growth
        )
        return run_cost(prefix + plan.tokens, rules, PRICES, calls=calls, growth_tokens=growth)

    assert cost(PaddingMode.AUTO) == min(cost(PaddingMode.ALWAYS), cost(PaddingMode.NEVER))
