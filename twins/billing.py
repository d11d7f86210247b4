"""Billing: what each model costs, by the dated table in prices.toml, and the bill of a call."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import msgspec

from twins.cache import CacheUse


class Caching(StrEnum):
    MARKS = "marks"
    AUTOMATIC = "automatic"
    BREAKPOINTS = "breakpoints"


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's prices in dollars for a million tokens, and its rules. prices.toml says what each field means."""

    input: float
    output: float
    floor: int
    caching: Caching
    read: float
    write: float
    write_1h: float
    window: int | None = None
    prefill: bool = False
    system_messages: bool = False
    sampling: bool = True


@dataclass(frozen=True, slots=True)
class Bill:
    """Tokens in disjoint parts, and what they cost together."""

    fresh: int = 0
    read: int = 0
    written: int = 0
    #: The part of `written` that is kept for an hour.
    written_1h: int = 0
    output: int = 0
    dollars: Decimal = Decimal(0)

    @property
    def input(self) -> int:
        return self.fresh + self.read + self.written

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            fresh=self.fresh + other.fresh,
            read=self.read + other.read,
            written=self.written + other.written,
            written_1h=self.written_1h + other.written_1h,
            output=self.output + other.output,
            dollars=self.dollars + other.dollars,
        )


class PriceList:
    """The models that a twin knows: those of prices.toml, and those that a script adds or changes."""

    def __init__(self, extra: Mapping[str, Model] | None = None) -> None:
        self._models = published() | dict(extra or {})

    def find(self, name: str) -> Model | None:
        """The model of this name; a date at its end (`-20251001`, `-2025-08-07`) names the same model."""
        return self._models.get(name) or self._models.get(_DATED.sub("", name))

    def names(self) -> list[str]:
        return sorted(self._models)


def bill_of(model: Model, use: CacheUse, output_tokens: int) -> Bill:
    short = use.written - use.written_1h
    weighed = (
        Decimal(use.fresh)
        + use.read * Decimal(str(model.read))
        + short * Decimal(str(model.write))
        + use.written_1h * Decimal(str(model.write_1h))
    )
    cost = weighed * Decimal(str(model.input)) + output_tokens * Decimal(str(model.output))
    return Bill(
        fresh=use.fresh,
        read=use.read,
        written=use.written,
        written_1h=use.written_1h,
        output=output_tokens,
        dollars=cost / 1_000_000,
    )


@lru_cache(maxsize=1)
def published() -> dict[str, Model]:
    """The rows of prices.toml, each with the defaults of its provider."""
    table = tomllib.loads((Path(__file__).parent / "prices.toml").read_text(encoding="utf-8"))
    return {
        name: msgspec.convert({**defaults, **row}, Model)
        for provider in ("anthropic", "openai")
        for defaults in [{key: value for key, value in table[provider].items() if key != "models"}]
        for name, row in table[provider]["models"].items()
    }


_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
