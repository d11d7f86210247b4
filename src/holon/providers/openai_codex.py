"""OpenAI Codex: the Responses wire as the Codex backend of ChatGPT takes it. It always streams.

The backend refuses a limit for the answer, stores nothing, and wants `reasoning` and `include` to be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holon.core.models import ModelCard
from holon.providers.catalog import ProviderEntry
from holon.providers.connections import Attempt, Connection, as_it_stands, openai_client
from holon.providers.contract import OnProgress, PromptCapability, ProviderRequest, ProviderResponse
from holon.providers.evidence import Stage
from holon.providers.lowering import model_name
from holon.providers.openai_responses import common_body
from holon.providers.options import CodexOptions
from holon.providers.responses_items import Response, response_of
from holon.providers.responses_stream import read_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI

#: Sent where the prompt has no system part: the backend refuses a request without instructions.
NO_INSTRUCTIONS = "You are an agent. Follow the conversation."

Wire = dict[str, Any]


class OpenAICodex:
    """The transport `openai_codex_responses`."""

    def __init__(self, entry: ProviderEntry) -> None:
        self.name = entry.name
        self._options = entry.options if isinstance(entry.options, CodexOptions) else CodexOptions()
        self._connection = Connection(entry, "/responses", openai_client)

    def capabilities(self, _card: ModelCard) -> frozenset[PromptCapability]:
        return frozenset({PromptCapability.FULL_REQUEST_ONLY, PromptCapability.PROMPT_CACHE_KEY})

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        body = lower(request, model_name(request.model), self._options)
        sent: Wire = {
            **as_it_stands(body, self._options.extra_body),
        }

        async def exchange(client: AsyncOpenAI, attempt: Attempt) -> ProviderResponse:
            timeout = self._connection.timeout(streaming=True)
            events: Any = await client.responses.create(**sent, timeout=timeout)
            attempt.stage = Stage.BODY
            response = await read_stream(events, on_progress)
            attempt.stage = Stage.DECODE
            return response_of(msgspec.convert(response, Response), request, self._options.schema_mode)

        return await self._connection.attempt(exchange)

    async def warm(self) -> None:
        await self._connection.client()

    async def close(self) -> None:
        await self._connection.close()


def lower(request: ProviderRequest, model: str, options: CodexOptions | None = None) -> Wire:
    body = common_body(request, model, options or CodexOptions())
    return {
        "instructions": NO_INSTRUCTIONS,
        **body,
        "stream": True,
        "store": False,
        "reasoning": None,
        "include": [],
    }
