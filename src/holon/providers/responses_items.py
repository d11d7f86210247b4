"""The items of a Responses conversation: from blocks to items on the way out, and back on the way in. Pure.

Shared by the two wires that speak it: `openai_responses` and `openai_codex`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

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
)
from holon.core.prompts import PromptCache
from holon.core.usage import InputBuckets, TokenUsage
from holon.providers.contract import (
    FailureKind,
    Freeform,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    StopReason,
    ToolSpec,
)
from holon.providers.evidence import Told, failure_told
from holon.providers.lowering import (
    OPENAI_SEAL,
    arguments_of,
    free_input,
    free_text,
    portable_name,
    replayed,
    tool_input,
)
from holon.providers.schemas import SchemaMode, emit

#: The longest cache key that the service takes.
LONGEST_KEY = 64

INCOMPLETE = {"max_output_tokens": StopReason.MAX_OUTPUT_TOKENS, "content_filter": StopReason.REFUSAL}

Wire = dict[str, Any]


def input_items(request: ProviderRequest, freeform: dict[str, Freeform]) -> list[Wire]:
    """The conversation as items. Calls of tools that take free text are sent as such, whoever made them."""
    free_calls: set[str] = set()
    items: list[Wire] = []
    for each in replayed(request):
        match each.item:
            case UserText(text=text):
                items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
            case AssistantBlocks(blocks=blocks):
                said = list(answer_items(blocks, freeform))
                free_calls |= {item["call_id"] for item in said if item["type"] == "custom_tool_call"}
                items += said
            case ToolResults(results=results):
                items += [
                    {
                        "type": _OUTPUTS[result.tool_use_id in free_calls],
                        "call_id": result.tool_use_id,
                        "output": result.content,
                    }
                    for result in results
                ]
    return items


def answer_items(blocks: list[ModelBlock], freeform: dict[str, Freeform]) -> Iterator[Wire]:
    """What a model said, as items of the next request."""
    for block in blocks:
        match block:
            case TextBlock(text=text) if text.strip():
                yield {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            case ToolUseBlock(id=id_, name=name, input=given):
                if (free := free_text(given, freeform.get(name))) is not None:
                    yield {"type": "custom_tool_call", "call_id": id_, "name": name, "input": free}
                else:
                    called = portable_name(name)
                    yield {"type": "function_call", "call_id": id_, "name": called, "arguments": dumps(given)}
            case ThinkingBlock(text=text, signature=str(seal)) if seal.startswith(OPENAI_SEAL):
                id_, _, encrypted = seal.removeprefix(OPENAI_SEAL).partition(":")
                summary = [{"type": "summary_text", "text": text}] if text else []
                yield {"type": "reasoning", "id": id_, "summary": summary, "encrypted_content": encrypted}
            case _:
                pass  # blank text, and thinking that this service cannot read


def tool_items(tools: list[ToolSpec], mode: SchemaMode, freeform: dict[str, Freeform]) -> list[Wire]:
    return [_tool(tool, mode, freeform.get(tool.name)) for tool in tools]


def cache_key(cache: PromptCache) -> str:
    """The scope of the service's cache: never the fingerprint, which changes with every turn."""
    key = cache.prompt_cache_key
    return key if len(key) <= LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


class _Item(msgspec.Struct, tag_field="type"):
    pass


class _Part(msgspec.Struct, tag_field="type"):
    pass


class OutputText(_Part, tag="output_text"):
    text: str


class Refusal(_Part, tag="refusal"):
    refusal: str


class OutputMessage(_Item, tag="message"):
    content: list[OutputText | Refusal]


class FunctionCall(_Item, tag="function_call"):
    call_id: str
    name: str
    arguments: str


class CustomToolCall(_Item, tag="custom_tool_call"):
    call_id: str
    name: str
    input: str


class Summary(msgspec.Struct):
    text: str


class Reasoning(_Item, tag="reasoning"):
    id: str = ""
    summary: list[Summary] = []
    encrypted_content: str | None = None


class InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: InputDetails | None = None


class IncompleteDetails(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    """What the service answers, as far as it is read. Anything else is a shape that we do not know."""

    id: str
    status: str
    output: list[OutputMessage | FunctionCall | CustomToolCall | Reasoning]
    usage: Usage | None = None
    error: dict[str, Any] | None = None
    incomplete_details: IncompleteDetails | None = None


def response_of(
    response: Response, request: ProviderRequest, mode: SchemaMode = SchemaMode.RELAXED
) -> ProviderResponse:
    """The answer; raises what the service says where the response did not come to one."""
    usage, buckets = usage_of(response.usage)
    if response.status == "failed":
        raise failure_told(Told.of(response.error), usage=usage, response_status="failed")
    if response.status not in ("completed", "incomplete"):
        raise ProviderFailure(FailureKind.INVALID_RESPONSE, f"a response that is {response.status!r} is no answer")
    blocks = [block for item in response.output for block in _blocks(item, request, mode)]
    return ProviderResponse(
        blocks=blocks,
        stop_reason=_stop_reason(response, blocks),
        usage=usage,
        buckets=buckets,
        response_id=response.id,
    )


def usage_of(told: Usage | None) -> tuple[TokenUsage | None, InputBuckets | None]:
    """`input_tokens` is the whole input; what was read and written are parts of it."""
    if told is None:
        return None, None
    details = told.input_tokens_details or InputDetails()
    return input_usage(
        told.input_tokens, told.output_tokens, details.cached_tokens or 0, details.cache_write_tokens or 0
    )


def input_usage(whole: int, output: int, read: int, written: int) -> tuple[TokenUsage, InputBuckets]:
    """Usage of services that tell the whole and its parts. Parts that are more than the whole are cut to it."""
    read = min(read, whole)
    written = min(written, whole - read)
    buckets = InputBuckets(fresh=whole - read - written, read=read, written=written)
    return TokenUsage.of(whole, output), buckets


_OUTPUTS = {False: "function_call_output", True: "custom_tool_call_output"}


def _tool(tool: ToolSpec, mode: SchemaMode, freeform: Freeform | None) -> Wire:
    head = {"name": tool.name, "description": tool.description}
    if freeform:
        grammar = {"type": "grammar", "syntax": freeform.syntax, "definition": freeform.definition}
        return {"type": "custom", **head, "format": grammar}
    strict = mode is SchemaMode.STRICT
    return {"type": "function", **head, "parameters": emit(tool.input_schema, mode), "strict": strict}


def _blocks(item: _Item, request: ProviderRequest, mode: SchemaMode) -> Iterator[ModelBlock]:
    match item:
        case OutputMessage(content=content):
            for part in content:
                text = part.text if isinstance(part, OutputText) else part.refusal
                if text:
                    yield TextBlock(text=text)
        case FunctionCall(call_id=id_, name=name, arguments=arguments):
            given = tool_input(arguments_of(arguments), name, request.tools, mode)
            yield ToolUseBlock(id=id_, name=name, input=given)
        case CustomToolCall(call_id=id_, name=name, input=text):
            yield ToolUseBlock(id=id_, name=name, input=free_input(text, name, request.tools))
        case Reasoning(id=id_, summary=summary, encrypted_content=encrypted):
            text = "\n\n".join(part.text for part in summary)
            seal = f"{OPENAI_SEAL}{id_}:{encrypted}" if encrypted else None
            if text or seal:
                yield ThinkingBlock(text=text, signature=seal)


def _stop_reason(response: Response, blocks: list[ModelBlock]) -> StopReason:
    if response.status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return INCOMPLETE.get(reason or "", StopReason.OTHER)
    if any(isinstance(block, ToolUseBlock) for block in blocks):
        return StopReason.TOOL_USE
    refused = any(
        isinstance(part, Refusal)
        for item in response.output
        if isinstance(item, OutputMessage)
        for part in item.content
    )
    return StopReason.REFUSAL if refused else StopReason.END_TURN
