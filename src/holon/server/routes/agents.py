"""Agents: what clients read about them. A route without an agent's id is about the default agent."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from holon.core.agents import AgentListEntry, AgentSummary
from holon.core.briefs import Brief
from holon.core.tasks import TaskRecord
from holon.core.templates import TemplateEntry
from holon.core.timers import Timer
from holon.core.transcripts import TranscriptEntry
from holon.runtime.latency import TurnLatency
from holon.runtime.views import AgentStateSnapshot
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, DefaultedAgentId, Sequence, TheHost

Limit = Annotated[int, QueryParameter(ge=1, le=500, description="How many at most, the newest.")]


@get("/agents/list", summary="All public agents", tags=["agents"], responses=refusals())
async def listing(host: TheHost) -> list[AgentListEntry]:
    """One short line each. Private agents are in no list."""
    return await host.views.agents()


@get("/templates", summary="What new agents can be made from", tags=["agents"], responses=refusals())
async def templates(host: TheHost) -> list[TemplateEntry]:
    """By their ids; a folder or a GitHub URL can be given as well."""
    return await host.agents.template_listing()


@get(["/agents/{agent_id:str}/status", "/status"], summary="One agent", tags=["agents"], responses=refusals(404, 409))
async def status(host: TheHost, agent_id: DefaultedAgentId = None) -> AgentSummary:
    """Where it stands, why, and what an operator must do before it takes messages again."""
    return await host.views.summary(agent_id)


@get(
    ["/agents/{agent_id:str}/state", "/state"],
    summary="Everything a client needs to begin",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def state(host: TheHost, agent_id: DefaultedAgentId = None) -> AgentStateSnapshot:
    """One request rebuilds a client's picture; from `newest_event_seq` it follows the events."""
    return await host.views.snapshot(agent_id)


@get(
    ["/agents/{agent_id:str}/briefs", "/briefs"],
    summary="What the agent said to people",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def briefs(host: TheHost, agent_id: DefaultedAgentId = None, limit: Limit = 20) -> list[Brief]:
    return await host.views.briefs(agent_id, limit)


@get(
    ["/agents/{agent_id:str}/transcript", "/transcript"],
    summary="What was said to and by the model",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def transcript(
    host: TheHost, agent_id: DefaultedAgentId = None, limit: Limit = 50, before_seq: Sequence = None
) -> list[TranscriptEntry]:
    return await host.views.transcript(agent_id, limit, before_seq=before_seq)


@get("/agents/{agent_id:str}/tasks", summary="The agent's tasks", tags=["agents"], responses=refusals(404, 409))
async def tasks(host: TheHost, agent_id: AgentId, limit: Limit = 50) -> list[TaskRecord]:
    return await host.views.tasks(agent_id, limit)


@get("/agents/{agent_id:str}/timers", summary="The agent's timers", tags=["agents"], responses=refusals(404, 409))
async def timers(host: TheHost, agent_id: AgentId, limit: Limit = 50) -> list[Timer]:
    return await host.timers.listing(agent_id, limit)


@get(
    "/agents/{agent_id:str}/latency",
    summary="Where the time of turns went",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def latency(host: TheHost, agent_id: AgentId, limit: Limit = 10) -> list[TurnLatency]:
    """The newest turns, each by its queue wait, context, provider and tools."""
    return await host.views.latency(agent_id, limit)


HANDLERS = [listing, templates, status, state, briefs, transcript, tasks, timers, latency]
