"""The events of a streamed response: how each item of its output comes, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from twins.api import Event, Said
from twins.counting import canonical
from twins.speaking import argument_pieces

#: Type, fields, and the wait before it.
RawEvent = tuple[str, dict[str, Any], int]


def numbered(events: Iterable[RawEvent], start: int = 0) -> Iterator[Event]:
    """Every event has its number in the stream."""
    for number, (kind, fields, wait_ms) in enumerate(events, start):
        yield Event(kind, canonical({"type": kind, "sequence_number": number, **fields}), wait_ms)


def item_events(place: int, item: Mapping[str, Any], said: Said) -> Iterator[RawEvent]:
    empty, middle = _streamed(place, item, said)
    yield "response.output_item.added", {"output_index": place, "item": empty}, 0
    yield from middle
    yield "response.output_item.done", {"output_index": place, "item": item}, 0


def _streamed(place: int, item: Mapping[str, Any], said: Said) -> tuple[dict[str, Any], Iterable[RawEvent]]:
    """The item as it begins, and the events that complete it."""
    at = {"item_id": item["id"], "output_index": place}
    begun = {**item, "status": "in_progress"}
    match item["type"]:
        case "reasoning":
            return {**item, "summary": []}, _reasoning_events(at, item["summary"][0])
        case "message":
            return {**begun, "content": []}, _text_events(at, item["content"][0], said)
        case "function_call":
            name = "response.function_call_arguments"
            return {**begun, "arguments": ""}, _argument_events(name, at, {"arguments": item["arguments"]})
        case _:
            name = "response.custom_tool_call_input"
            return {**begun, "input": ""}, _argument_events(name, at, {"input": item["input"]})


def _reasoning_events(at: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[RawEvent]:
    where = {**at, "summary_index": 0}
    yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}, 0
    yield "response.reasoning_summary_text.delta", {**where, "delta": part["text"]}, 0
    yield "response.reasoning_summary_text.done", {**where, "text": part["text"]}, 0
    yield "response.reasoning_summary_part.done", {**where, "part": part}, 0


def _text_events(at: Mapping[str, Any], part: Mapping[str, Any], said: Said) -> Iterator[RawEvent]:
    where = {**at, "content_index": 0}
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}, 0
    for piece, wait_ms in said.pieces:
        yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}, wait_ms
    yield "response.output_text.done", {**where, "text": part["text"], "logprobs": []}, 0
    yield "response.content_part.done", {**where, "part": part}, 0


def _argument_events(name: str, at: Mapping[str, Any], whole: Mapping[str, str]) -> Iterator[RawEvent]:
    (arguments,) = whole.values()
    for piece in argument_pieces(arguments):
        yield f"{name}.delta", {**at, "delta": piece}, 0
    yield f"{name}.done", {**at, **whole}, 0
