"""Tokens: exact cl100k counts for the limits that are defined in them, characters / 4 for the context's constants."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


def estimate(text: str) -> int:
    """The context text's measure: a quarter of the characters, rounded up."""
    return (len(text) + 3) // 4


def count(text: str) -> int:
    """Tokens of the cl100k vocabulary, which ships inside the package: nothing is downloaded."""
    if not text:
        return 0
    try:
        return int(_vocabulary().count(text))
    except UnicodeEncodeError:  # half a surrogate pair, as models and terminals cut them: counted like tiktoken does
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return int(_vocabulary().count(whole))


@lru_cache(maxsize=1)
def _vocabulary() -> Any:
    from rs_bpe.bpe import openai  # 25 MB of ranks: loaded where tokens are first counted

    return openai.cl100k_base()
