"""Runs: one prompt, followed to its result over one stream. `holon run` goes this way when a Holon has the home."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from litestar import Request, post
from litestar.params import JSONBody
from litestar.response import Stream

from holon.core.errors import HolonError
from holon.core.events import EventEnvelope
from holon.runtime.run_once import RunRequest, begin_run
from holon.runtime.run_results import RunResult
from holon.server import problems, sse
from holon.server.auth import caller_of, welcome
from holon.server.openapi import refusals
from holon.server.parameters import IdempotencyKey, TheHost

#: The last frame of a run's stream: how it ended, or why nothing more can be said of it.
RESULT, PROBLEM = "run_result", "problem"


@post(
    "/control/runs",
    status_code=200,
    summary="Do one thing, and follow it to its result",
    tags=["control"],
    media_type=sse.MEDIA_TYPE,
    responses=refusals(404, 409, 413, 422, 429),
)
async def run(
    host: TheHost, request: Request[Any, Any, Any], data: JSONBody[RunRequest], idempotency_key: IdempotencyKey = None
) -> Stream:
    """Server-sent events: the agent's events from the admission on, and at last `run_result`.

    Without `agent_id` a private agent is made for the run. A stream that breaks does not end the run: the same request
    under the same `Idempotency-Key` follows it again from its beginning, and gets its result also after it has ended.
    """
    started = await begin_run(host, data, context=caller_of(request).context, idempotency_key=idempotency_key)
    return Stream(
        sse.stream(
            _told(started.steps()),
            heartbeat_ms=host.settings.event_heartbeat_ms,
            closing=host.shutdown_requested,
            welcome=welcome(request),
            render=_render,
        ),
        media_type=sse.MEDIA_TYPE,
        headers={**sse.HEADERS, "idempotency-replayed": "true"} if started.replayed else sse.HEADERS,
    )


HANDLERS = [run]


async def _told(
    steps: AsyncGenerator[EventEnvelope | RunResult, None],
) -> AsyncIterator[EventEnvelope | RunResult | problems.Problem]:
    """The steps; an error on the way is told, because the answer has begun and can no longer be one."""
    try:
        async for step in steps:
            yield step
    except HolonError as error:
        yield problems.of_error(error)
    finally:
        await steps.aclose()


def _render(step: EventEnvelope | RunResult | problems.Problem) -> bytes:
    match step:
        case RunResult():
            return sse.other_frame(RESULT, step)
        case problems.Problem():
            return sse.other_frame(PROBLEM, step)
        case EventEnvelope():
            return sse.frame(step)
