"""Queries: what is asked, as weighted terms. A long request is taken apart, since each of its parts may want its own.

Pure. What stands in quotation marks, and bare numbers, are mostly values and not what is wanted; they count for less.
"""

from __future__ import annotations

import re

from holon.recall.words import query_terms

Weighted = dict[str, float]

QUOTED_WEIGHT = 0.4
NUMBER_WEIGHT = 0.4
#: Longer queries are cut: nobody asks in more, and a search must stay short whatever it is given.
MAX_QUERY_CHARS = 4_000
MAX_PARTS = 12

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|(?<!\w)'[^']*'(?!\w)|`[^`]*`")
_SEAMS = re.compile(
    r"(?<=[.!?;。！？；])\s+|\n+|\b(?:and then|then|also|finally|additionally|after that|afterwards|lastly|next)\b,?",
    re.IGNORECASE,
)


def weigh(text: str) -> Weighted:
    """The terms of a text, each with what it counts."""
    plain = query_terms(_QUOTED.sub(" ", text))
    weights = {term: NUMBER_WEIGHT if term.isdigit() else 1.0 for term in plain}
    share = QUOTED_WEIGHT if weights else 1.0
    for term in query_terms(" ".join(_QUOTED.findall(text))):
        weights.setdefault(term, share)
    return weights


def parts(text: str) -> list[str]:
    """The sentences and clauses of a request; one that has only one part is its own."""
    found = [part for part in _SEAMS.split(text) if part.strip() and query_terms(part)]
    return found[:MAX_PARTS] or [text]
