"""Server-sent events: how an agent's log, or a run, is written to a stream. The cursor is the `id:` line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, TypeVar

from holon.core.codec import dumps
from holon.core.errors import HolonError
from holon.core.events import EventEnvelope

log = logging.getLogger("holon.server")

T = TypeVar("T")

MEDIA_TYPE = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

#: What a client that lost the connection waits before it comes back with `Last-Event-ID`.
RETRY_MS = 1000
HEARTBEAT = b": heartbeat\n\n"
FAREWELL = b": the runtime shuts down\n\n"
REVOKED = b": the token was revoked, so this stream ends\n\n"


def frame(event: EventEnvelope) -> bytes:
    """One event. Its JSON has no line breaks, so that it fits on one `data:` line."""
    return f"id: {event.event_seq}\nevent: {event.type}\ndata: {dumps(event)}\n\n".encode()


def other_frame(name: str, value: Any) -> bytes:
    """What is no event of the log, such as a run's result: it has no number."""
    return f"event: {name}\ndata: {dumps(value)}\n\n".encode()


async def stream(
    events: AsyncIterator[T],
    *,
    heartbeat_ms: int,
    closing: asyncio.Event,
    welcome: Callable[[], bool],
    render: Callable[[T], bytes],
) -> AsyncIterator[bytes]:
    """The events as they come, a heartbeat in every silence, and an end as soon as the runtime closes.

    Each time that there is something to send, the reader must still be `welcome`.
    """
    yield f"retry: {RETRY_MS}\n\n".encode()
    end = asyncio.ensure_future(closing.wait())
    upcoming = asyncio.ensure_future(anext(events))
    try:
        while True:
            await asyncio.wait({upcoming, end}, timeout=heartbeat_ms / 1000, return_when="FIRST_COMPLETED")
            if end.done():
                yield FAREWELL
                return
            if not welcome():
                yield REVOKED
                return
            if upcoming.done():
                event = upcoming.result()
                upcoming = asyncio.ensure_future(anext(events))
                yield render(event)
            else:
                yield HEARTBEAT
    except StopAsyncIteration:
        return
    except HolonError as error:  # too late for an answer; the client comes back with its cursor and gets one
        log.warning("a stream ended: %s", error)
    finally:
        end.cancel()
        # In a task of its own: whoever cancels this stream does not let it wait for anything any more.
        closing_task = asyncio.ensure_future(_close(events, upcoming))
        _closing.add(closing_task)
        closing_task.add_done_callback(_closing.discard)


_closing: set[asyncio.Future[None]] = set()


async def _close(events: AsyncIterator[Any], upcoming: asyncio.Future[Any]) -> None:
    """Ends the iterator, which may stand at an event that nobody took."""
    upcoming.cancel()
    await asyncio.wait([upcoming])
    if isinstance(events, AsyncGenerator):
        await events.aclose()
