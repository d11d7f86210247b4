"""OpenAI Chat Completions, for every service that speaks it: OpenRouter, Ollama, vLLM, and whatever is configured.

`lower` is what is sent and `response_of` what is understood; both are pure. Services differ in small things, which are
options, and forgiven where they can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holon.core.codec import dumps
from holon.core.conversation import (
    AssistantBlocks,
    ModelBlock,
    TextBlock,
    ThinkingBlock,
    ToolResults,
    ToolUseBlock,
    UserText,
    text_of,
)
from holon.core.models import CacheKind, ModelCard
from holon.providers.catalog import ProviderEntry
from holon.providers.characters import decode
from holon.providers.chat_stream import read_stream
from holon.providers.connections import Attempt, Connection, as_it_stands, openai_client
from holon.providers.contract import (
    Freeform,
    OnProgress,
    PromptCapability,
    ProviderRequest,
    ProviderResponse,
    StopReason,
    ToolSpec,
)
from holon.providers.evidence import Stage, Told, failure_told
from holon.providers.lowering import (
    arguments_of,
    free_input,
    free_text,
    freeform_of,
    model_name,
    portable_name,
    prompt_blocks,
    replayed,
    tool_input,
)
from holon.providers.models import ModelTable
from holon.providers.options import ChatOptions
from holon.providers.responses_items import cache_key, input_usage
from holon.providers.schemas import SchemaMode, emit

if TYPE_CHECKING:
    from openai import AsyncOpenAI

#: The most marks that the services behind a router take in one request.
MOST_MARKS = 4
MARK = {"type": "ephemeral"}

FINISH_REASONS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_OUTPUT_TOKENS,
    "content_filter": StopReason.REFUSAL,
}

Wire = dict[str, Any]


class OpenAIChat:
    """The transport `openai_chat_completions`."""

    def __init__(self, entry: ProviderEntry, models: ModelTable | None = None) -> None:
        self.name = entry.name
        self._options = entry.options if isinstance(entry.options, ChatOptions) else ChatOptions()
        self._connection = Connection(entry, "/chat/completions", openai_client)
        self._models = models or ModelTable()

    def capabilities(self, card: ModelCard) -> frozenset[PromptCapability]:
        blocks = {PromptCapability.PROMPT_CACHE_BLOCKS} if card.cache.kind is CacheKind.EXPLICIT else set()
        key = {PromptCapability.PROMPT_CACHE_KEY} if self._options.prompt_cache_key else set()
        return frozenset({PromptCapability.FULL_REQUEST_ONLY} | blocks | key)

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        marked = self._models.card(request.model).cache.kind is CacheKind.EXPLICIT
        body = lower(request, model_name(request.model), self._options, marked=marked)
        sent: Wire = {
            "model": body["model"],
            "messages": [],  # the SDK insists on them; those of the body take their place
            **as_it_stands(body, self._options.extra_body),
        }

        async def exchange(client: AsyncOpenAI, attempt: Attempt) -> ProviderResponse:
            timeout = self._connection.timeout(streaming=self._options.stream)
            if self._options.stream:
                events: Any = await client.chat.completions.create(**sent, timeout=timeout)
                attempt.stage = Stage.BODY
                whole = await read_stream(events, on_progress)
                attempt.stage = Stage.DECODE
                return response_of(msgspec.convert(whole, Completion), request, self._options.schema_mode)
            async with client.chat.completions.with_streaming_response.create(**sent, timeout=timeout) as raw:
                attempt.stage = Stage.BODY
                data = await raw.read()
            attempt.stage = Stage.DECODE
            return response_of(decode(data, Completion), request, self._options.schema_mode)

        return await self._connection.attempt(exchange)

    async def warm(self) -> None:
        await self._connection.client()

    async def close(self) -> None:
        await self._connection.close()


def lower(request: ProviderRequest, model: str, options: ChatOptions | None = None, *, marked: bool = False) -> Wire:
    """The request's body. `marked` sets cache marks, for routes to services that take them."""
    options = options or ChatOptions()
    freeform = freeform_of(request.tools, model, options.freeform_tools)
    body: Wire = {"model": model, "messages": _messages(request, options, freeform, marked)}
    if request.tools:
        body["tools"] = [_tool(tool, options.schema_mode, freeform.get(tool.name)) for tool in request.tools]
        body["tool_choice"] = "auto"
        if options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = options.parallel_tool_calls
    body[options.max_tokens_field] = request.max_output_tokens
    if options.prompt_cache_key and request.frame.cache is not None:
        body["prompt_cache_key"] = cache_key(request.frame.cache)
    if options.stream:
        body["stream"] = True
        if options.stream_usage:
            body["stream_options"] = {"include_usage": True}
    return body


class Function(msgspec.Struct):
    name: str = ""
    arguments: str | dict[str, Any] | None = None


class FreeCall(msgspec.Struct):
    name: str
    input: str


class ToolCall(msgspec.Struct):
    """A call is a function's, or (`custom`) one in free text."""

    function: Function | None = None
    custom: FreeCall | None = None
    id: str | None = None


class Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    #: Thinking, under the two names that are in use.
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct):
    message: Message
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: PromptDetails | None = None


class Completion(msgspec.Struct):
    """What a service answers, as far as it is read. Anything else is a shape that we do not know."""

    choices: list[Choice] = []
    id: str | None = None
    usage: Usage | None = None
    #: Routers tell of a failure behind them in an answer whose status says that all is well.
    error: dict[str, Any] | None = None


def response_of(
    completion: Completion, request: ProviderRequest, mode: SchemaMode = SchemaMode.RELAXED
) -> ProviderResponse:
    if completion.error is not None:
        raise failure_told(Told.of(completion.error))
    if not completion.choices:
        raise msgspec.ValidationError("a completion without choices is no answer")
    choice = completion.choices[0]
    blocks = list(_blocks(choice.message, request, mode))
    stop = FINISH_REASONS.get(choice.finish_reason or "", StopReason.OTHER)
    if stop in (StopReason.END_TURN, StopReason.OTHER) and choice.message.tool_calls:
        stop = StopReason.TOOL_USE  # some say `stop` although tools are called
    if stop is StopReason.END_TURN and choice.message.refusal:
        stop = StopReason.REFUSAL
    usage, buckets = None, None
    if (told := completion.usage) is not None:
        parts = told.prompt_tokens_details or PromptDetails()
        usage, buckets = input_usage(
            told.prompt_tokens, told.completion_tokens, parts.cached_tokens or 0, parts.cache_write_tokens or 0
        )
    return ProviderResponse(blocks=blocks, stop_reason=stop, usage=usage, buckets=buckets, response_id=completion.id)


def _messages(
    request: ProviderRequest, options: ChatOptions, freeform: dict[str, Freeform], marked: bool
) -> list[Wire]:
    """System first, then the conversation. With marks the texts are parts that can bear one, else plain strings."""
    system = [_part(block.text) for block in prompt_blocks(request.frame)]
    messages: list[Wire] = [{"role": "system", "content": system}] if system else []
    markable: dict[int, Wire] = {}
    for each in replayed(request):
        match each.item:
            case UserText(text=text):
                messages.append({"role": "user", "content": [_part(text)]})
            case ToolResults(results=results):
                messages += [
                    {"role": "tool", "tool_call_id": result.tool_use_id, "content": [_part(result.content)]}
                    for result in results
                ]
            case AssistantBlocks(blocks=blocks):
                messages += _said(blocks, options, freeform)
                continue
        markable[each.number] = messages[-1]["content"][-1]
    if marked:
        _mark(request, system, markable)
        return messages
    return [{**message, "content": _plain(message["content"])} for message in messages]


def _mark(request: ProviderRequest, system: list[Wire], markable: dict[int, Wire]) -> None:
    """Sets the planned marks, the newest if there are too many. The tools stand in front of the system's, under it."""
    blocks = prompt_blocks(request.frame)
    places = [part for block, part in zip(blocks, system, strict=True) if block.cache_breakpoint]
    places += [markable[number] for number in sorted(request.marks) if number in markable]
    for part in places[-MOST_MARKS:]:
        part["cache_control"] = MARK


def _part(text: str) -> Wire:
    return {"type": "text", "text": text}


def _plain(content: list[Wire] | str | None) -> str | None:
    return "\n\n".join(part["text"] for part in content) if isinstance(content, list) else content


def _said(blocks: list[ModelBlock], options: ChatOptions, freeform: dict[str, Freeform]) -> list[Wire]:
    """What a model said, as one message. Its thinking goes back only where the service has a field for it."""
    calls = [_call(block, freeform.get(block.name)) for block in blocks if isinstance(block, ToolUseBlock)]
    text = text_of(blocks)
    if not calls and not text.strip():
        return []
    message: Wire = {"role": "assistant", "content": text or None}
    thought = "".join(block.text for block in blocks if isinstance(block, ThinkingBlock) and block.signature is None)
    if options.reasoning_field and thought:
        message[options.reasoning_field] = thought
    if calls:
        message["tool_calls"] = calls
    return [message]


def _call(use: ToolUseBlock, freeform: Freeform | None) -> Wire:
    if (free := free_text(use.input, freeform)) is not None:
        return {"id": use.id, "type": "custom", "custom": {"name": use.name, "input": free}}
    function = {"name": portable_name(use.name), "arguments": dumps(use.input)}
    return {"id": use.id, "type": "function", "function": function}


def _tool(tool: ToolSpec, mode: SchemaMode, freeform: Freeform | None) -> Wire:
    head = {"name": tool.name, "description": tool.description}
    if freeform:
        grammar = {"syntax": freeform.syntax, "definition": freeform.definition}
        return {"type": "custom", "custom": {**head, "format": {"type": "grammar", "grammar": grammar}}}
    strict = mode is SchemaMode.STRICT
    return {"type": "function", "function": {**head, "parameters": emit(tool.input_schema, mode), "strict": strict}}


def _blocks(message: Message, request: ProviderRequest, mode: SchemaMode) -> Iterator[ModelBlock]:
    if thought := message.reasoning_content or message.reasoning:
        yield ThinkingBlock(text=thought)
    if text := message.content or message.refusal:
        yield TextBlock(text=text)
    for number, call in enumerate(message.tool_calls or [], start=1):
        id_ = call.id or f"call_{request.turn_id}_{request.round}_{number}"  # some send none
        name, given = _asked(call, request, mode)
        yield ToolUseBlock(id=id_, name=name, input=given)


def _asked(call: ToolCall, request: ProviderRequest, mode: SchemaMode) -> tuple[str, dict[str, Any]]:
    if call.custom is not None:
        return call.custom.name, free_input(call.custom.input, call.custom.name, request.tools)
    if call.function is None:
        raise msgspec.ValidationError("a tool call has neither a function nor free text")
    name, written = call.function.name, call.function.arguments
    arguments = written if isinstance(written, dict) else arguments_of(written or "")
    return name, tool_input(arguments, name, request.tools, mode)
