"""Lowering: what every wire needs on the way from the neutral request to a body. Pure; the rest stands in each wire.

A conversation may have been written by several models of several services, and a turn may have ended between a call
and its result. Services refuse what does not fit their own rules, and would refuse it again in each later request; so
here it is made to fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    ToolResultBlock,
    ToolResults,
    UserText,
    tool_uses,
)
from holon.core.prompts import PromptBlock, PromptFrame, Stability
from holon.core.values import Value
from holon.providers.characters import decode, whole
from holon.providers.contract import INVALID_ARGUMENTS, Freeform, ProviderRequest, ToolSpec
from holon.providers.schemas import SchemaMode, without_nulls

#: In front of thinking that an OpenAI service has sealed. Thinking goes back to the services that can read it only.
OPENAI_SEAL = "openai-reasoning:"
#: What stands for a result that was never written: the turn was ended between the call and its result.
NO_RESULT = "no result: the turn was ended before this call was done"


class Numbered(Value, frozen=True):
    """An item of the conversation, and its number in the request: cache marks name items by number."""

    number: int
    item: ConversationItem


def model_name(model_ref: str) -> str:
    """What the service calls the model: everything behind the provider's name."""
    return model_ref.partition("/")[2]


def prompt_blocks(frame: PromptFrame) -> list[PromptBlock]:
    """The frame's blocks in order, with what belongs to one turn at the end, and none that is blank."""
    blocks = [block for block in frame.blocks if block.text.strip()]
    return sorted(blocks, key=lambda block: block.stability is Stability.TURN_SCOPED)


def system_text(frame: PromptFrame) -> str:
    return "\n\n".join(block.text for block in prompt_blocks(frame))


def replayed(request: ProviderRequest) -> Iterator[Numbered]:
    """The conversation with each call's result right behind it, whatever was said in between; orphans are left out."""
    items = request.conversation
    for number, item in enumerate(items):
        match item:
            case UserText(text=text) if text.strip():
                yield Numbered(number, item)
            case AssistantBlocks(blocks=blocks) if blocks:
                yield Numbered(number, item)
                if calls := [use.id for use in tool_uses(blocks)]:
                    yield _results_of(calls, number, items)
            case _:
                pass  # blank, or results: they went out behind their calls


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments that a model wrote. What is no JSON object goes on as it was written, and is refused there."""
    text = whole(text)
    if not text.strip():
        return {}
    try:
        decoded = decode(text, Any)
    except (msgspec.DecodeError, RecursionError):
        return {INVALID_ARGUMENTS: text}
    return decoded if isinstance(decoded, dict) else {INVALID_ARGUMENTS: text}


def tool_input(arguments: dict[str, Any], name: str, tools: list[ToolSpec], mode: SchemaMode) -> dict[str, Any]:
    """The arguments as the tool's own schema knows them."""
    if mode is SchemaMode.RELAXED or INVALID_ARGUMENTS in arguments:
        return arguments
    schema = next((tool.input_schema for tool in tools if tool.name == name), None)
    return arguments if schema is None else without_nulls(arguments, schema)


def freeform_of(tools: list[ToolSpec], model: str, wanted: bool | None) -> dict[str, Freeform]:
    """The tools that this model is offered as free text. Unless an operator says, by its name: GPT-5 and later know
    such tools, the models before it and open weights refuse them."""
    known = wanted if wanted is not None else _FREEFORM_MODELS.search(model) is not None
    return {tool.name: tool.freeform for tool in tools if tool.freeform} if known else {}


def free_text(given: dict[str, Any], freeform: Freeform | None) -> str | None:
    """The text that a call's arguments are, for a tool that takes text. Arguments that are more than it have none."""
    text = given.get(freeform.argument) if freeform and len(given) == 1 else None
    return text if isinstance(text, str) else None


def free_input(text: str, name: str, tools: list[ToolSpec]) -> dict[str, Any]:
    """The arguments that a call in free text has."""
    freeform = next((tool.freeform for tool in tools if tool.name == name), None)
    return {freeform.argument if freeform else "input": text}


def portable_name(name: str) -> str:
    """A tool's name as every service takes it. A model may have called a tool that never existed, by any name."""
    return _UNPORTABLE.sub("_", name)[:64] or "unnamed"


_UNPORTABLE = re.compile(r"[^A-Za-z0-9_-]")
_FREEFORM_MODELS = re.compile(r"(^|/)(gpt-([5-9]|\d\d)|codex)")


def _results_of(calls: list[str], number: int, items: list[ConversationItem]) -> Numbered:
    found: dict[str, ToolResultBlock] = {}
    place = number
    for later in range(number + 1, len(items)):
        match items[later]:
            case AssistantBlocks(blocks=blocks) if blocks:
                break
            case ToolResults(results=results):
                found |= {result.tool_use_id: result for result in results}
                place = later
            case _:
                pass
    lost = {call: ToolResultBlock(tool_use_id=call, content=NO_RESULT, is_error=True) for call in calls}
    return Numbered(place, ToolResults(results=[found.get(call, lost[call]) for call in calls]))
