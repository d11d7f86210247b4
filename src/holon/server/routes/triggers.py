"""Triggers: an agent's capability URL, for the operator who configures an outside system with it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.params import JSONBody

from holon.core.codec import Input
from holon.core.triggers import TriggerCapability, TriggerSummary
from holon.runtime.timers import MAX_MS
from holon.server.auth import caller_of
from holon.server.bodies import NoFields
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost


class RotateRequest(Input, frozen=True, kw_only=True):
    """With `ttl_ms` the new URL expires by itself."""

    ttl_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_MS)] | None = None


@get(
    "/control/agents/{agent_id:str}/trigger",
    summary="The agent's trigger, without its URL",
    tags=["triggers"],
    responses=refusals(404, 409),
)
async def summary(host: TheHost, agent_id: AgentId) -> TriggerSummary:
    """How often it was delivered, when last, and until when it holds."""
    return await host.triggers.summary(agent_id)


@post(
    "/control/agents/{agent_id:str}/trigger/reveal",
    status_code=200,
    summary="Show the trigger's URL",
    tags=["triggers"],
    responses=refusals(404, 409),
)
async def reveal(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[NoFields | None] = None
) -> TriggerCapability:
    """The URL is a secret: whoever has it can wake the agent. The asking is on record."""
    return await host.triggers.reveal(agent_id, surface=caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/trigger/rotate",
    status_code=200,
    summary="Replace the trigger's URL",
    tags=["triggers"],
    responses=refusals(404, 409),
)
async def rotate(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[RotateRequest | None] = None
) -> TriggerCapability:
    """The old URL is refused from now on."""
    ttl_ms = data.ttl_ms if data else None
    return await host.triggers.rotate(agent_id, surface=caller_of(request).control_surface, ttl_ms=ttl_ms)


@post(
    "/control/agents/{agent_id:str}/trigger/revoke",
    status_code=200,
    summary="Refuse the trigger's URL from now on",
    tags=["triggers"],
    responses=refusals(404, 409),
)
async def revoke(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[NoFields | None] = None
) -> TriggerSummary:
    """What was delivered stays on record."""
    return await host.triggers.revoke(agent_id, surface=caller_of(request).control_surface)


HANDLERS = [summary, reveal, rotate, revoke]
