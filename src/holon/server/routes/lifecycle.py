"""Lifecycle: pause, resume and stop an agent, and end the run that is under way."""

from __future__ import annotations

from typing import Any, Literal

from litestar import Request, post
from litestar.params import JSONBody

from holon.core.codec import Input
from holon.runtime.lifecycle import AbortOutcome, ControlAction, ControlOutcome
from holon.server.auth import caller_of
from holon.server.bodies import NoFields
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost

#: The words of the `control` route; `start` is the older one for `resume`.
_ACTIONS = {
    "pause": ControlAction.PAUSE,
    "resume": ControlAction.RESUME,
    "start": ControlAction.RESUME,
    "stop": ControlAction.STOP,
}


class ControlRequest(Input, frozen=True, kw_only=True):
    """What to do with the agent; `start` is another word for `resume`."""

    action: Literal["pause", "resume", "start", "stop"]


class AbortRequest(Input, frozen=True, kw_only=True):
    """Which run to end: the current one, or the current one only if it is `run_id`."""

    run_id: str | None = None
    mode: Literal["abort", "stop_after_abort"] = "abort"


@post(
    "/control/agents/{agent_id:str}/pause",
    status_code=200,
    summary="Hold the agent's queue",
    tags=["lifecycle"],
    responses=refusals(404, 409),
)
async def pause(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[NoFields | None] = None
) -> ControlOutcome:
    """Messages are admitted and wait. A turn that runs goes on to its end."""
    return await host.lifecycle.pause(agent_id, caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/resume",
    status_code=200,
    summary="Let a paused or stopped agent go on",
    tags=["lifecycle"],
    responses=refusals(404, 409),
)
async def resume(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[NoFields | None] = None
) -> ControlOutcome:
    """What waited is worked off."""
    return await host.lifecycle.resume(agent_id, caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/stop",
    status_code=200,
    summary="Stop an agent until somebody resumes it",
    tags=["lifecycle"],
    responses=refusals(404, 409),
)
async def stop(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[NoFields | None] = None
) -> ControlOutcome:
    """Ends the run that is under way. No message is taken and no wake helps until the agent is resumed."""
    return await host.lifecycle.stop(agent_id, caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/control",
    status_code=200,
    summary="Pause, resume or stop, by name",
    tags=["lifecycle"],
    responses=refusals(404, 409),
)
async def control(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[ControlRequest]
) -> ControlOutcome:
    return await host.lifecycle.control(agent_id, _ACTIONS[data.action], caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/current-run/abort",
    status_code=200,
    summary="End the run that is under way",
    tags=["lifecycle"],
    responses=refusals(404, 409),
)
async def abort(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[AbortRequest | None] = None
) -> AbortOutcome:
    """The turn settles as aborted, with a brief; then the agent goes on with what waits, or stops."""
    wish = data or AbortRequest()
    return await host.lifecycle.abort(
        agent_id, run_id=wish.run_id, mode=wish.mode, surface=caller_of(request).control_surface
    )


HANDLERS = [pause, resume, stop, control, abort]
