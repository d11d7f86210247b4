"""OpenAI Responses: one JSON request through the official SDK; streamed only for live progress.

`lower` is the whole request, and pure. Where the service remembers the last exchange, the transport sends less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from holon.core.models import ModelCard
from holon.providers.catalog import ProviderEntry
from holon.providers.characters import decode
from holon.providers.connections import Attempt, Connection, as_it_stands, openai_client
from holon.providers.continuations import Continuations, scope_of
from holon.providers.contract import (
    FailureKind,
    OnProgress,
    PromptCapability,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
)
from holon.providers.evidence import Stage
from holon.providers.lowering import freeform_of, model_name, system_text
from holon.providers.options import CodexOptions, ResponsesOptions
from holon.providers.responses_items import (
    Response,
    answer_items,
    cache_key,
    input_items,
    response_of,
    tool_items,
)
from holon.providers.responses_stream import read_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI

#: The service refuses a smaller limit.
LEAST_OUTPUT_TOKENS = 16
OPENAI_HOST = "api.openai.com"

Wire = dict[str, Any]


class OpenAIResponses:
    """The transport `openai_responses`."""

    def __init__(self, entry: ProviderEntry) -> None:
        options = entry.options if isinstance(entry.options, ResponsesOptions) else ResponsesOptions()
        if options.incremental is None:
            at_home = urlsplit(entry.base_url).hostname == OPENAI_HOST
            options = msgspec.structs.replace(options, incremental=at_home)
        self.name = entry.name
        self._options = options
        self._connection = Connection(entry, "/responses", openai_client)
        self._continuations = Continuations()

    def capabilities(self, _card: ModelCard) -> frozenset[PromptCapability]:
        incremental = PromptCapability.INCREMENTAL_RESPONSES
        sends = incremental if self._options.incremental else PromptCapability.FULL_REQUEST_ONLY
        return frozenset({PromptCapability.PROMPT_CACHE_KEY, sends})

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        model = model_name(request.model)
        body = lower(request, model, self._options)
        scope = scope_of(request) if self._options.incremental else None
        narrowed = self._continuations.narrowed(scope, body)
        self._continuations.forget(scope)  # until it is answered: after an error the next request is whole
        answer, mode = await self._send(narrowed, body, request, on_progress)
        freeform = freeform_of(request.tools, model, self._options.freeform_tools)
        said = list(answer_items(answer.blocks, freeform))
        self._continuations.remember(scope, body, said, answer.response_id)
        return msgspec.structs.replace(answer, request_diagnostics={"request_mode": mode})

    async def warm(self) -> None:
        await self._connection.client()

    async def close(self) -> None:
        await self._connection.close()

    async def _send(
        self, narrowed: Wire | None, body: Wire, request: ProviderRequest, on_progress: OnProgress | None
    ) -> tuple[ProviderResponse, str]:
        """The narrowed request if there is one. Should the service not take it, the whole one in the same attempt."""
        if narrowed is not None:
            try:
                answer = await self._exchange(narrowed, request, on_progress)
            except ProviderFailure as failure:
                if failure.kind is not FailureKind.CONTRACT_ERROR:
                    raise
                self._continuations.taken(False)
            else:
                self._continuations.taken(True)
                return answer, "incremental"
        mode = "full" if narrowed is None else "full_after_refusal"
        return await self._exchange(body, request, on_progress), mode

    async def _exchange(self, body: Wire, request: ProviderRequest, on_progress: OnProgress | None) -> ProviderResponse:
        sent: Wire = {
            **as_it_stands(body, self._options.extra_body),
        }

        async def exchange(client: AsyncOpenAI, attempt: Attempt) -> ProviderResponse:
            timeout = self._connection.timeout(streaming=self._options.stream)
            if self._options.stream:
                events: Any = await client.responses.create(**sent, timeout=timeout)
                attempt.stage = Stage.BODY
                response = await read_stream(events, on_progress)
                attempt.stage = Stage.DECODE
                return response_of(msgspec.convert(response, Response), request, self._options.schema_mode)
            async with client.responses.with_streaming_response.create(**sent, timeout=timeout) as raw:
                attempt.stage = Stage.BODY
                data = await raw.read()
            attempt.stage = Stage.DECODE
            return response_of(decode(data, Response), request, self._options.schema_mode)

        return await self._connection.attempt(exchange)


def lower(request: ProviderRequest, model: str, options: ResponsesOptions | None = None) -> Wire:
    """The whole request's body."""
    options = options or ResponsesOptions()
    body = common_body(request, model, options)
    body["max_output_tokens"] = max(LEAST_OUTPUT_TOKENS, request.max_output_tokens)
    body["store"] = bool(options.incremental)
    if options.reasoning_effort:
        body["reasoning"] = {"effort": options.reasoning_effort}
    if options.encrypted_reasoning and not options.incremental:
        body["include"] = ["reasoning.encrypted_content"]
    if options.stream:
        body["stream"] = True
    return body


def common_body(request: ProviderRequest, model: str, options: ResponsesOptions | CodexOptions) -> Wire:
    """What both wires of this API send: instructions, tools and conversation, in the order of the cache's prefix."""
    body: Wire = {"model": model}
    freeform = freeform_of(request.tools, model, options.freeform_tools)
    if instructions := system_text(request.frame):
        body["instructions"] = instructions
    if request.tools:
        body["tools"] = tool_items(request.tools, options.schema_mode, freeform)
        body["tool_choice"] = "auto"
        body["parallel_tool_calls"] = options.parallel_tool_calls
    body["input"] = input_items(request, freeform)
    if request.frame.cache is not None:
        body["prompt_cache_key"] = cache_key(request.frame.cache)
    return body
