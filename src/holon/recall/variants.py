"""Variants: other spellings under which a term may stand in a vocabulary: typos, compounds, beginnings of words.

They are looked for only where the vocabulary does not have the term itself, so an exact word is never outvoted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping

from holon.recall.stems import stem
from holon.recall.synonyms import synonyms

SYNONYM_WEIGHT = 0.4
TYPO_WEIGHT = 0.7
SPLIT_WEIGHT = 0.7
PREFIX_WEIGHT = 0.6
MAX_VARIANTS = 6


class Spellings:
    """A vocabulary, prepared for looking up words that are not in it. Built once a change of the vocabulary."""

    def __init__(self, vocabulary: Collection[str]) -> None:
        self._known = vocabulary
        self._sorted = sorted(vocabulary)
        self._by_gram: dict[str, list[str]] = {}
        for term in self._sorted:
            for gram in _grams(term):
                self._by_gram.setdefault(gram, []).append(term)

    def near(self, term: str) -> dict[str, float]:
        """Terms of the vocabulary that an unknown one may stand for, with what they count."""
        found = dict.fromkeys(self._typos(term), TYPO_WEIGHT)
        for other in self._beginnings(term):
            found.setdefault(other, PREFIX_WEIGHT)
        for other in self._halves(term):
            found.setdefault(other, SPLIT_WEIGHT)
        return dict(list(found.items())[:MAX_VARIANTS])

    def _typos(self, term: str) -> list[str]:
        allowed = 0 if len(term) < 4 or term.isdigit() else 1 if len(term) < 8 else 2
        if not allowed:
            return []
        shared = Counter(other for gram in _grams(term) for other in self._by_gram.get(gram, ()))
        near = [
            (distance, other)
            for other, _ in shared.most_common(40)
            if abs(len(other) - len(term)) <= allowed and (distance := edits(term, other, allowed)) <= allowed
        ]
        best = min(near, default=(0, ""))[0]
        return [other for distance, other in sorted(near) if distance == best]

    def _beginnings(self, term: str) -> list[str]:
        if len(term) < 4:
            return []
        at = bisect_left(self._sorted, term)
        return [other for other in self._sorted[at : at + MAX_VARIANTS] if other.startswith(term)]

    def _halves(self, term: str) -> list[str]:
        for cut in range(3, len(term) - 2):
            left, right = stem(term[:cut]), term[cut:]
            for half in (right, right + "e"):  # the stem of the whole may have taken the last letter of its second half
                if left in self._known and half in self._known:
                    return [left, half]
        return []


def other_names(term: str, vocabulary: Collection[str]) -> Mapping[str, float]:
    return {other: SYNONYM_WEIGHT for other in synonyms(term) if other in vocabulary}


def edits(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, changes and swaps of neighbours between two words; `limit + 1` if there are more."""
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        here = [row]
        for column, b in enumerate(right, 1):
            cost = min(above[column] + 1, here[-1] + 1, above[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and left[row - 2] == b:
                cost = min(cost, before[column - 2] + 1)
            here.append(cost)
        if min(here) > limit:
            return limit + 1
        before, above = above, here
    return above[-1]


def _grams(term: str) -> set[str]:
    padded = f"^{term}$"
    return {padded[at : at + 2] for at in range(len(padded) - 1)}
