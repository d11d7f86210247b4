"""Callbacks: the trigger URL of an agent. The token in the URL is the capability, and a delivery is a wake hint."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, post
from litestar.params import HeaderParameter, PathParameter

from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.core.triggers import HintDisposition
from holon.runtime.host import Host
from holon.runtime.triggers import Delivery, DescriptorMode
from holon.server.bodies import decode
from holon.server.openapi import refusals
from holon.server.parameters import TheHost

_REFUSALS = refusals(403, 409, 413)

Token = Annotated[str, PathParameter(description="The token of the trigger's URL.")]
Source = Annotated[
    str | None, HeaderParameter(name="X-Holon-Source", max_length=200, description="Who delivers, as a label.")
]
Resource = Annotated[
    str | None, HeaderParameter(name="X-Holon-Resource", max_length=500, description="What changed, as a label.")
]
CorrelationId = Annotated[str | None, HeaderParameter(name="X-Correlation-Id", max_length=200)]
CausationId = Annotated[str | None, HeaderParameter(name="X-Causation-Id", max_length=200)]


class Delivered(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What became of the hint: a tick now (`triggered`), or it waits with others (`coalesced`)."""

    agent_id: str
    external_trigger_id: str
    scope: str
    delivery_mode: str
    disposition: HintDisposition
    ok: bool = True


@post(
    "/callbacks/wake/{token:str}",
    status_code=200,
    summary="Tell an agent that something changed",
    tags=["callbacks"],
    responses=_REFUSALS,
)
async def wake(
    host: TheHost,
    request: Request[Any, Any, Any],
    token: Token,
    source: Source = None,
    resource: Resource = None,
    correlation_id: CorrelationId = None,
    causation_id: CausationId = None,
) -> Delivered:
    """Submits a wake hint. The payload is kept with the hint; it never becomes a message of its own."""
    delivery = await _delivery(request, source, resource, correlation_id, causation_id)
    return await _deliver(host, token, delivery, "wake_hint")


@post(
    "/callbacks/enqueue/{token:str}",
    status_code=200,
    summary="The old form of /callbacks/wake",
    deprecated=True,
    tags=["callbacks"],
    responses=_REFUSALS,
)
async def enqueue(
    host: TheHost,
    request: Request[Any, Any, Any],
    token: Token,
    source: Source = None,
    resource: Resource = None,
    correlation_id: CorrelationId = None,
    causation_id: CausationId = None,
) -> Delivered:
    """Taken as a wake hint too; the record says that the form is deprecated."""
    delivery = await _delivery(request, source, resource, correlation_id, causation_id)
    return await _deliver(host, token, delivery, "enqueue_message")


HANDLERS = [wake, enqueue]


async def _delivery(
    request: Request[Any, Any, Any],
    source: str | None,
    resource: str | None,
    correlation_id: str | None,
    causation_id: str | None,
) -> Delivery:
    payload = await request.body()
    return Delivery(
        payload=payload,
        content_type=_content_type(payload, request.headers.get("content-type")),
        source=source,
        resource=resource,
        correlation_id=correlation_id,
        causation_id=causation_id,
    )


def _content_type(payload: bytes, claimed: str | None) -> str | None:
    """A hint is not refused for its payload: what promises JSON and is none is kept as text."""
    if claimed is None or "json" not in claimed:
        return claimed
    try:
        decode(payload, Any)
    except InvalidInput:
        return "text/plain"
    return claimed


async def _deliver(host: Host, token: str, delivery: Delivery, mode: DescriptorMode) -> Delivered:
    outcome = await host.triggers.deliver(token, delivery, descriptor_mode=mode)
    return Delivered(
        agent_id=outcome.agent_id,
        external_trigger_id=outcome.external_trigger_id,
        scope=outcome.scope,
        delivery_mode=outcome.delivery_mode,
        disposition=outcome.disposition,
    )
