"""Packing: which of the ranked go into a budget of tokens. Whole or absent; what says the same again comes later."""

from __future__ import annotations

from collections.abc import Sequence

from holon.core.values import Value

#: How much relevance counts against sameness (MMR's lambda).
RELEVANCE_SHARE = 0.7


class Candidate(Value, frozen=True):
    key: str
    score: float
    tokens: int
    #: What it says, as terms; two that share most of them say the same.
    terms: frozenset[str] = frozenset()


class Packed(Value, frozen=True):
    chosen: tuple[str, ...]
    #: What was wanted and did not fit, in order of rank.
    left_out: tuple[str, ...]
    tokens: int


def pack(candidates: Sequence[Candidate], budget_tokens: int, limit: int | None = None) -> Packed:
    """Takes the best, then again and again the best that is least like what was taken, while it fits."""
    best = max((candidate.score for candidate in candidates), default=0.0) or 1.0
    waiting = sorted(candidates, key=lambda c: (-c.score, c.key))
    chosen: list[Candidate] = []
    used = 0
    while waiting and (limit is None or len(chosen) < limit):
        pick = max(waiting, key=lambda c: RELEVANCE_SHARE * c.score / best - (1 - RELEVANCE_SHARE) * _same(c, chosen))
        waiting.remove(pick)
        if used + pick.tokens <= budget_tokens:
            chosen.append(pick)
            used += pick.tokens
    taken = {candidate.key for candidate in chosen}
    ranked = sorted(candidates, key=lambda c: (-c.score, c.key))
    left_out = tuple(candidate.key for candidate in ranked if candidate.key not in taken)
    return Packed(tuple(candidate.key for candidate in chosen), left_out, used)


def _same(candidate: Candidate, chosen: Sequence[Candidate]) -> float:
    """How much of it the nearest of the chosen already says (Jaccard)."""
    return max(
        (len(candidate.terms & other.terms) / len(candidate.terms | other.terms) for other in chosen if other.terms),
        default=0.0,
    )
