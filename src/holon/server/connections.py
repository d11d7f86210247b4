"""Connections: what a caller may take up before anybody knows who it is. Slow, endless and countless ones are ended.

One that sends no whole request in time, or too long a head, or reads no answer, is told so and closed. Over TCP their
number stays well below the descriptors of the process, so that the local socket and the disk always have some.
"""

from __future__ import annotations

import asyncio
import resource
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holon.core.values import Value
from holon.server import problems

#: The most connections over TCP, however many descriptors there are.
MOST_CONNECTIONS = 1_024
#: How many connections wait in the kernel: also how many are taken at once, before any of them can be refused.
BACKLOG = 128
#: What is written may take so long to leave once nothing more is wanted of a connection.
LINGER_SECONDS = 1.0


class Bounds(Value, frozen=True, kw_only=True):
    """How long and how much a connection may wait, send and leave unread."""

    #: From the first byte (of a new connection: from its beginning) to the end of a request's head.
    head_seconds: float = 10.0
    #: A head, or any other bytes that are no body.
    head_bytes: int = 65_536
    #: From the end of the head to the end of the body.
    body_seconds: float = 120.0
    #: Between an answer and the next request.
    idle_seconds: float = 5.0
    #: How long an answer may be stuck because nobody reads it. A stream is taken up again with its cursor.
    stall_seconds: float = 60.0
    #: Over TCP, all callers together; `None` takes half of the descriptors that the process may have.
    connections: int | None = None

    def most(self) -> int:
        return self.connections if self.connections is not None else _half_of_the_descriptors()


class Crowd:
    """The connections of one listener. Where they are too many, the one that has waited longest gives way."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._present: set[Connection] = set()
        #: Those without a request under way, in the order in which they began to wait.
        self._waiting: dict[Connection, None] = {}

    def enter(self, connection: Connection) -> bool:
        """Whether there is room, or could be made."""
        if self._most is not None and len(self._present) >= self._most:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.leave(longest)
            longest.give_way()
        self._present.add(connection)
        self.waits(connection)
        return True

    def waits(self, connection: Connection) -> None:
        if connection in self._present:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def works(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def leave(self, connection: Connection) -> None:
        self._present.discard(connection)
        self._waiting.pop(connection, None)


def protocol(bounds: Bounds, crowd: Crowd) -> Any:
    """What uvicorn makes for each connection of a listener."""
    return partial(Connection, bounds=bounds, crowd=crowd)


class Connection(HttpToolsProtocol):
    def __init__(
        self,
        config: uvicorn.Config,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        bounds: Bounds,
        crowd: Crowd,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds, self._crowd = bounds, crowd
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        #: Bytes since the parser last came to the end of a head, or to a piece of a body.
        self._fruitless = 0
        self._in_body = self._idle = self._over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._crowd.enter(self):
            self._arm(self._bounds.head_seconds)
            return
        self._over = True  # no lingering: descriptors are what there is too little of
        self._write(_CROWDED)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        if self._idle:
            self._idle = False
            self._arm(self._bounds.head_seconds)
        self._fruitless += len(data)
        super().data_received(data)
        if self._fruitless > self._bounds.head_bytes and not self._over:
            self._refuse(_head_too_large(self._bounds.head_bytes))

    def on_headers_complete(self) -> None:
        if self._over or (self._fruitless > self._bounds.head_bytes and self._head_is_too_large()):
            return
        self._fruitless, self._in_body = 0, True
        self._crowd.works(self)
        self._arm(self._bounds.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._over:
            self._fruitless = 0
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._over:
            return
        self._fruitless, self._in_body = 0, False
        self._disarm()
        super().on_message_complete()
        if self.cycle.response_complete:  # it was answered before it had all come
            self._await_next()

    def on_response_complete(self) -> None:
        more = bool(self.pipeline)
        super().on_response_complete()
        if self.transport.is_closing():
            self._arm(LINGER_SECONDS)
        elif self._in_body:  # answered already: what is left of the body is thrown away, for a while
            self._arm(self._bounds.idle_seconds)
        elif not more:
            self._await_next()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._bounds.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def timeout_keep_alive_handler(self) -> None:
        self._expired()

    def send_400_response(self, msg: str) -> None:
        self._refuse(_MALFORMED)

    def give_way(self) -> None:
        """Leaves at once: nothing is under way here, and somebody else needs the place."""
        self._over = True
        self.transport.abort()

    def _await_next(self) -> None:
        self._idle = True
        self._crowd.waits(self)
        self._arm(self._bounds.idle_seconds)

    def _expired(self) -> None:
        answered = self.cycle is not None and (self.cycle.response_started or self.cycle.response_complete)
        if self._over or self.transport.is_closing():
            self.transport.abort()  # it had its time to read what was left to say
        elif self._in_body and not answered:
            self._refuse(_too_slow("body", self._bounds.body_seconds))
        elif self._fruitless and not self._in_body:
            self._refuse(_too_slow("head", self._bounds.head_seconds))
        else:
            self._over = True
            self.transport.close()
            self._arm(LINGER_SECONDS)

    def _head_is_too_large(self) -> bool:
        """Counted where it ends: what came with it may be the beginning of a body."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._bounds.head_bytes:
            self._refuse(_head_too_large(self._bounds.head_bytes))
        return self._over

    def _refuse(self, problem: problems.Problem) -> None:
        """Says why, then listens no more. It closes a little later: a reset would take the words away again."""
        self._over = True
        self._write(problem)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._arm(LINGER_SECONDS)

    def _write(self, problem: problems.Problem) -> None:
        start, body = problems.raw_answer(problem)
        headers = [*self.server_state.default_headers, *start["headers"], (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + body["body"])

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._expired)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


_CROWDED = problems.of_connection(
    503,
    "too_many_connections",
    "too many connections are open over TCP",
    hint="come again in a moment; the local socket of the home is always open to its owner",
)
_MALFORMED = problems.of_connection(400, "invalid_input", "this is not an HTTP request", hint="speak HTTP/1.1")


def _head_too_large(most: int) -> problems.Problem:
    return problems.of_connection(
        431, "head_too_large", f"the request line and headers have more than {most} bytes", hint="send less in headers"
    )


def _too_slow(part: str, seconds: float) -> problems.Problem:
    return problems.of_connection(
        408, "request_timeout", f"the {part} of the request was not complete after {seconds:g} s", hint="send it again"
    )


def _half_of_the_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, soft // 2))
