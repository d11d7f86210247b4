"""The lexical engine: BM25F over the fields of documents, in memory, kept up document by document.

Lengths are compared with a fixed reference for each field and not with the average of the corpus. So what a document
weighs depends on itself alone, and adding or removing one touches its own terms and nothing else.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from holon.core.values import Value
from holon.recall.queries import MAX_QUERY_CHARS, Weighted, parts, weigh
from holon.recall.variants import Spellings, other_names
from holon.recall.words import terms

#: How quickly more of the same word stops counting (BM25's k1).
SATURATION = 1.2
#: How much it counts that a document's title is asked for as a whole.
TITLE_BONUS = 1.0
#: A request of several parts: the share of the whole in a document's score; the rest is its best part.
WHOLE_SHARE = 0.3
#: A part whose best document scores less than this has little to say, and counts for as much less.
CLEAR_SCORE = 10.0
#: Only the best by plain score are looked at for their titles.
CANDIDATES = 100


class Field(Value, frozen=True):
    name: str
    weight: float
    #: The usual number of terms, and how strongly a longer text is held against its words (0 … 1).
    usual_terms: float
    length_penalty: float = 0.3
    is_title: bool = False


class Hit(Value, frozen=True):
    key: str
    score: float
    #: The terms of the query that were found in it, as stems.
    matched: tuple[str, ...]


class Analysed(Value, frozen=True):
    """A document as the index needs it. Depends on its text alone, so it can be kept as long as that stays."""

    impacts: dict[str, float]
    title: frozenset[str]


def analyse(fields: Sequence[Field], texts: Mapping[str, str]) -> Analysed:
    impacts: dict[str, float] = {}
    title: set[str] = set()
    for field in fields:
        found = terms(texts.get(field.name, ""))
        if not found:
            continue
        norm = 1 - field.length_penalty + field.length_penalty * len(found) / field.usual_terms
        for term, times in Counter(found).items():
            impacts[term] = impacts.get(term, 0.0) + field.weight * times / norm
        if field.is_title:
            title.update(found)
    return Analysed({term: value / (SATURATION + value) for term, value in impacts.items()}, frozenset(title))


class LexicalIndex:
    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._documents: dict[str, Analysed] = {}
        self._postings: dict[str, dict[str, float]] = {}
        self._spellings: Spellings | None = None

    def __len__(self) -> int:
        return len(self._documents)

    def add(self, key: str, document: Mapping[str, str] | Analysed) -> None:
        """Adds a document, or takes the place of the one of this key."""
        self.remove(key)
        found = document if isinstance(document, Analysed) else analyse(self.fields, document)
        self._documents[key] = found
        for term, impact in found.impacts.items():
            self._postings.setdefault(term, {})[key] = impact
        self._spellings = None

    def remove(self, key: str) -> None:
        gone = self._documents.pop(key, None)
        if gone is None:
            return
        for term in gone.impacts:
            del self._postings[term][key]
            if not self._postings[term]:
                del self._postings[term]
        self._spellings = None

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The documents that match, best first; what matches nothing is not returned. Ties go by key."""
        query = query[:MAX_QUERY_CHARS]
        asked = weigh(query)
        whole = self._score(asked)
        best = max(whole.values(), default=0.0)
        if not best:
            return []
        clauses = parts(query)
        scores = {key: score / best for key, score in whole.items()}
        if len(clauses) > 1:
            scores = self._fuse(scores, clauses)
        top = heapq.nsmallest(limit, scores, key=lambda key: (-scores[key], key))
        return [Hit(key, round(scores[key] * best, 4), self._matched(key, asked)) for key in top]

    def has_term(self, term: str) -> bool:
        return term in self._postings

    def _fuse(self, whole: dict[str, float], clauses: Sequence[str]) -> dict[str, float]:
        """Each document by the part of the request that it fits best, and a little by the whole of it."""
        fused = {key: WHOLE_SHARE * score for key, score in whole.items()}
        for clause in clauses:
            found = self._score(weigh(clause))
            best = max(found.values(), default=0.0)
            if not best:
                continue
            clear = min(1.0, best / CLEAR_SCORE) * (1 - WHOLE_SHARE) / best
            for key, score in found.items():
                fused[key] = max(fused.get(key, 0.0), score * clear + WHOLE_SHARE * whole.get(key, 0.0))
        return fused

    def _score(self, asked: Weighted) -> dict[str, float]:
        scores: dict[str, float] = {}
        for term, weight in self._widened(asked).items():
            postings = self._postings[term]
            share = weight * self._rarity(term)
            for key, impact in postings.items():
                scores[key] = scores.get(key, 0.0) + share * impact
        for key in heapq.nlargest(CANDIDATES, scores, key=scores.__getitem__):
            scores[key] *= 1 + TITLE_BONUS * self._title_share(key, asked)
        return scores

    def _widened(self, asked: Weighted) -> Weighted:
        """The terms that stand in the vocabulary, with other names and, for unknown words, other spellings."""
        widened: Weighted = {}
        for term, weight in asked.items():
            near: Mapping[str, float] = other_names(term, self._postings)
            if term in self._postings:
                widened[term] = max(weight, widened.get(term, 0.0))
            else:
                near = {**self._near(term), **near}
            for other, share in near.items():
                widened[other] = max(weight * share, widened.get(other, 0.0))
        return widened

    def _near(self, term: str) -> dict[str, float]:
        if self._spellings is None:
            self._spellings = Spellings(self._postings)
        return self._spellings.near(term)

    def _rarity(self, term: str) -> float:
        holders = len(self._postings.get(term, ()))
        return math.log(1 + (len(self._documents) - holders + 0.5) / (holders + 0.5))

    def _title_share(self, key: str, asked: Weighted) -> float:
        title = self._documents[key].title
        weights = {term: self._rarity(term) for term in title}
        total = sum(weights.values())
        return sum(weight for term, weight in weights.items() if term in asked) / total if total else 0.0

    def _matched(self, key: str, asked: Weighted) -> tuple[str, ...]:
        impacts = self._documents[key].impacts
        return tuple(term for term in asked if term in impacts)
