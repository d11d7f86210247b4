"""Ingress: how the outside says something to an agent, as a channel or a webhook. Never as its operator."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from litestar import Request, Response, post
from litestar.params import HeaderParameter, JSONBody

from holon.core.codec import Input
from holon.core.errors import InvalidInput
from holon.core.messages import (
    ChannelOrigin,
    DeliverySurface,
    JsonBody,
    MessageKind,
    Priority,
    TextBody,
    WebhookOrigin,
)
from holon.runtime.admission import Admission
from holon.server.auth import caller_of
from holon.server.bodies import message_body
from holon.server.openapi import refusals
from holon.server.parameters import (
    Accepted,
    AgentId,
    DefaultedAgentId,
    IdempotencyKey,
    TheHost,
    accepted,
    replayable,
    replays,
)

_RESPONSES = refusals(404, 409, 413, 422, 429) | replays(Accepted)

#: A header that names the type of an event, and the source that sends it.
EVENT_TYPE_HEADERS = (
    ("X-Event-Type", "generic"),
    ("X-GitHub-Event", "github"),
    ("X-Gitlab-Event", "gitlab"),
)


class EnqueueRequest(Input, frozen=True, kw_only=True):
    """A message from outside: one of `text`, `json` and `body`. Its labels follow from `origin`, not from claims."""

    #: What the document says beyond the fields.
    __openapi__: ClassVar = {"oneOf": [{"required": ["text"]}, {"required": ["json"]}, {"required": ["body"]}]}

    kind: Literal["channel_event", "webhook_event"] | None = None
    origin: ChannelOrigin | WebhookOrigin | None = None
    priority: Literal["next", "normal", "background"] | None = None
    text: str | None = None
    json: Any = msgspec.UNSET
    body: TextBody | JsonBody | None = None
    metadata: dict[str, Any] | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    #: Claims. They are taken, so that a caller who makes them is not turned away, and ignored.
    trust: Any = None
    authority_class: Any = None
    authority_class_camel: Any = msgspec.field(name="authorityClass", default=None)


@post(
    ["/agents/{agent_id:str}/enqueue", "/enqueue"],
    status_code=202,
    summary="Send a message from a channel or a webhook",
    tags=["ingress"],
    responses=_RESPONSES,
)
async def enqueue(
    host: TheHost,
    request: Request[Any, Any, Any],
    data: JSONBody[EnqueueRequest],
    agent_id: DefaultedAgentId = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[Accepted]:
    """Admits the message durably, then answers. A private or a stopped agent takes none."""
    kind, origin = _kind_and_origin(data)
    admitted = await host.inbox.admit(
        Admission(
            agent_id=agent_id,
            kind=kind,
            origin=origin,
            body=_body(data),
            surface=DeliverySurface.HTTP_PUBLIC_ENQUEUE,
            context=caller_of(request).context,
            priority=Priority(data.priority) if data.priority else None,
            metadata=data.metadata,
            correlation_id=data.correlation_id,
            causation_id=data.causation_id,
            idempotency_key=idempotency_key,
        )
    )
    return replayable(accepted(admitted), status=202)


@post(
    "/webhooks/generic/{agent_id:str}",
    status_code=202,
    summary="Deliver a webhook: any JSON or text",
    tags=["ingress"],
    responses=_RESPONSES,
)
async def webhook(
    host: TheHost,
    request: Request[Any, Any, Any],
    agent_id: AgentId,
    idempotency_key: IdempotencyKey = None,
    source: Annotated[
        str | None, HeaderParameter(name="X-Holon-Source", max_length=200, description="Who sends it, as a label.")
    ] = None,
    correlation_id: Annotated[str | None, HeaderParameter(name="X-Correlation-Id", max_length=200)] = None,
) -> Response[Accepted]:
    """JSON stays JSON on its way to the agent, text stays text. `X-Event-Type` names the event."""
    admitted = await host.inbox.admit(
        Admission(
            agent_id=agent_id,
            kind=MessageKind.WEBHOOK_EVENT,
            origin=_webhook_origin(request, source),
            body=message_body(await request.body(), request.headers.get("content-type", "")),
            surface=DeliverySurface.HTTP_WEBHOOK,
            context=caller_of(request).context,
            correlation_id=correlation_id,
            idempotency_key=idempotency_key,
        )
    )
    return replayable(accepted(admitted), status=202)


HANDLERS = [enqueue, webhook]


def _kind_and_origin(data: JSONBody[EnqueueRequest]) -> tuple[MessageKind, ChannelOrigin | WebhookOrigin]:
    """Each follows from the other; with neither it is a channel, which has the least authority."""
    origin = data.origin
    if origin is None:
        origin = WebhookOrigin(source="http") if data.kind == "webhook_event" else ChannelOrigin(channel_id="http")
    if data.kind is not None:
        return MessageKind(data.kind), origin
    of_channel = isinstance(origin, ChannelOrigin)
    return MessageKind.CHANNEL_EVENT if of_channel else MessageKind.WEBHOOK_EVENT, origin


def _body(data: JSONBody[EnqueueRequest]) -> TextBody | JsonBody:
    bodies: list[TextBody | JsonBody] = []
    if data.text is not None:
        bodies.append(TextBody(text=data.text))
    if data.json is not msgspec.UNSET:
        bodies.append(JsonBody(value=data.json))
    if data.body is not None:
        bodies.append(data.body)
    if len(bodies) != 1:
        raise InvalidInput(
            f"a message has one body, this one has {len(bodies) or 'none'}",
            hint='send exactly one of "text", "json" and "body"',
            field="body",
        )
    return bodies[0]


def _webhook_origin(request: Request[Any, Any, Any], source: str | None) -> WebhookOrigin:
    for header, sender in EVENT_TYPE_HEADERS:
        if event_type := request.headers.get(header):
            return WebhookOrigin(source=source or sender, event_type=event_type[:200])
    return WebhookOrigin(source=source or "generic")
