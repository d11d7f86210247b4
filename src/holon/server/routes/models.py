"""Models: which there are, what they cost, whether they can be used here, and which one an agent uses."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, get, post
from litestar.params import JSONBody

from holon.core.codec import Input
from holon.runtime.doctor import Diagnosis, examine
from holon.runtime.modelling import ModelLine, ModelOutcome
from holon.server.auth import caller_of
from holon.server.bodies import NoFields
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost


class ModelRequest(Input, frozen=True, kw_only=True):
    """The model that the agent's next turns use. `force` takes one whose provider cannot be used now."""

    model: str
    force: bool = False


@get("/models", summary="The model table", tags=["models"], responses=refusals())
async def listing(host: TheHost) -> list[ModelLine]:
    """Windows, prices and cache rules, each with its date and source, and whether the provider can be used here.

    `card.model_ref` is the beginning of the references that a line is about.
    """
    return host.modelling.listing()


@get(
    "/control/agents/{agent_id:str}/model",
    summary="The agent's model",
    tags=["models"],
    responses=refusals(404, 409),
)
async def get_model(host: TheHost, agent_id: AgentId) -> ModelOutcome:
    """What its next turn begins with, why, and what is tried after it."""
    return await host.modelling.get(agent_id)


@post(
    "/control/agents/{agent_id:str}/model",
    status_code=200,
    summary="Give the agent a model of its own",
    tags=["models"],
    responses=refusals(404, 409),
)
async def set_model(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[ModelRequest]
) -> ModelOutcome:
    """From its next turn on: a turn that runs keeps the model that it began with."""
    return await host.modelling.set(agent_id, data.model, force=data.force, surface=caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/model/clear",
    status_code=200,
    summary="Let the agent follow the runtime's default model again",
    tags=["models"],
    responses=refusals(404, 409),
)
async def clear_model(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[NoFields | None] = None
) -> ModelOutcome:
    return await host.modelling.clear(agent_id, surface=caller_of(request).control_surface)


@get(
    "/control/runtime/doctor",
    summary="Whether home and providers can be used, and what to do",
    tags=["runtime"],
    responses=refusals(),
)
async def doctor(host: TheHost) -> Diagnosis:
    """Looks only: nothing is sent to a provider."""
    return await asyncio.to_thread(examine, host.settings, host.providers)


HANDLERS = [listing, get_model, set_model, clear_model, doctor]
