"""Analytics: what was spent, and how well caches served. Days are UTC, inclusive; without them the last seven."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from holon.runtime.pricing import CacheReport, CostReport
from holon.server.openapi import refusals
from holon.server.parameters import TheHost
from holon.store.calls import By

Grouping = Annotated[By, QueryParameter(description="What the lines are about.")]
Day = Annotated[str | None, QueryParameter(description="A day, like 2026-03-01 (UTC).")]
OfAgent = Annotated[str | None, QueryParameter(description="Only what this agent spent.", min_length=1)]


@get("/analytics/cost", summary="What was spent", tags=["analytics"], responses=refusals(404))
async def cost(
    host: TheHost, by: Grouping = "model", since: Day = None, until: Day = None, agent_id: OfAgent = None
) -> CostReport:
    """Tokens by price class and dollars, in lines by section, agent, model or day, with their total.

    The parts of a prompt are its sections; what the model wrote is the section `output`.
    """
    return await host.pricing.costs(by, since=since, until=until, agent_id=agent_id)


@get(
    "/analytics/cache_effectiveness",
    summary="How well prompt caches served",
    tags=["analytics"],
    responses=refusals(404),
)
async def cache_effectiveness(
    host: TheHost, since: Day = None, until: Day = None, agent_id: OfAgent = None
) -> CacheReport:
    """By model: tokens that were neither read nor written, read, and written; and their shares of all input."""
    return await host.pricing.cache_effectiveness(since=since, until=until, agent_id=agent_id)


HANDLERS = [cost, cache_effectiveness]
