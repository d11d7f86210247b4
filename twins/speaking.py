"""Speaking: from a script's answer to what the model has said, within the limits that the request sets."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from twins.api import Reading, Said, SaidTool
from twins.counting import canonical, count, cut_to
from twins.script import Answer, Chunk, FaultKind, StopReason, ToolCall

#: A text without chunks of its own is streamed in at most so many pieces.
_PIECES = 40
#: The arguments of a tool call are streamed in pieces of so many characters.
_ARGUMENT_PIECE = 16


def speak(answer: Answer, reading: Reading, fault: FaultKind | None = None) -> Said:
    pieces = _pieces(answer)
    whole = "".join(text for text, _ in pieces)
    text, stop, sequence = _limited(whole, answer, reading)
    tools = () if reading.max_output == 0 else tuple(_tool(call, reading) for call in answer.tools)
    if fault is FaultKind.BROKEN_ARGUMENTS and tools:
        tools = (*tools[:-1], _broken(tools[-1]))
    thinking = "" if reading.max_output == 0 else answer.thinking
    spoken = count(text) + sum(count(tool.name) + count(tool.arguments) for tool in tools)
    return Said(
        thinking=thinking,
        pieces=_cut(pieces, len(text)),
        tools=tools,
        stop=stop,
        stop_sequence=sequence,
        output_tokens=spoken + count(thinking),
        thinking_tokens=count(thinking),
        usage=answer.usage,
    )


def argument_pieces(arguments: str) -> Sequence[str]:
    return [arguments[at : at + _ARGUMENT_PIECE] for at in range(0, len(arguments), _ARGUMENT_PIECE)]


def _pieces(answer: Answer) -> list[tuple[str, int]]:
    if answer.chunks:
        return [
            (chunk.text, chunk.wait_ms) if isinstance(chunk, Chunk) else (chunk, 0) for chunk in answer.chunks if chunk
        ]
    words = re.findall(r"\s*\S+|\s+", answer.text)
    step = -(-len(words) // _PIECES) or 1
    return [("".join(words[at : at + step]), 0) for at in range(0, len(words), step)]


def _limited(text: str, answer: Answer, reading: Reading) -> tuple[str, StopReason, str | None]:
    """The text up to the first stop sequence or to the limit, and why it ends there."""
    found = min(((text.find(stop), stop) for stop in reading.stops if stop and stop in text), default=None)
    if found is not None:
        return text[: found[0]], StopReason.STOP_SEQUENCE, found[1]
    short = text if reading.max_output is None else cut_to(text, reading.max_output)
    if len(short) < len(text) or reading.max_output == 0:
        return short, StopReason.MAX_TOKENS, None
    return text, answer.stop or (StopReason.TOOL_USE if answer.tools else StopReason.END_TURN), None


def _cut(pieces: Sequence[tuple[str, int]], length: int) -> list[tuple[str, int]]:
    kept: list[tuple[str, int]] = []
    for text, wait_ms in pieces:
        if length <= 0:
            break
        kept.append((text[:length], wait_ms))
        length -= len(text)
    return kept


def _tool(call: ToolCall, reading: Reading) -> SaidTool:
    free_text = call.name in reading.free_text_tools
    if call.arguments is not None:
        arguments = call.arguments
    elif free_text and isinstance(call.input, str):
        arguments = call.input
    else:
        arguments = canonical(call.input)
    return SaidTool(call.id, call.name, arguments, arguments if free_text else _decoded(arguments), free_text)


def _broken(tool: SaidTool) -> SaidTool:
    """Arguments that end in the middle, as those of a model that ran out of tokens."""
    arguments = tool.arguments[: max(1, len(tool.arguments) * 2 // 3)]
    return SaidTool(tool.id, tool.name, arguments, arguments, tool.free_text)


def _decoded(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
