"""Anthropic Messages: one request, whole or streamed, through the official SDK.

`lower` is what is sent and `response_of` what is understood; both are pure. The transport between them only sends.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holon.core.conversation import (
    AssistantBlocks,
    ModelBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResults,
    ToolUseBlock,
    UserText,
)
from holon.core.models import ModelCard
from holon.core.usage import InputBuckets, TokenUsage
from holon.providers.anthropic_stream import read_stream
from holon.providers.catalog import ProviderEntry
from holon.providers.characters import decode
from holon.providers.connections import Attempt, Connection, anthropic_client
from holon.providers.contract import (
    INVALID_ARGUMENTS,
    OnProgress,
    PromptCapability,
    ProviderRequest,
    ProviderResponse,
    StopReason,
)
from holon.providers.evidence import Stage
from holon.providers.lowering import OPENAI_SEAL, model_name, portable_name, prompt_blocks, replayed, tool_input
from holon.providers.options import AnthropicOptions, ContextManagement
from holon.providers.schemas import SchemaMode, emit

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

#: The most marks that the service takes in one request.
MOST_MARKS = 4
MARK = {"type": "ephemeral"}
CONTEXT_MANAGEMENT_BETA = "context-management-2025-06-27"

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_OUTPUT_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_OUTPUT_TOKENS,
    "refusal": StopReason.REFUSAL,
}

Wire = dict[str, Any]


class AnthropicMessages:
    """The transport `anthropic_messages`."""

    def __init__(self, entry: ProviderEntry) -> None:
        options = entry.options
        self.name = entry.name
        self._options = options if isinstance(options, AnthropicOptions) else AnthropicOptions()
        self._connection = Connection(entry, "/v1/messages", anthropic_client)

    def capabilities(self, _card: ModelCard) -> frozenset[PromptCapability]:
        managed = {PromptCapability.CONTEXT_MANAGEMENT} if self._options.context_management else set()
        return frozenset({PromptCapability.FULL_REQUEST_ONLY, PromptCapability.PROMPT_CACHE_BLOCKS} | managed)

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        body = lower(request, model_name(request.model), self._options)
        extra = {**self._options.extra_body, **_taken(body, "context_management")}
        sent: Wire = {
            **body,
            "extra_body": extra or None,
            "extra_headers": {"anthropic-beta": CONTEXT_MANAGEMENT_BETA} if self._options.context_management else None,
        }

        async def exchange(client: AsyncAnthropic, attempt: Attempt) -> ProviderResponse:
            timeout = self._connection.timeout(streaming=self._options.stream)
            if self._options.stream:
                events: Any = await client.messages.create(**sent, timeout=timeout)
                attempt.stage = Stage.BODY
                whole = await read_stream(events, attempt, on_progress)
                attempt.stage = Stage.DECODE
                return response_of(msgspec.convert(whole, Message), request, self._options.schema_mode)
            async with client.messages.with_streaming_response.create(**sent, timeout=timeout) as raw:
                attempt.stage = Stage.BODY
                data = await raw.read()
            attempt.stage = Stage.DECODE
            return response_of(decode(data, Message), request, self._options.schema_mode)

        answer = await self._connection.attempt(exchange)
        diagnostics = clearing_diagnostics(request, self._options.context_management)
        return msgspec.structs.replace(answer, request_diagnostics=diagnostics)

    async def warm(self) -> None:
        await self._connection.client()

    async def close(self) -> None:
        await self._connection.close()


def lower(request: ProviderRequest, model: str, options: AnthropicOptions | None = None) -> Wire:
    """The request's body. Marks are set where they were planned: tools, system, and the newest in the conversation."""
    options = options or AnthropicOptions()
    tools, system = _tools(request, options.schema_mode), _system(request)
    messages, last_blocks = _messages(request)
    marked = sum("cache_control" in block for block in (*tools, *system))
    places = list({id(block): block for number in sorted(request.marks) if (block := last_blocks.get(number))}.values())
    for block in places[-(MOST_MARKS - marked) :] if marked < MOST_MARKS else []:
        block["cache_control"] = MARK
    body: Wire = {"model": model, "max_tokens": request.max_output_tokens}
    if tools:
        body["tools"] = tools
    if system:
        body["system"] = system
    body["messages"] = messages
    if (thinking := _thinking(options, messages, request.max_output_tokens)) is not None:
        body["thinking"] = thinking
    if options.context_management:
        body["context_management"] = {"edits": [_clearing(options.context_management)]}
    if options.stream:
        body["stream"] = True
    return body


class _Block(msgspec.Struct, tag_field="type"):
    pass


class Text(_Block, tag="text"):
    text: str


class ToolUse(_Block, tag="tool_use"):
    id: str
    name: str
    input: Any


class Thinking(_Block, tag="thinking"):
    thinking: str
    signature: str | None = None


class RedactedThinking(_Block, tag="redacted_thinking"):
    data: str


class Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class Message(msgspec.Struct):
    """What the service answers, as far as it is read. Anything else is a shape that we do not know."""

    id: str
    content: list[Text | ToolUse | Thinking | RedactedThinking]
    stop_reason: str | None = None
    usage: Usage | None = None
    type: Literal["message"] = "message"


def response_of(message: Message, request: ProviderRequest, mode: SchemaMode = SchemaMode.RELAXED) -> ProviderResponse:
    usage, buckets = None, None
    if (told := message.usage) is not None:
        buckets = InputBuckets(
            fresh=told.input_tokens,
            read=told.cache_read_input_tokens or 0,
            written=told.cache_creation_input_tokens or 0,
        )
        usage = TokenUsage.of(buckets.total, told.output_tokens)
    return ProviderResponse(
        blocks=[_read(block, request, mode) for block in message.content],
        stop_reason=STOP_REASONS.get(message.stop_reason or "", StopReason.OTHER),
        usage=usage,
        buckets=buckets,
        response_id=message.id,
    )


def clearing_diagnostics(request: ProviderRequest, wanted: ContextManagement | None) -> dict[str, Any] | None:
    """How much of the request the service may clear on its side, in numbers."""
    if wanted is None:
        return None
    results = [result for item in request.conversation if isinstance(item, ToolResults) for result in item.results]
    old = results[: max(0, len(results) - wanted.keep_tool_uses)]
    return {
        "context_management": {
            "trigger_input_tokens": wanted.trigger_input_tokens,
            "eligible_tool_results": len(old),
            "eligible_tool_result_bytes": sum(len(result.content.encode()) for result in old),
        }
    }


def _tools(request: ProviderRequest, mode: SchemaMode) -> list[Wire]:
    tools: list[Wire] = [
        {"name": tool.name, "description": tool.description, "input_schema": emit(tool.input_schema, mode)}
        for tool in request.tools
    ]
    if tools and request.mark_tools:
        tools[-1]["cache_control"] = MARK
    return tools


def _system(request: ProviderRequest) -> list[Wire]:
    blocks = prompt_blocks(request.frame)
    room = MOST_MARKS - (request.mark_tools and bool(request.tools))
    marked = [place for place, block in enumerate(blocks) if block.cache_breakpoint][-room:]
    return [
        {"type": "text", "text": block.text, **({"cache_control": MARK} if place in marked else {})}
        for place, block in enumerate(blocks)
    ]


def _messages(request: ProviderRequest) -> tuple[list[Wire], dict[int, Wire]]:
    """The conversation, neighbours of one role as one message; and for each item the last block that can be marked."""
    messages: list[Wire] = []
    markable: dict[int, Wire] = {}
    newest: Wire | None = None
    for each in replayed(request):
        role, blocks = _lowered(each.item)
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
        newest = next((block for block in reversed(blocks) if block["type"] in _MARKABLE), newest)
        if newest is not None:
            markable[each.number] = newest
    return messages, markable


_MARKABLE = ("text", "tool_use", "tool_result")


def _lowered(item: UserText | AssistantBlocks | ToolResults) -> tuple[str, list[Wire]]:
    match item:
        case UserText(text=text):
            return "user", [{"type": "text", "text": text}]
        case ToolResults(results=results):
            return "user", [
                {
                    "type": "tool_result",
                    "tool_use_id": _portable_id(result.tool_use_id),
                    **({"content": result.content} if result.content.strip() else {}),
                    **({"is_error": True} if result.is_error else {}),
                }
                for result in results
            ]
        case AssistantBlocks(blocks=blocks):
            return "assistant", list(_said(blocks))


def _said(blocks: list[ModelBlock]) -> Iterable[Wire]:
    for block in blocks:
        match block:
            case TextBlock(text=text) if text.strip():
                yield {"type": "text", "text": text}
            case ToolUseBlock(id=id_, name=name, input=given):
                yield {"type": "tool_use", "id": _portable_id(id_), "name": portable_name(name), "input": given}
            case ThinkingBlock(text=text, signature=str(signature)) if not signature.startswith(OPENAI_SEAL):
                yield {"type": "thinking", "thinking": text, "signature": signature}  # unchanged, or it is refused
            case RedactedThinkingBlock(data=data):
                yield {"type": "redacted_thinking", "data": data}
            case _:
                pass  # blank text, and thinking that another service has signed, or nobody


def _portable_id(id_: str) -> str:
    """A call's id as this service takes it: the conversation may hold those of others."""
    return id_ if _PORTABLE_ID.fullmatch(id_) else "call_" + hashlib.sha256(id_.encode()).hexdigest()[:24]


_PORTABLE_ID = re.compile(r"[A-Za-z0-9_-]+")


def _thinking(options: AnthropicOptions, messages: list[Wire], max_tokens: int) -> Wire | None:
    """How the model is to think. Within a budget it may not, where its newest calls were made without thinking."""
    if options.thinking == "off":
        return None
    if options.thinking == "adaptive":
        return {"type": "adaptive"}
    newest: list[Wire] = next(
        (message["content"] for message in reversed(messages) if message["role"] == "assistant"), []
    )
    called = any(block["type"] == "tool_use" for block in newest)
    if called and newest[0]["type"] not in ("thinking", "redacted_thinking"):
        return None
    budget = min(options.thinking_budget_tokens, max_tokens - 1)
    return {"type": "enabled", "budget_tokens": budget} if budget >= 1024 else None


def _clearing(wanted: ContextManagement) -> Wire:
    edit: Wire = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": wanted.trigger_input_tokens},
        "keep": {"type": "tool_uses", "value": wanted.keep_tool_uses},
    }
    if wanted.clear_at_least_input_tokens is not None:
        edit["clear_at_least"] = {"type": "input_tokens", "value": wanted.clear_at_least_input_tokens}
    return edit


def _read(block: _Block, request: ProviderRequest, mode: SchemaMode) -> ModelBlock:
    match block:
        case Text(text=text):
            return TextBlock(text=text)
        case ToolUse(id=id_, name=name, input=given):
            arguments = given if isinstance(given, dict) else {INVALID_ARGUMENTS: str(given)}
            return ToolUseBlock(id=id_, name=name, input=tool_input(arguments, name, request.tools, mode))
        case Thinking(thinking=thinking, signature=signature):
            return ThinkingBlock(text=thinking, signature=signature)
        case RedactedThinking(data=data):
            return RedactedThinkingBlock(data=data)
        case _:
            raise AssertionError(f"the message type names all blocks, but not {block!r}")


def _taken(body: Wire, name: str) -> Wire:
    """A field out of the body that the SDK's method does not name."""
    return {name: body.pop(name)} if name in body else {}
