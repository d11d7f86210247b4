"""One daemon's connection to one runner."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from holon.tasks.folder import CONTROL
from holon.tasks.protocol import (
    CommandStatus,
    InputReply,
    Refused,
    Started,
    StopReply,
    decode,
    encode,
    read_started,
    read_status,
)


class Link(asyncio.Protocol):
    """Futures for what a runner says: its first word, its last, and its answers in the order of the questions."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        #: None: it hung up without a word.
        self.first: asyncio.Future[Started | Refused | None] = loop.create_future()
        #: None: it hung up without saying how the command ended.
        self.last: asyncio.Future[CommandStatus | None] = loop.create_future()
        self._replies: deque[asyncio.Future[dict[str, Any] | None]] = deque()
        self._transport: asyncio.Transport | None = None
        self._heard = b""

    async def send_input(self, text: str, *, end: bool) -> InputReply | None:
        """None: it hung up."""
        found = await self._ask("input", {"text": text, "end": end})
        return InputReply(**found) if found else None

    async def stop(self, *, force: bool) -> StopReply | None:
        """None: it hung up."""
        found = await self._ask("stop", {"force": force})
        return StopReply(**found) if found else None

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def send(self, line: bytes) -> None:
        if self._transport:
            self._transport.write(line)

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def post(self, kind: str, asked: dict[str, Any]) -> asyncio.Future[dict[str, Any] | None]:
        """Asks, without waiting for the answer."""
        reply: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._replies.append(reply)
        self.send(encode(kind, asked))
        return reply

    async def _ask(self, kind: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        return None if self.closed else await self.post(kind, asked)

    # ---- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            kind, body = decode(line)
            match kind:
                case "started":
                    _settle(self.first, read_started(body))
                case "refused":
                    _settle(self.first, Refused(**body))
                case "ended":
                    _settle(self.last, read_status(body))
                case "reply":
                    _settle(self._replies.popleft(), body)

    def connection_lost(self, exc: Exception | None) -> None:
        _settle(self.first, None)
        _settle(self.last, None)
        for reply in self._replies:
            _settle(reply, None)


async def connect(folder: Path, patience_s: float) -> Link | None:
    """Calls the runner of a command; None if nobody listens, or if it has had too many callers for so long."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection = _dial(folder)
        except BlockingIOError:  # it has more callers than it has answered yet
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.01)
            continue
        if connection is None:
            return None
        _, link = await asyncio.get_running_loop().create_unix_connection(Link, sock=connection)
        return link


def _dial(folder: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        with _address(folder) as address:
            connection.connect(address)
    except BlockingIOError:
        connection.close()
        raise
    except OSError:
        connection.close()
        return None
    return connection


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """A socket's address has at most 107 bytes; by way of the open folder it is always short."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        by_descriptor = f"/proc/self/fd/{descriptor}"
        yield os.path.join(by_descriptor if os.path.isdir(by_descriptor) else folder, CONTROL)
    finally:
        os.close(descriptor)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
