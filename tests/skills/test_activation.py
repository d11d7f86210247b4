"""The registry of a session: pointers, budgets, what is carried over. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.skills import (
    ActivationBudget,
    ActivationBudgetExhausted,
    ActivationState,
    LoadReason,
    SkillActivation,
    SkillScope,
    ToolExecutionError,
)
from holon.skills.activation import Grant, Pointer, SkillActivationRegistry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def activation(
    name: str, reason: LoadReason = LoadReason.ON_DEMAND, tokens: int = 100, **more: object
) -> SkillActivation:
    given: dict[str, object] = {"state": ActivationState.SESSION_ACTIVE, **more}
    return SkillActivation(
        name=name,
        load_reason=reason,
        source=SkillScope.AGENT,
        version="v1",
        tokens=tokens,
        entrypoint_path="/x",
        activated_at=NOW,
        **given,  # type: ignore[arg-type]
    )


@pytest.mark.spec("CA-071")
def test_what_is_preloaded_never_counts() -> None:
    registry = SkillActivationRegistry(activation(str(n), LoadReason.ALWAYS, 50_000, in_head=True) for n in range(9))

    assert (registry.explicit, registry.explicit_tokens) == ([], 0)
    assert registry.decide_load("new", "v1", 100) == Grant(False, 100)


@pytest.mark.spec("CA-062", "CA-067", "CA-068")
def test_a_known_skill_is_pointed_at_even_when_the_budget_is_used_up() -> None:
    held = [activation(name) for name in "cab"]
    registry = SkillActivationRegistry(held)

    assert registry.decide_load("a", "v1", 100) == Pointer(held[1], changed=False)
    assert registry.decide_load("a", "v2", 100) == Pointer(held[1], changed=True)
    with pytest.raises(ToolExecutionError, match=r"3 skills already activated .* \[a, b, c\]"):
        registry.decide_load("d", "v1", 1)


@pytest.mark.spec("CA-069", "CA-070")
@given(st.lists(st.integers(1, 9_000), max_size=20))
def test_the_sum_never_passes_the_cap_and_the_warning_comes_once(sizes: list[int]) -> None:
    held: list[SkillActivation] = []
    warned = 0
    for number, tokens in enumerate(sizes):
        registry = SkillActivationRegistry(held, ActivationBudget(max_skills=100))
        try:
            decision = registry.decide_load(str(number), "v1", tokens)
        except ActivationBudgetExhausted:
            assert registry.explicit_tokens + tokens > 30_000
            continue
        assert isinstance(decision, Grant)
        warned += decision.warns
        held.append(activation(str(number), tokens=tokens))
    total = sum(each.tokens for each in held)
    assert total <= 30_000
    assert warned == (total >= 10_000)


def test_references_count_toward_the_tokens_and_not_toward_the_three() -> None:
    registry = SkillActivationRegistry([activation("a", tokens=20_000, reference_tokens=9_000)])

    assert registry.explicit_tokens == 29_000
    with pytest.raises(ActivationBudgetExhausted):
        registry.decide_tokens(1_001)


@pytest.mark.parametrize(
    ("more", "carried"),
    [
        ({"after_seq": 5}, True),
        ({"after_seq": 50}, False),  # still in the conversation
        ({"after_seq": 50, "in_head": True}, True),
        ({"after_seq": 5, "leaving": True}, False),
        ({"after_seq": 5, "shown": False}, False),
        ({"after_seq": 5, "state": ActivationState.LAPSED}, False),
    ],
)
def test_a_new_epoch_takes_along_what_is_in_use_and_would_be_cut_off(more: dict[str, Any], carried: bool) -> None:
    assert SkillActivationRegistry([activation("a", **more)]).carried(20) == (["a"] if carried else [])
