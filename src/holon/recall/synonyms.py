"""Synonyms: what else a term may be called, from a short list of software words that ships with the package."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from holon.recall.words import terms


def synonyms(term: str) -> tuple[str, ...]:
    """Other stems that mean much the same as this stem."""
    return _table().get(term, ())


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[str, ...]]:
    text = (resources.files("holon.recall") / "synonyms.txt").read_text(encoding="utf-8")
    found: dict[str, dict[str, None]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        # A word of two parts has no stem of its own: `pull-request` stands for nothing that could be looked up.
        group = [stems[0] for word in line.split() if len(stems := terms(word)) == 1]
        for term in group:
            found.setdefault(term, {}).update(dict.fromkeys(other for other in group if other != term))
    return {term: tuple(others) for term, others in found.items()}
