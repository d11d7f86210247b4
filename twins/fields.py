"""Fields: which ones each API takes, from fields.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any


def fields_of(api: str, what: str) -> frozenset[str]:
    """The fields of an API's request, message or tool."""
    return frozenset(_table()[api][what])


def kinds_of(api: str, what: str) -> Mapping[str, frozenset[str]]:
    """The kinds of blocks, items or tools that an API takes, and the fields of each."""
    return {kind: frozenset(fields) for kind, fields in _table()[api][what].items()}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "fields.toml").read_text(encoding="utf-8"))
