"""Compaction: near the window's end or when the cache is cold, keeping the newest turns exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holon.context.compaction import (
    MIN_KEEP_TURNS,
    SUMMARY_TOKENS,
    CompactionFacts,
    decide_compaction,
    keep_from,
    summarise,
)
from holon.core.conversation import AssistantBlocks, TextBlock, ToolResultBlock, ToolResults, ToolUseBlock, UserText
from holon.core.models import CacheRules, ModelCard
from holon.core.tokens import estimate

CARD = ModelCard(
    model_ref="x/y", context_window_tokens=100_000, max_output_tokens=10_000, cache=CacheRules(lifetime_ms=300_000)
)


def facts(tokens: int, *, idle_ms: int | None = 0, turns: int = 10) -> CompactionFacts:
    return CompactionFacts(head_tokens=1_000, conversation_tokens=tokens, card=CARD, idle_ms=idle_ms, turns=turns)


def test_a_conversation_with_room_and_a_warm_cache_goes_on() -> None:
    assert decide_compaction(facts(50_000)) is None


def test_near_the_end_of_the_window_it_is_compacted_whatever_the_cache() -> None:
    assert decide_compaction(facts(70_000)) == "71000 of 90000 tokens are used"


def test_a_cold_cache_makes_a_shorter_prompt_free() -> None:
    assert "cold" in str(decide_compaction(facts(30_000, idle_ms=300_001)))
    assert decide_compaction(facts(30_000, idle_ms=299_999)) is None
    assert decide_compaction(facts(5_000, idle_ms=300_001)) is None, "too short to be worth it"


def test_two_turns_are_never_compacted_away() -> None:
    assert decide_compaction(facts(89_000, turns=2)) is None


@given(sizes=st.lists(st.integers(1, 5_000), max_size=40), budget=st.integers(0, 20_000))
def test_the_newest_turns_that_fit_stay_and_at_least_two(sizes: list[int], budget: int) -> None:
    first = keep_from([(n, size) for n, size in enumerate(sizes)], budget)
    kept = sizes[first:]
    assert len(kept) >= min(MIN_KEEP_TURNS, len(sizes))
    assert sum(kept) <= budget or len(kept) <= MIN_KEEP_TURNS
    if first > 0:
        assert sum(sizes[first - 1 :]) > budget


def test_a_summary_has_a_line_for_each_input_answer_act_and_result() -> None:
    text = summarise(
        None,
        [
            UserText(text="[operator_prompt …]\nbuild it"),
            AssistantBlocks(
                blocks=[TextBlock(text="I will."), ToolUseBlock(id="1", name="ExecCommand", input={"cmd": "make"})]
            ),
            ToolResults(results=[ToolResultBlock(tool_use_id="1", content="error: no rule", is_error=True)]),
        ],
    )
    assert text.splitlines()[1:] == [
        "- in: [operator_prompt …] build it",
        "- said: I will.",
        "- did: ExecCommand {'cmd': 'make'}",
        "- got an error: error: no rule",
    ]


@given(rounds=st.integers(1, 30))
def test_a_summary_of_summaries_stays_bounded_and_keeps_the_newest(rounds: int) -> None:
    summary: str | None = None
    for number in range(rounds):
        summary = summarise(summary, [UserText(text=f"message {number} {n} " + "y" * 250) for n in range(20)])
        assert estimate(summary) <= SUMMARY_TOKENS + 60
        assert f"message {number} 19" in summary
