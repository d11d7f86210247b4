"""Delivery: the way of one answer to the client, and the faults that can happen on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from twins.api import Api, Refusal, Reply, StreamPart
from twins.counting import canonical
from twins.http import Wire
from twins.script import Fault, FaultKind

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
#: An answer that no API gives.
SURPRISE = {"type": "surprise", "object": "surprise", "value": 42}


class Delivery:
    def __init__(self, api: Api, reply: Reply, wire: Wire, headers: Mapping[str, str]) -> None:
        self._api = api
        self._reply = reply
        self._wire = wire
        self._headers = dict(headers)

    async def whole(self, response: Any, fault: Fault | None = None) -> None:
        headers = {**JSON, **self._headers}
        body = canonical(response).encode("utf-8", "replace")
        match fault:
            case Fault(kind=FaultKind.CUT):
                await self._wire.send(200, headers, body, cut_at=len(body) // 2)
            case Fault(kind=FaultKind.MALFORMED):
                await self._wire.send(200, headers, body[: len(body) * 2 // 3])
            case Fault(kind=FaultKind.UNKNOWN_SHAPE):
                await self._wire.send(200, headers, canonical(SURPRISE).encode())
            case Fault(kind=FaultKind.SLOW, piece=piece, every_ms=every_ms):
                await self._wire.dribble(200, headers, body, piece, every_ms)
            case _:
                await self._wire.send(200, headers, body)

    async def stream(self, fault: Fault | None = None) -> None:
        parts = list(self._api.events(self._reply))
        middle = _middle(parts, fault)
        next_one = b"".join(part.encode() for part in parts[middle : middle + 1])
        await self._wire.begin(200, {**STREAM, **self._headers})
        match fault:
            case Fault(kind=FaultKind.CUT):
                await self._send(parts[:middle])
                await self._wire.part(next_one[: len(next_one) // 2])
                self._wire.close()
                return
            case Fault(kind=FaultKind.MALFORMED):
                await self._send(parts[:middle])
                await self._wire.part(next_one[: len(next_one) * 2 // 3] + b"\n\n")
            case Fault(kind=FaultKind.UNKNOWN_SHAPE):
                await self._wire.part(f"event: surprise\ndata: {canonical(SURPRISE)}\n\n".encode())
            case Fault(kind=FaultKind.SLOW, piece=piece, every_ms=every_ms):
                await self._dribble(parts, piece, every_ms)
            case _:
                await self._send(parts)
        await self._wire.end()

    async def failing_stream(self, refusal: Refusal, fault: Fault | None) -> None:
        """A stream that begins well and ends with an error."""
        parts = list(self._api.events(self._reply))
        sent = parts[: _middle(parts, fault)]
        await self._wire.begin(200, {**STREAM, **self._headers})
        await self._send([*sent, *self._api.failing_end(refusal, self._reply, len(sent))])
        await self._wire.end()

    async def overflowing_stream(self, refusal: Refusal) -> None:
        """The service takes the request, then finds that the prompt is too long."""
        head = [part for part, _ in zip(self._api.events(self._reply), range(2), strict=False)]
        await self._wire.begin(200, {**STREAM, **self._headers})
        await self._send([*head, *self._api.failing_end(refusal, self._reply, len(head))])
        await self._wire.end()

    async def _send(self, parts: Sequence[StreamPart]) -> None:
        for part in parts:
            if part.wait_ms:
                await asyncio.sleep(part.wait_ms / 1000)
            await self._wire.part(part.encode())

    async def _dribble(self, parts: Sequence[StreamPart], piece: int, every_ms: int) -> None:
        data = b"".join(part.encode() for part in parts)
        for at in range(0, len(data), piece):
            await self._wire.part(data[at : at + piece])
            await asyncio.sleep(every_ms / 1000)


def _middle(parts: Sequence[StreamPart], fault: Fault | None) -> int:
    return fault.after if fault is not None and fault.after is not None else len(parts) // 2
