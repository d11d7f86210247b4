"""Exchanges: one call of a model, from its request to the last byte of the answer, or to the fault in its place."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from twins.api import Api, Ids, Reading, Refusal, Reply
from twins.billing import bill_of
from twins.cache import PromptCache
from twins.calls import Call, Ledger, Outcome
from twins.clock import TwinClock
from twins.counting import canonical
from twins.delivery import JSON, Delivery
from twins.http import Request, Wire
from twins.playing import Line, Player, scene_of
from twins.script import FaultKind
from twins.speaking import speak


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
            if line.fault is not None:
                self._note(call, outcome=Outcome.FAULTED, fault=line.fault.kind)
            await self._perform(api, call, reading, line, wire)
        except Refusal as refusal:
            self._note(call, status=refusal.status, error=refusal.message)
            body = canonical(api.error_body(refusal, call.request_id)).encode("utf-8", "replace")
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
        kind = fault.kind if fault is not None else None
        if fault is not None and kind is FaultKind.STATUS:
            raise api.refusal_of(fault, reading)
        if kind is FaultKind.STALL:
            await wire.gone()
            return
        if kind is FaultKind.DROP:
            wire.close()
            return
        use = self._cache.plan(reading.prompt, self._clock.now_ms())
        said = speak(line.answer, reading, kind)
        bill = bill_of(reading.model, use, said.output_tokens)
        reply = Reply(reading, said, bill, Ids(reading.body, call.number), self._clock.now_ms() // 1000)
        delivery = Delivery(api, reply, wire, api.headers(call.request_id))
        if kind is FaultKind.CONTEXT_LENGTH or _too_long(reading):
            await self._overflow(api, call, reading, delivery)
            return
        await asyncio.sleep(line.answer.wait_ms / 1000)
        if fault is not None and kind is FaultKind.FAILED:
            self._note(call, status=200)
            refusal = api.failure(fault, reading)
            if reading.stream:
                await delivery.failing_stream(refusal, fault)
            else:
                await delivery.whole(api.failed_whole(refusal, reply))
            return
        self._cache.commit(use, self._clock.now_ms())
        self._note(call, status=200, bill=bill, **({} if fault else {"outcome": Outcome.ANSWERED}))
        if reading.stream:
            await delivery.stream(fault)
        else:
            response = api.whole(reply)
            self._note(call, response=response)
            await delivery.whole(response, fault)

    async def _overflow(self, api: Api, call: Call, reading: Reading, delivery: Delivery) -> None:
        refusal = api.overflow(reading)
        if _too_long(reading):
            self._note(call, outcome=Outcome.REFUSED)
        if not (reading.stream and api.overflow_in_stream):
            raise refusal
        self._note(call, status=200, error=refusal.message)
        await delivery.overflowing_stream(refusal)

    def _note(self, call: Call, **changes: Any) -> None:
        self.ledger.note(call.number, **changes)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refusal(400, f"We could not parse the JSON body of your request: {error}") from error


def _too_long(reading: Reading) -> bool:
    return reading.model.window is not None and reading.prompt.tokens > reading.model.window
