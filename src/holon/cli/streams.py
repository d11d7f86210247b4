"""Streams: an agent's events as they happen, read as server-sent events and taken up again after a broken line.

The cursor is the log's own sequence number, so that a reconnect neither loses nor repeats an event.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator

from holon.cli.client import Client, agent_path, with_query
from holon.core.codec import loads
from holon.core.errors import DaemonUnreachable
from holon.core.events import EventEnvelope
from holon.core.values import Value

#: Three heartbeats of the server: silence for longer means that the line is dead.
SILENCE_S = 45.0
#: How long a follower looks for a Holon that went away (a restart takes seconds).
PATIENCE_S = 30.0
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)


class Frame(Value, frozen=True):
    """One server-sent event."""

    event: str
    data: str
    id: str | None = None


def follow(
    client: Client, agent_id: str, after_seq: int, *, on_lost: Callable[[], None] | None = None
) -> Iterator[EventEnvelope]:
    """Every event after `after_seq`, endlessly. Raises `CursorTooOld` if the log no longer reaches back so far.

    `on_lost` is told once each time that the Holon cannot be reached.
    """
    seen = after_seq
    lost_at: float | None = None
    failures = 0
    while True:
        try:
            response = _connect(client, agent_id, seen)
        except DaemonUnreachable:
            if lost_at is None and on_lost is not None:
                on_lost()
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at > PATIENCE_S:
                raise
        else:
            lost_at = None
            with response:
                for frame in frames(response):
                    envelope = loads(frame.data, EventEnvelope)
                    if envelope.event_seq > seen:
                        seen, failures = envelope.event_seq, 0
                        yield envelope
        time.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
        failures += 1


def frames(response: http.client.HTTPResponse) -> Iterator[Frame]:
    """The frames of one answer, until it ends or its line breaks. Comments (heartbeats) are passed over."""
    event = "message"
    data: list[str] = []
    identity: str | None = None
    while True:
        try:
            raw = response.readline()
        except (OSError, http.client.HTTPException):
            return
        if not raw:
            return
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield Frame(event, "\n".join(data), identity)
            event, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                event = value
            case "data":
                data.append(value)
            case "id":
                identity = value


def _connect(client: Client, agent_id: str, after_seq: int) -> http.client.HTTPResponse:
    path = with_query(agent_path(agent_id, "events", "stream"), {"after_seq": after_seq})
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after_seq)}
    return client.open("GET", path, headers=headers, timeout=SILENCE_S)
