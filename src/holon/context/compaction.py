"""Compaction: when a conversation is summarised and a new epoch opened, and what of it stays exactly as it was.

Pure. Two occasions: the window's end is near, or the provider's cache has gone cold anyway, so that a rewrite is free.
"""

from __future__ import annotations

from collections.abc import Sequence

from holon.core.conversation import AssistantBlocks, ConversationItem, ToolResults, UserText, text_of, tool_uses
from holon.core.models import ModelCard
from holon.core.values import Value

#: The share of the context window at which a conversation is compacted, and what is kept of it exactly.
NEAR_END = 0.75
KEEP_SHARE = 0.20
MIN_KEEP_TURNS = 2
#: With a cold cache a conversation is worth compacting from this size on.
COLD_TOKENS = 20_000
SUMMARY_TOKENS = 3_000
LINE_CHARS = 280


class CompactionFacts(Value, frozen=True):
    head_tokens: int
    conversation_tokens: int
    card: ModelCard
    #: Milliseconds since the last call to the model; `None` if there was none.
    idle_ms: int | None
    turns: int


def decide_compaction(facts: CompactionFacts) -> str | None:
    """The reason for opening a new epoch now, or `None`."""
    total = facts.head_tokens + facts.conversation_tokens
    room = facts.card.context_window_tokens - facts.card.max_output_tokens
    if total > room * NEAR_END and facts.turns > MIN_KEEP_TURNS:
        return f"{total} of {room} tokens are used"
    cold = facts.idle_ms is not None and facts.idle_ms > facts.card.cache.lifetime_ms
    if cold and facts.conversation_tokens > COLD_TOKENS and facts.turns > MIN_KEEP_TURNS:
        return f"the cache is cold after {facts.idle_ms} ms, so a shorter prompt costs nothing extra"
    return None


def keep_from(turn_starts: Sequence[tuple[int, int]], budget_tokens: int) -> int:
    """Which turn is the first to stay exactly: (position, tokens) of each turn, oldest first.

    The newest turns that fit the budget, and at least two, whatever their size.
    """
    kept = 0
    for index in range(len(turn_starts) - 1, -1, -1):
        newest_ones = len(turn_starts) - index
        kept += turn_starts[index][1]
        if kept > budget_tokens and newest_ones > MIN_KEEP_TURNS:
            return index + 1
    return 0


def summarise(earlier: str | None, dropped: Sequence[ConversationItem]) -> str:
    """What left the window, in short: a line for each input, answer and act; the oldest lines go first."""
    lines = earlier.splitlines() if earlier else []
    lines = [line for line in lines if not line.startswith("[")]
    lines += [line for item in dropped for line in _lines(item)]
    budget, kept = SUMMARY_TOKENS * 4, []
    for line in reversed(lines):
        budget -= len(line) + 1
        if budget < 0:
            break
        kept.append(line)
    left_out = len(lines) - len(kept)
    head = "[earlier conversation, in short; the transcript has it whole]"
    gap = [f"[{left_out} older lines are left out]"] if left_out else []
    return "\n".join([head, *gap, *reversed(kept)])


def _lines(item: ConversationItem) -> list[str]:
    match item:
        case UserText(text=text):
            return [f"- in: {_clip(text)}"]
        case AssistantBlocks(blocks=blocks):
            said = text_of(blocks)
            acts = [f"- did: {use.name} {_clip(str(use.input))}" for use in tool_uses(blocks)]
            return ([f"- said: {_clip(said)}"] if said.strip() else []) + acts
        case ToolResults(results=results):
            return [f"- got{' an error' if result.is_error else ''}: {_clip(result.content)}" for result in results]


def _clip(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE_CHARS else flat[: LINE_CHARS - 1] + "…"
