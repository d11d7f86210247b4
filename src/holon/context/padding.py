"""Padding: whether a prefix below a provider's cache floor should be filled up to it, and with what.

Pure. A short prefix is never cached, and pays its full price at every call; a padded one is written once and read for
a fraction, but is longer. Which is cheaper depends on how many calls there will be and on how fast the conversation
itself grows past the floor. So both are added up, call by call, and the cheaper one is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from holon.core.models import CacheKind, CacheRules, Prices
from holon.core.tokens import estimate
from holon.core.values import Value

MAX_BASE_PROMPT_TOKENS = 500
PRELOADED_MARK_TOKENS = estimate(" [preloaded]")
#: The longest run of calls that is added up; beyond it the comparison does not change any more.
LONGEST_RUN = 400


class PaddingMode(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Filler(Value, frozen=True):
    """Something whole that may be put into the prefix: a skill's body, the operating guidelines."""

    name: str
    text: str

    @property
    def tokens(self) -> int:
        return estimate(self.text)


class PaddingPlan(Value, frozen=True):
    fillers: list[Filler]
    reason: str

    @property
    def tokens(self) -> int:
        return sum(filler.tokens for filler in self.fillers)


def plan_padding(
    prefix_tokens: int,
    rules: CacheRules,
    prices: Prices,
    bodies: Sequence[Filler],
    guidelines: Filler,
    *,
    mode: PaddingMode = PaddingMode.AUTO,
    upper_tokens: int | None = None,
    expected_calls: int = 10,
    growth_tokens: int = 1_200,
) -> PaddingPlan:
    """What to add to a prefix: whole bodies by name, then the guidelines, cut at a paragraph if they must be."""
    floor = rules.floor_tokens
    if rules.kind is CacheKind.NONE:
        return PaddingPlan([], "the model does not cache")
    if mode is PaddingMode.NEVER:
        return PaddingPlan([], "padding is off")
    if prefix_tokens >= floor:
        return PaddingPlan([], f"{prefix_tokens} tokens reach the floor of {floor}")
    chosen = _choose(prefix_tokens, floor, upper_tokens or floor + 1_000, bodies, guidelines)
    padded = prefix_tokens + sum(filler.tokens for filler in chosen)
    if padded < floor:
        return PaddingPlan([], f"{padded} tokens would not reach the floor of {floor}")
    if mode is PaddingMode.ALWAYS:
        return PaddingPlan(chosen, f"padded from {prefix_tokens} to {padded} tokens, as configured")
    plain = run_cost(prefix_tokens, rules, prices, calls=expected_calls, growth_tokens=growth_tokens)
    filled = run_cost(padded, rules, prices, calls=expected_calls, growth_tokens=growth_tokens)
    verdict = f"{expected_calls} calls cost {filled:.0f} with padding and {plain:.0f} without"
    return PaddingPlan(chosen, verdict) if filled < plain else PaddingPlan([], verdict)


def run_cost(prefix_tokens: int, rules: CacheRules, prices: Prices, *, calls: int, growth_tokens: int) -> float:
    """What the input of a run costs, in tokens at the uncached price, with marks that roll with the conversation."""
    cached, cost = 0, 0.0
    for call in range(min(calls, LONGEST_RUN)):
        length = prefix_tokens + (call + 1) * growth_tokens
        reachable = length - length % rules.step_tokens
        if reachable < rules.floor_tokens:
            cost += length
            continue
        written = reachable - cached
        write_ratio = prices.write_ratio if rules.kind is CacheKind.EXPLICIT else 1.0
        cost += cached * prices.read_ratio + written * write_ratio + (length - reachable)
        cached = reachable
    return cost


def _choose(prefix: int, floor: int, upper: int, bodies: Sequence[Filler], guidelines: Filler) -> list[Filler]:
    chosen: list[Filler] = []
    total = prefix
    for body in sorted(bodies, key=lambda filler: filler.name):
        if total >= floor:
            return chosen
        if total + body.tokens + PRELOADED_MARK_TOKENS <= upper:
            chosen.append(body)
            total += body.tokens + PRELOADED_MARK_TOKENS
    if total < floor and (cut := _cut(guidelines, floor - total, upper - total)) is not None:
        chosen.append(cut)
    return chosen


def _cut(guidelines: Filler, at_least: int, at_most: int) -> Filler | None:
    """The guidelines up to the first paragraph's end that reaches `at_least` tokens, if it stays under `at_most`."""
    text = ""
    for paragraph in guidelines.text.split("\n\n"):
        text = f"{text}\n\n{paragraph}" if text else paragraph
        if estimate(text) >= at_least:
            break
    return Filler(guidelines.name, text) if at_least <= estimate(text) <= at_most else None
