"""Counting: how many tokens a piece of a prompt has, and under which name a cache knows it.

The vocabulary is cl100k for every model. The services count with vocabularies of their own, so the numbers differ from
theirs by some percent; they are the same on every machine and in every run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from holon.core import tokens


def canonical(value: Any) -> str:
    """JSON without spaces. The order of keys is kept: the services render schemas and tool inputs as they were sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rendered(block: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> str:
    """A block as it stands in the prompt: its own fields in one order, whatever is inside them as it was sent."""
    return canonical({key: block[key] for key in sorted(block) if key not in without and block[key] is not None})


@lru_cache(maxsize=16_384)
def count(text: str) -> int:
    return tokens.count(text)


@lru_cache(maxsize=4_096)
def token_ids(text: str) -> tuple[int, ...]:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # as `tokens.count` does
    return tuple(_vocabulary().encode(whole))


def name_of(text: str, before: str = "") -> str:
    """The name of a prefix: of its last piece, and of the prefix before that."""
    return hashlib.sha256(f"{before}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def cut_to(text: str, limit: int) -> str:
    """The longest beginning of the text that has at most so many tokens."""
    if count(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens.count(text[:middle]) <= limit else (low, middle - 1)
    return text[:low]


@lru_cache(maxsize=1)
def _vocabulary() -> Any:
    from rs_bpe.bpe import openai

    return openai.cl100k_base()
