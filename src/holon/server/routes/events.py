"""Events: an agent's log in pages, and as a stream that goes on where a client left off.

Reading is history: it queues nothing and instructs nobody. How much a client shows never changes what it may read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Request, get
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream

from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.core.events import Event, EventEnvelope
from holon.core.presentation import Presentation, present
from holon.runtime.views import EventQuery
from holon.server import sse
from holon.server.auth import welcome
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, Sequence, TheHost

MAX_SEQ = 2**63 - 1

Limit = Annotated[int, QueryParameter(ge=1, le=512, description="How many events at most.")]
Projection = Annotated[
    Literal["operator", "local_debug"],
    QueryParameter(description="Kept for older clients: both give the whole payload, and nothing is redacted."),
]
WithPresentation = Annotated[bool, QueryParameter(description="Adds to each event the text that people read.")]


class ReadableEvent(EventEnvelope, frozen=True, kw_only=True):
    """An event as it is stored; with `presentation` if it was asked for."""

    presentation: Presentation | None = None


class ReadablePage(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A page of the log. `newest_seq` is where to follow from."""

    events: list[ReadableEvent]
    oldest_seq: int
    newest_seq: int
    has_older: bool
    has_newer: bool
    order: str
    limit: int


@get(
    "/agents/{agent_id:str}/events",
    summary="A page of the agent's events",
    tags=["events"],
    responses=refusals(404, 410),
)
async def page(
    host: TheHost,
    agent_id: AgentId,
    after_seq: Sequence = None,
    before_seq: Sequence = None,
    limit: Limit = 128,
    order: FromQuery[Literal["asc", "desc"]] = "asc",
    projection: Projection = "operator",
    presentation: WithPresentation = False,
) -> ReadablePage:
    """Forward from `after_seq`, or backward from `before_seq`. Numbers rise for as long as the agent lives."""
    found = await host.views.events(
        agent_id, EventQuery(after_seq=after_seq, before_seq=before_seq, limit=limit, order=order)
    )
    shape = with_presentation if presentation else as_stored
    return ReadablePage(
        events=[shape(event) for event in found.events],
        oldest_seq=found.oldest_seq,
        newest_seq=found.newest_seq,
        has_older=found.has_older,
        has_newer=found.has_newer,
        order=found.order,
        limit=found.limit,
    )


@get(
    "/agents/{agent_id:str}/events/stream",
    summary="Follow the agent's events",
    tags=["events"],
    media_type=sse.MEDIA_TYPE,
    responses=refusals(404, 410),
)
async def follow(
    host: TheHost,
    request: Request[Any, Any, Any],
    agent_id: AgentId,
    after_seq: Sequence = None,
    projection: Projection = "operator",
    presentation: WithPresentation = False,
) -> Stream:
    """Server-sent events: `id` is the event's number, `event` its kind, `data` the event as JSON.

    Begins after `Last-Event-ID`, else after `after_seq`, else with what comes next. A comment is sent in every silence.
    If the cursor is outside the log the answer is 410: read `/state` once and follow from its `newest_event_seq`.
    """
    cursor = _last_event_id(request)
    if cursor is None:
        cursor = after_seq
    if cursor is None:
        cursor = (await host.views.summary(agent_id)).newest_event_seq
    # A stream that has begun can refuse nothing more: look before it begins.
    await host.views.events(agent_id, EventQuery(after_seq=cursor, limit=1))
    shape = with_presentation if presentation else as_stored
    return Stream(
        sse.stream(
            host.events.follow(agent_id, cursor),
            heartbeat_ms=host.settings.event_heartbeat_ms,
            closing=host.shutdown_requested,
            welcome=welcome(request),
            render=lambda event: sse.frame(shape(event)),
        ),
        media_type=sse.MEDIA_TYPE,
        headers=sse.HEADERS,
    )


HANDLERS = [page, follow]


def as_stored(event: EventEnvelope) -> ReadableEvent:
    return ReadableEvent(**_fields(event))


def with_presentation(event: EventEnvelope) -> ReadableEvent:
    plain = Event(
        id=event.id,
        agent_id=event.agent_id,
        event_seq=event.event_seq,
        created_at=event.ts,
        kind=event.type,
        payload=event.payload,
    )
    return ReadableEvent(**_fields(event), presentation=present(plain))


def _fields(event: EventEnvelope) -> dict[str, Any]:
    return {name: getattr(event, name) for name in EventEnvelope.__struct_fields__}


def _last_event_id(request: Request[Any, Any, Any]) -> int | None:
    """Where a reconnecting client stands. It wins over the URL, which is still the one of the first connection."""
    text = request.headers.get("last-event-id")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) > MAX_SEQ:
        raise InvalidInput(
            f"Last-Event-ID {text!r} is no number of an event",
            hint="send the id of the last event that you have, or leave it out",
            field="Last-Event-ID",
        )
    return int(text)
