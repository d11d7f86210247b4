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

#: What is free JSON to a service: it is read in the order in which it was sent. The order of all other fields is not.
FREE_FORM = frozenset({"input", "input_schema", "parameters", "schema"})


def canonical(value: Any) -> str:
    """JSON without spaces, in the order of its keys."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rendered(block: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> str:
    """A block as it stands in the prompt, however the client ordered its fields."""
    return canonical(_ordered({key: value for key, value in block.items() if key not in without}))


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        fields = ((key, value[key]) for key in sorted(value) if value[key] is not None)
        return {key: field if key in FREE_FORM else _ordered(field) for key, field in fields}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


@lru_cache(maxsize=16_384)
def count(text: str) -> int:
    return tokens.count(text)


@lru_cache(maxsize=1_024)
def token_ids(text: str) -> tuple[int, ...]:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # as `tokens.count` does
    return tuple(_vocabulary().encode(whole))


def name_of(text: str, before: str = "") -> str:
    """The name of a prefix: of its last piece, and of the prefix before that."""
    return hashlib.sha256(f"{before}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def cut_to(text: str, limit: int) -> str:
    """The first so many tokens of the text; fewer where the last would be half a character."""
    ids = token_ids(text)
    if len(ids) <= limit:
        return text
    beginnings = (_vocabulary().decode(list(ids[:end])) for end in range(limit, 0, -1))
    return next((beginning for beginning in beginnings if beginning and text.startswith(beginning)), "")


@lru_cache(maxsize=1)
def _vocabulary() -> Any:
    from rs_bpe.bpe import openai

    return openai.cl100k_base()
