"""Words: text as the terms that are compared. Names are taken apart, words are stemmed, CJK text becomes bigrams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from holon.recall.stems import stem

#: Words that say nothing about what is looked for. They are left out unless a query has no others.
STOPWORDS = frozenset(
    (
        "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
        "could", "did", "do", "does", "doing", "for", "from", "had", "has", "have", "having", "he", "her", "here",
        "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "let", "like", "me", "more", "most",
        "my", "need", "no", "not", "now", "of", "off", "on", "once", "only", "or", "our", "out", "please", "she",
        "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they",
        "this", "those", "to", "too", "under", "until", "up", "us", "very", "want", "was", "we", "were", "what",
        "when", "where", "which", "while", "who", "whom", "why", "will", "with", "would", "you", "your", "finally",
        "additionally", "next", "lastly", "first", "second", "third", "furthermore", "moreover", "help", "tell",
    )
)  # fmt: skip

_CJK = r"\u2e80-\u2eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
#: Runs of CJK characters, or runs of letters and digits of any other script.
_RUNS = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])[^\W_])+")
_IS_CJK = re.compile(rf"[{_CJK}]")
#: `getHTTPResponse2` is get, HTTP, Response, 2.
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")


def words(text: str) -> Iterator[str]:
    """The words of a text in lower case, in order: names taken apart at capitals, digits, hyphens and underscores."""
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text)):
        if _IS_CJK.match(run):
            yield from ([run] if len(run) == 1 else (run[i : i + 2] for i in range(len(run) - 1)))
            continue
        parts = [run] if run.isalpha() and run.islower() else _HUMPS.split(run)
        if len(parts) > 1 and any(len(part) == 1 for part in parts):
            yield run.casefold()  # `s3`, `utf8`, `k8s` mean something only as a whole
        for part in parts:
            yield part.casefold()


def terms(text: str) -> list[str]:
    """The stems of all words that say something."""
    return [stem(word) for word in words(text) if word not in STOPWORDS]


def query_terms(text: str) -> list[str]:
    """The terms of a query, each once, in order. A query of nothing but stopwords is taken at its word."""
    found = dict.fromkeys(terms(text)) or dict.fromkeys(stem(word) for word in words(text))
    return list(found)
