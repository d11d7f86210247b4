"""Exchanges: one call of a model, from its request to the last byte of the answer, or to the fault in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from twins.api import Api, Ids, Reading, Refusal, Reply, StreamPart
from twins.billing import bill_of
from twins.cache import PromptCache
from twins.calls import Call, Ledger, Outcome
from twins.clock import TwinClock
from twins.counting import canonical
from twins.http import Request, Wire
from twins.playing import Line, Player, scene_of
from twins.script import Fault, FaultKind
from twins.speaking import speak

#: Answers that no API gives.
SURPRISE = {"type": "surprise", "object": "surprise", "value": 42}

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class Exchanges:
    """What all calls of a twin share, and how one of them goes."""

    def __init__(self, player: Player, clock: TwinClock) -> None:
        self.ledger = Ledger()
        self._player = player
        self._clock = clock
        self._cache = PromptCache()

    async def run(self, api: Api, request: Request, wire: Wire) -> None:
        call = self.ledger.open(api.name, request.path, request.headers, self._clock.now_ms())
        try:
            reading = self._read(api, request, call)
            line = self._player.play(scene_of(api.name, reading.model_name, call.number, reading.turns))
            await self._perform(api, call, reading, line, wire)
        except Refusal as refusal:
            self._note(call, status=refusal.status, error=refusal.message)
            body = canonical(api.error_body(refusal, call.request_id)).encode()
            await wire.send(refusal.status, {**JSON, **api.headers(call.request_id), **refusal.headers}, body)
        except ConnectionError:
            self._note(call, outcome=Outcome.ABANDONED)
            raise

    def _read(self, api: Api, request: Request, call: Call) -> Reading:
        self._note(call, outcome=Outcome.REFUSED)  # until the request is accepted
        owner = api.authorize(request.headers)
        body = _decoded(request.body)
        self._note(call, request=body)
        try:
            reading = api.read(body, request.headers, owner)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise Refusal(400, f"Some field of the request is not of the type that it should be: {error!r}") from error
        self._note(call, outcome=Outcome.OPEN, model=reading.model_name, stream=reading.stream)
        return reading

    async def _perform(self, api: Api, call: Call, reading: Reading, line: Line, wire: Wire) -> None:
        fault = line.fault
        if fault is not None:
            self._note(call, outcome=Outcome.FAULTED, fault=fault.kind)
        match fault.kind if fault else None:
            case FaultKind.STATUS:
                assert fault is not None
                raise api.refusal_of(fault, reading)
            case FaultKind.STALL:
                return await wire.gone()
            case FaultKind.DROP:
                return wire.close()
        use = self._cache.plan(reading.prompt, self._clock.now_ms())
        said = speak(line.answer, reading, fault.kind if fault else None)
        bill = bill_of(reading.model, use, said.output_tokens)
        reply = Reply(reading, said, bill, Ids(reading.body, call.number), self._clock.now_ms() // 1000)
        delivery = _Delivery(api, reply, wire, api.headers(call.request_id))
        if _too_long(reading) or (fault and fault.kind is FaultKind.CONTEXT_LENGTH):
            return await self._overflow(call, delivery)
        await asyncio.sleep(line.answer.wait_ms / 1000)
        if fault and fault.kind is FaultKind.FAILED:
            return await delivery.failed(fault)
        self._cache.commit(use, self._clock.now_ms())
        self._note(call, status=200, bill=bill, **({} if fault else {"outcome": Outcome.ANSWERED}))
        if reading.stream:
            return await delivery.stream(fault)
        response = api.whole(reply)
        self._note(call, response=response)
        await delivery.whole(response, fault)

    async def _overflow(self, call: Call, delivery: _Delivery) -> None:
        refusal = delivery.api.overflow(delivery.reply.reading)
        if call_faulted := self.ledger.calls()[call.number - 1].outcome is Outcome.FAULTED:
            pass
        self._note(call, outcome=Outcome.FAULTED if call_faulted else Outcome.REFUSED, error=refusal.message)
        if not (delivery.reply.reading.stream and delivery.api.overflow_in_stream):
            raise refusal
        self._note(call, status=200)
        await delivery.failing_stream(refusal, after=2)

    def _note(self, call: Call, **changes: Any) -> None:
        self.ledger.note(call.number, **changes)


class _Delivery:
    """The way of one answer to the client, with the faults that can happen on it."""

    def __init__(self, api: Api, reply: Reply, wire: Wire, headers: dict[str, str]) -> None:
        self.api = api
        self.reply = reply
        self._wire = wire
        self._headers = headers

    async def whole(self, response: Any, fault: Fault | None) -> None:
        headers = {**JSON, **self._headers}
        body = canonical(response).encode("utf-8", "replace")
        match fault.kind if fault else None:
            case FaultKind.CUT:
                await self._wire.send(200, headers, body, cut_at=len(body) // 2)
            case FaultKind.MALFORMED:
                await self._wire.send(200, headers, body[: len(body) * 2 // 3])
            case FaultKind.UNKNOWN_SHAPE:
                await self._wire.send(200, headers, canonical(SURPRISE).encode())
            case FaultKind.SLOW:
                assert fault is not None
                await self._wire.dribble(200, headers, body, fault.piece, fault.every_ms)
            case _:
                await self._wire.send(200, headers, body)

    async def stream(self, fault: Fault | None) -> None:
        parts = list(self.api.events(self.reply))
        await self._wire.begin(200, {**STREAM, **self._headers})
        match fault.kind if fault else None:
            case FaultKind.CUT:
                assert fault is not None
                place = _place(fault, parts)
                await self._send(parts[:place])
                await self._wire.part(b"".join(part.encode() for part in parts[place : place + 1])[:20])
                return self._wire.close()
            case FaultKind.MALFORMED:
                assert fault is not None
                place = _place(fault, parts)
                await self._send(parts[:place])
                await self._wire.part(b"".join(part.encode() for part in parts[place : place + 1])[:-12] + b"\n\n")
            case FaultKind.UNKNOWN_SHAPE:
                await self._wire.part(f"event: surprise\ndata: {canonical(SURPRISE)}\n\n".encode())
            case FaultKind.SLOW:
                assert fault is not None
                await self._dribble(parts, fault)
            case _:
                await self._send(parts)
        await self._wire.end()

    async def failed(self, fault: Fault) -> None:
        outcome = self.api.failure(fault, self.reply)
        if not self.reply.reading.stream and isinstance(outcome, Refusal):
            raise outcome
        if not self.reply.reading.stream:
            return await self._wire.send(200, {**JSON, **self._headers}, canonical(outcome).encode())
        refusal = outcome if isinstance(outcome, Refusal) else Refusal(500, **_error_of(outcome))
        await self.failing_stream(refusal, after=fault.after)

    async def failing_stream(self, refusal: Refusal, *, after: int | None) -> None:
        parts = list(self.api.events(self.reply))
        sent = parts[: len(parts) // 2 if after is None else after]
        await self._wire.begin(200, {**STREAM, **self._headers})
        await self._send([*sent, *self.api.failing_end(refusal, self.reply, len(sent))])
        await self._wire.end()

    async def _send(self, parts: Sequence[StreamPart]) -> None:
        for part in parts:
            if part.wait_ms:
                await asyncio.sleep(part.wait_ms / 1000)
            await self._wire.part(part.encode())

    async def _dribble(self, parts: Sequence[StreamPart], fault: Fault) -> None:
        data = b"".join(part.encode() for part in parts)
        for at in range(0, len(data), fault.piece):
            await self._wire.part(data[at : at + fault.piece])
            await asyncio.sleep(fault.every_ms / 1000)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refusal(400, f"We could not parse the JSON body of your request: {error}") from error


def _too_long(reading: Reading) -> bool:
    return reading.model.window is not None and reading.prompt.tokens > reading.model.window


def _place(fault: Fault, parts: Sequence[StreamPart]) -> int:
    return len(parts) // 2 if fault.after is None else fault.after


def _error_of(response: Any) -> dict[str, Any]:
    error = response["error"]
    return {"message": error["message"], "code": error["code"], "type": "server_error"}
