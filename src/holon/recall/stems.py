"""Stems: English words without their endings, by Porter's rules. `deployments`, `deploying` and `deployed` meet in one.

The steps are tables of (ending, replacement), tried in order: the first ending that fits decides its step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

Rules = Sequence[tuple[str, str]]

_STEP_2: Rules = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3: Rules = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4: Rules = tuple(
    (ending, "")
    for ending in (
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate",
        "iti", "ous", "ive", "ize",
    )
)  # fmt: skip

_CONSONANT = "(?:[^aeiouy]|(?:(?<=[aeiouy])|^)y)"
_VOWEL = "(?:[aeiou]|(?<![aeiouy])(?<!^)y)"
_MEASURE = re.compile(f"{_VOWEL}+{_CONSONANT}+")
_HAS_VOWEL = re.compile(_VOWEL)
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_SHORT = re.compile(f"{_CONSONANT}[aeiouy][^aeiouwxy]$")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lower-case word. Words that are short or not plain English letters are left as they are."""
    if len(word) <= 2 or not (word.isascii() and word.isalpha()):
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _HAS_VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2, above=0)
    word = _replace(word, _STEP_3, above=0)
    word = _replace(word, _STEP_4, above=1)
    return _tidy(word)


def _measure(part: str) -> int:
    return len(_MEASURE.findall(part))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and _HAS_VOWEL.search(rest):
            if rest.endswith(("at", "bl", "iz")) or (_measure(rest) == 1 and _SHORT.search(rest)):
                return rest + "e"
            return rest[:-1] if _DOUBLE.search(rest) else rest
    return word


def _replace(word: str, rules: Rules, *, above: int) -> str:
    fitting = [rule for rule in rules if word.endswith(rule[0])]
    if not fitting:
        return word
    ending, replacement = max(fitting, key=lambda rule: len(rule[0]))
    rest = word[: -len(ending)]
    if ending == "ion" and not rest.endswith(("s", "t")):
        return word
    return rest + replacement if _measure(rest) > above else word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _SHORT.search(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
