"""HTTP/1.1, as much as a twin needs, with what a proper server would not let it do: stall, dribble, and cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

_LARGEST_HEAD = 64 * 1024
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    #: Names in lower case.
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """The way back to one client, for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        #: Whether another request can follow on this connection.
        self.reusable = True

    async def send(self, status: int, headers: Mapping[str, str], body: bytes, *, cut_at: int | None = None) -> None:
        """A whole answer; with `cut_at`, only so many bytes of the body that was promised."""
        self._head(status, {**headers, "content-length": str(len(body))})
        self._writer.write(body[:cut_at])
        await self._writer.drain()
        if cut_at is not None:
            self.close()

    async def dribble(self, status: int, headers: Mapping[str, str], body: bytes, piece: int, every_ms: int) -> None:
        self._head(status, {**headers, "content-length": str(len(body))})
        for at in range(0, len(body), piece):
            self._writer.write(body[at : at + piece])
            await self._writer.drain()
            await asyncio.sleep(every_ms / 1000)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._head(status, {**headers, "transfer-encoding": "chunked"})
        await self._writer.drain()

    async def part(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def close(self) -> None:
        self.reusable = False
        self._writer.close()

    async def gone(self) -> None:
        """Waits until the client gives up."""
        self.reusable = False
        with suppress(ConnectionError):
            while await self._reader.read(4096):
                pass

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        phrase = _PHRASES.get(status, "Error")
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))


Handler = Callable[[Request, Wire], Awaitable[None]]


class HttpServer:
    """Listens on 127.0.0.1 and hands each request to one function."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, port: int = 0) -> int:
        """Starts, and says on which port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=_LARGEST_HEAD)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client went away, or speaks something else
        except asyncio.CancelledError:
            pass  # the twin ends
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reusable = True
        while reusable and (request := await _read_request(reader, writer)) is not None:
            wire = Wire(reader, writer)
            await self._handler(request, wire)
            reusable = wire.reusable and request.headers.get("connection", "").lower() != "close"


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None  # no further request
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Request(method, urlsplit(target).path, headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass  # trailers
    return body
