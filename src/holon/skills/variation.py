"""Variation: other ways to ask for the same, made from a prompt alone. The same prompt always gives the same list."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

from holon.recall.stems import stem
from holon.recall.words import STOPWORDS

_FORMS = ("please {}", "how do I {}?", "can you {}", "I need to {}", "{} for me")
_POLITE = re.compile(
    r"^(?:please|can you|could you|would you|i need to|i want to|i would like to|how (?:do|can) i|help me(?: to)?)\s+",
    re.IGNORECASE,
)


def variants(prompt: str, limit: int = 12) -> list[str]:
    """The prompt in other forms, with other words, with less of its words, in another order, and mistyped."""
    core = _POLITE.sub("", prompt.strip()).rstrip("?.! ")
    made = [form.format(core) for form in _FORMS]
    made += _reworded(core)
    made += _shortened(core)
    made += _reordered(core)
    made += _mistyped(core)
    fresh = [text for text in dict.fromkeys(made) if text != prompt]
    if len(fresh) <= limit:
        return fresh
    step = len(fresh) / limit  # a few of each kind, not all of the first
    return [fresh[int(at * step)] for at in range(limit)]


def _reworded(text: str) -> list[str]:
    made = []
    for word in re.findall(r"[A-Za-z]+", text):
        for other in _words_like(stem(word.lower()))[:2]:
            if other != word.lower():
                made.append(re.sub(rf"\b{word}\b", other, text, count=1))
    return made


def _shortened(text: str) -> list[str]:
    words = text.split()
    telling = [word for word in words if re.sub(r"\W", "", word).lower() not in STOPWORDS]
    made = [" ".join(telling)] if 1 < len(telling) < len(words) else []
    if len(telling) > 3:
        made += [" ".join(telling[:-1]), " ".join(telling[1:])]
    return made


def _reordered(text: str) -> list[str]:
    before, joint, after = text.partition(" for ")
    return [f"for {after}, {before}"] if joint else []


def _mistyped(text: str) -> list[str]:
    """Two neighbours swapped in the longest word, as fingers do."""
    longest = max(re.findall(r"[A-Za-z]+", text), key=len, default="")
    if len(longest) < 6:
        return []
    at = len(longest) // 2
    swapped = longest[:at] + longest[at + 1] + longest[at] + longest[at + 2 :]
    return [text.replace(longest, swapped, 1)] if swapped != longest else []


def _words_like(wanted: str) -> list[str]:
    return _table().get(wanted, [])


@lru_cache(maxsize=1)
def _table() -> dict[str, list[str]]:
    """Stem -> words of its groups. The list of the search engine holds stems; here whole words are wanted."""
    text = (resources.files("holon.recall") / "synonyms.txt").read_text(encoding="utf-8")
    table: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = [] if line.startswith("#") else line.split()
        for word in words:
            table.setdefault(stem(word), []).extend(other for other in words if other != word)
    return table
