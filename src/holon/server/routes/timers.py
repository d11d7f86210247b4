"""Timers: made and cancelled here; listed beside the agent's other records."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, post
from litestar.params import FromPath, JSONBody

from holon.core.timers import Timer
from holon.runtime.timers import TimerRequest
from holon.server.auth import caller_of
from holon.server.bodies import NoFields
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, IdempotencyKey, TheHost, replayable, replays


@post(
    "/control/agents/{agent_id:str}/timers",
    status_code=201,
    summary="Wake an agent later, once or at an interval",
    tags=["timers"],
    responses=refusals(404, 409, 422) | replays(Timer),
)
async def create(
    host: TheHost,
    request: Request[Any, Any, Any],
    agent_id: AgentId,
    data: JSONBody[TimerRequest],
    idempotency_key: IdempotencyKey = None,
) -> Response[Timer]:
    """The first fire is after `duration_ms`; with `interval_ms` there are more. Missed fires come as one."""
    answer = await host.timers.create(
        agent_id, data, surface=caller_of(request).control_surface, idempotency_key=idempotency_key
    )
    return replayable(answer, status=201)


@post(
    "/control/agents/{agent_id:str}/timers/{timer_id:str}/cancel",
    status_code=200,
    summary="Cancel a timer",
    tags=["timers"],
    responses=refusals(404, 409),
)
async def cancel(
    host: TheHost,
    request: Request[Any, Any, Any],
    agent_id: AgentId,
    timer_id: FromPath[str],
    data: JSONBody[NoFields | None] = None,
) -> Timer:
    """Ticks of it that still wait in the queue are voided."""
    return await host.timers.cancel(agent_id, timer_id, surface=caller_of(request).control_surface)


HANDLERS = [create, cancel]
