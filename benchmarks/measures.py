"""Measures: what a benchmark found, beside its baseline and its limit. Values only; `report` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any


class Scale(StrEnum):
    """How much is measured."""

    #: Tiny: only to see that everything works. Its numbers mean nothing.
    QUICK = "quick"
    NORMAL = "normal"
    #: Longer, where time would make a difference.
    FULL = "full"


class Bound(StrEnum):
    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of ours, the same thing without us, and how far from it we may be."""

    what: str
    unit: str
    ours: float
    baseline: float
    baseline_is: str
    limit: float
    #: Where the limit comes from, in words.
    limit_is: str
    bound: Bound = Bound.AT_MOST

    @property
    def ratio(self) -> float:
        return self.ours / self.baseline if self.baseline else 0.0

    @property
    def met(self) -> bool:
        return self.ours <= self.limit if self.bound is Bound.AT_MOST else self.ours >= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    measures: list[Measure]
    #: Further numbers, for whoever wants to know why.
    details: dict[str, Any] = field(default_factory=dict)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(share * len(ordered) + 0.999_999) - 1))]


def middle(values: Sequence[float]) -> float:
    return float(median(values))
