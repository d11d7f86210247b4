"""Pricing: what was spent, and how well caches served. It is read from sums by day, however many calls there were."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import TypeVar

from holon.core.codec import Record, to_plain
from holon.core.errors import InvalidInput, UnknownAgent
from holon.core.ledger import CacheLine, CostLine
from holon.providers.models import ModelTable
from holon.store import Store, Tx, agents, calls
from holon.store.calls import By, day_of

#: How far back a question reaches that names no day: today and the six days before, UTC.
DEFAULT_DAYS = 7

T = TypeVar("T")


class PricedLine(CostLine, frozen=True, kw_only=True, omit_defaults=False):
    """A line of costs. `hit_coverage` is the share of its input that was read from a cache."""

    hit_coverage: float | None


class CostReport(Record, frozen=True, kw_only=True, omit_defaults=False):
    by: By
    since: str
    until: str
    agent_id: str | None
    lines: list[PricedLine]
    total: PricedLine
    #: Models in use whose prices nobody told: their tokens are counted here, their money is not.
    unpriced_models: list[str]


class CacheReport(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How well caches served, by model. `hit_rate` is tokens read over all input tokens: coverage, no count of hits."""

    since: str
    until: str
    agent_id: str | None
    models: list[CacheLine]


class Pricing:
    def __init__(self, store: Store, models: ModelTable) -> None:
        self._store, self._models = store, models

    async def costs(
        self, by: By = "model", *, since: str | None = None, until: str | None = None, agent_id: str | None = None
    ) -> CostReport:
        """What was spent in these days, inclusive, UTC; of one agent or of all, archived ones included."""

        def look(tx: Tx, since_day: str, until_day: str) -> CostReport:
            def spent(by: By) -> list[CostLine]:
                return calls.costs(tx, by, since_day=since_day, until_day=until_day, agent_id=agent_id)

            by_model = spent("model")
            return CostReport(
                by=by,
                since=since_day,
                until=until_day,
                agent_id=agent_id,
                lines=[_priced(line) for line in (by_model if by == "model" else spent(by))],
                # A section's line counts the calls that it stood in, so the total is added up from whole calls.
                total=_priced(_total(by_model)),
                unpriced_models=[line.key for line in by_model if self._unpriced(line.key)],
            )

        return await self._look(agent_id, since, until, look)

    async def cache_effectiveness(
        self, *, since: str | None = None, until: str | None = None, agent_id: str | None = None
    ) -> CacheReport:
        def look(tx: Tx, since_day: str, until_day: str) -> CacheReport:
            lines = calls.cache_effectiveness(tx, since_day=since_day, until_day=until_day, agent_id=agent_id)
            return CacheReport(since=since_day, until=until_day, agent_id=agent_id, models=lines)

        return await self._look(agent_id, since, until, look)

    async def _look(
        self, agent_id: str | None, since: str | None, until: str | None, look: Callable[[Tx, str, str], T]
    ) -> T:
        since_day, until_day = days(self._store.clock.now_ms(), since, until)

        def read(tx: Tx) -> T:
            if agent_id is not None and agents.get(tx, agent_id) is None:
                raise UnknownAgent(f"there is no agent {agent_id!r}", hint="'holon agent list' shows those that are")
            return look(tx, since_day, until_day)

        return await self._store.read(read)

    def _unpriced(self, model_ref: str) -> bool:
        return self._models.card(model_ref).source == "unknown_fallback"


def days(now_ms: int, since: str | None, until: str | None) -> tuple[str, str]:
    """The first and the last day that is meant."""
    last = _day(until, "until") if until is not None else date.fromisoformat(day_of(now_ms))
    first = _day(since, "since") if since is not None else last - timedelta(days=DEFAULT_DAYS - 1)
    if first > last:
        raise InvalidInput(f"the days end ({last}) before they begin ({first})", hint="swap them", field="since")
    return first.isoformat(), last.isoformat()


def _day(text: str, field: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text or day.year < 1970:
        raise InvalidInput(f"{text!r} is not a day", hint="write it like 2026-03-01 (UTC)", field=field)
    return day


def _priced(line: CostLine) -> PricedLine:
    return PricedLine(**to_plain(line), hit_coverage=line.read / line.input if line.input else None)


def _total(lines: list[CostLine]) -> CostLine:
    return CostLine(
        key="total",
        calls=sum(line.calls for line in lines),
        fresh=sum(line.fresh for line in lines),
        read=sum(line.read for line in lines),
        written=sum(line.written for line in lines),
        output=sum(line.output for line in lines),
        dollars=sum(line.dollars for line in lines),
    )
