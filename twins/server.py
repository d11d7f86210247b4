"""The twin itself: one server on a free port that stands in for all four APIs, and the doors by which it is steered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from twins.anthropic import AnthropicApi
from twins.api import Api, Refusal
from twins.billing import Bill, PriceList
from twins.calls import Call
from twins.chat import ChatApi
from twins.clock import TwinClock
from twins.codex import CodexApi
from twins.delivery import JSON
from twins.exchange import Exchanges
from twins.http import HttpServer, Request, Wire
from twins.playing import Player
from twins.responses import ResponsesApi
from twins.script import Fault, Script, When, parse_script


class Twin:
    """A running twin. `async with Twin.start(script) as twin` starts and ends one."""

    def __init__(self, script: Script, clock: TwinClock) -> None:
        self.clock = clock
        self.port = 0
        self._player = Player(script)
        self._exchanges = Exchanges(self._player, clock)
        self._prices = PriceList(script.models)
        self._anthropic = AnthropicApi(self._prices)
        self._responses = ResponsesApi(self._prices)
        self._apis: dict[str, Api] = {
            "/v1/messages": self._anthropic,
            "/v1/responses": self._responses,
            "/v1/chat/completions": ChatApi(self._prices),
            "/backend-api/codex/responses": CodexApi(self._prices, script.codex_output),
            "/compatible/v1/chat/completions": ChatApi(self._prices, script.quirks),
        }

    @classmethod
    @asynccontextmanager
    async def start(
        cls, script: Script | str | None = None, *, port: int = 0, clock: TwinClock | None = None
    ) -> AsyncIterator[Twin]:
        """A twin that plays a script, or its YAML; without one it echoes. The clock stands still, if none is given."""
        played = parse_script(script) if isinstance(script, str) else script or Script()
        twin = cls(played, clock or TwinClock())
        server = HttpServer(twin._handle)
        twin.port = await server.listen(port)
        try:
            yield twin
        finally:
            await server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def anthropic_url(self) -> str:
        """`base_url` for the Anthropic SDK."""
        return self.url

    @property
    def openai_url(self) -> str:
        """`base_url` for the OpenAI SDK: Responses and Chat Completions."""
        return f"{self.url}/v1"

    @property
    def codex_url(self) -> str:
        """`base_url` for the OpenAI SDK where it talks to the Codex backend."""
        return f"{self.url}/backend-api/codex"

    @property
    def compatible_url(self) -> str:
        """`base_url` of a provider that speaks Chat Completions, with the script's quirks."""
        return f"{self.url}/compatible/v1"

    @property
    def urls(self) -> dict[str, str]:
        return {
            "url": self.url,
            "anthropic_url": self.anthropic_url,
            "openai_url": self.openai_url,
            "codex_url": self.codex_url,
            "compatible_url": self.compatible_url,
        }

    @property
    def calls(self) -> list[Call]:
        """All calls of models so far, in the order of arrival."""
        return self._exchanges.ledger.calls()

    def bill_total(self) -> Bill:
        return self._exchanges.ledger.total()

    def fail(self, fault: Fault, when: When | None = None) -> None:
        """Lets the next call that fits fail; more of them if the fault has `times`."""
        often = fault if fault.times is not None else msgspec.structs.replace(fault, times=1)
        self._player.inject(often, when or When())

    async def _handle(self, request: Request, wire: Wire) -> None:
        api = self._apis.get(request.path)
        if api is not None and request.method == "POST":
            await self._exchanges.run(api, request, wire)
        else:
            status, body = self._small_route(request)
            await wire.send(status, JSON, msgspec.json.encode(body))

    def _small_route(self, request: Request) -> tuple[int, Any]:
        """What is answered at once: the doors of the twin, and the small routes of the services."""
        try:
            match request.method, request.path.strip("/").split("/"):
                case "GET", ["_twin"]:
                    return 200, self.urls
                case "GET", ["_twin", "calls"]:
                    return 200, self.calls
                case "GET", ["_twin", "bill"]:
                    return 200, self.bill_total()
                case "POST", ["_twin", "fault"]:
                    wanted = msgspec.json.decode(request.body, type=_Injection)
                    self.fail(wanted.fault, wanted.when)
                    return 200, {}
                case "POST", ["_twin", "clock"]:
                    self.clock.move(msgspec.json.decode(request.body, type=_Move).move_ms)
                    return 200, {"now_ms": self.clock.now_ms()}
                case "GET", ["v1", "models"]:
                    return 200, self._models("anthropic-version" in request.headers)
                case "POST", ["v1", "messages", "count_tokens"]:
                    owner = self._anthropic.authorize(request.headers)
                    return 200, self._anthropic.count_tokens(msgspec.json.decode(request.body), owner)
                case "GET", ["v1", "responses", response_id]:
                    return 200, self._responses.retrieve(response_id, self._responses.authorize(request.headers))
        except Refusal as refusal:
            api = self._anthropic if "anthropic-version" in request.headers else self._responses
            return refusal.status, api.error_body(refusal, "req_twin")
        except msgspec.MsgspecError as error:
            return 400, {"error": {"message": f"{error}. docs/twins.md says what is taken here"}}
        return 404, {"error": {"message": f"Invalid URL ({request.method} {request.path})", "type": "not_found_error"}}

    def _models(self, anthropic: bool) -> dict[str, Any]:
        ours = [name for name in self._prices.names() if name.startswith("claude-") is anthropic]
        if anthropic:
            models = [{"type": "model", "id": name, "display_name": name, "created_at": _LONG_AGO} for name in ours]
            return {"data": models, "has_more": False, "first_id": ours[0], "last_id": ours[-1]}
        return {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 0, "owned_by": "twin"} for name in ours],
        }


_LONG_AGO = "2025-01-01T00:00:00Z"


class _Injection(msgspec.Struct, forbid_unknown_fields=True):
    fault: Fault
    when: When = When()


class _Move(msgspec.Struct, forbid_unknown_fields=True):
    move_ms: int
