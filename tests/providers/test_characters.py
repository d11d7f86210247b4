"""Half a character in an answer: joined with its other half if that comes, else replaced; the answer is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import dumps
from holon.core.conversation import TextBlock, ToolUseBlock, text_of
from holon.providers.catalog import ProviderEntry
from holon.providers.characters import all_whole, decode, whole
from holon.providers.contract import FailureKind, ProviderFailure
from holon.providers.lowering import arguments_of
from holon.providers.models import ModelTable
from holon.providers.secrets import Secret
from holon.providers.selection import service_transports
from tests.providers.wires import (
    ANTHROPIC,
    ANTHROPIC_STREAM,
    CHAT,
    CHAT_STREAM,
    CODEX,
    RESPONSES,
    RESPONSES_STREAM,
    WEATHER,
    Wire,
)

#: As a service may send it: a character in two pieces, then one half of another.
PIECES = ["a face \ud83d", "\ude00 and half \ud83d", " of one"]
TEXT = "a face 😀 and half � of one"
#: Half a character in a tool's arguments: once as an escape in the arguments' own JSON, once in the answer's.
ARGUMENTS = ['{"city": "Os\\ud83dlo \ud83d', '\ude00"}']
CITY = {"city": "Os�lo 😀"}


@asynccontextmanager
async def service(body: bytes, content_type: str, status: int = 200) -> AsyncIterator[str]:
    """A service that answers every request with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        await reader.readexactly(length)
        writer.write(
            f"HTTP/1.1 {status} OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


def events(*sent: dict[str, Any]) -> bytes:
    lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in sent]
    return "".join(lines).encode()


def chunks(*deltas: dict[str, Any]) -> bytes:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    lines = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    return ("".join(lines) + "data: [DONE]\n\n").encode()


def anthropic_whole() -> bytes:
    city = {"city": "Os\ud83dlo \ud83d\ude00"}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "".join(PIECES)},
            {"type": "tool_use", "id": "t", "name": "Weather", "input": city},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return json.dumps(message).encode()


def anthropic_streamed() -> bytes:
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }

    def piece(index: int, **delta: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    return events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(piece(0, type="text_delta", text=text) for text in PIECES),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "Weather", "input": {}},
        },
        *(piece(1, type="input_json_delta", partial_json=text) for text in ARGUMENTS),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )


def chat_whole() -> bytes:
    call = {"id": "t", "type": "function", "function": {"name": "Weather", "arguments": "".join(ARGUMENTS)}}
    message = {"role": "assistant", "content": "".join(PIECES), "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def chat_streamed() -> bytes:
    first, rest = ARGUMENTS
    return chunks(
        *({"content": text} for text in PIECES),
        {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "Weather", "arguments": first}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": rest}}]},
    )


def _response() -> dict[str, Any]:
    said = {"type": "output_text", "text": "".join(PIECES), "annotations": []}
    output = [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]},
        {"type": "function_call", "id": "f", "call_id": "t", "name": "Weather", "arguments": "".join(ARGUMENTS)},
    ]
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage}


def response_whole() -> bytes:
    return json.dumps(_response()).encode()


def response_streamed() -> bytes:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    return events(
        *({"type": "response.output_text.delta", "delta": text, **place, "sequence_number": 1} for text in PIECES),
        {"type": "response.completed", "response": _response(), "sequence_number": 2},
    )


def item_by_item() -> bytes:
    items = [
        {"type": "response.output_item.done", "output_index": number, "item": item, "sequence_number": number}
        for number, item in enumerate(_response()["output"])
    ]
    return events(*items, {"type": "response.completed", "response": {**_response(), "output": []}})


def provider_of(wire: Wire, url: str) -> Any:
    entry = ProviderEntry(wire.id, wire.transport, base_url=url, key=Secret("k"), options=wire.options)
    return service_transports(ModelTable())[wire.transport](entry)


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        pytest.param(ANTHROPIC, anthropic_whole(), id="anthropic"),
        pytest.param(ANTHROPIC_STREAM, anthropic_streamed(), id="anthropic-stream"),
        pytest.param(CHAT, chat_whole(), id="chat"),
        pytest.param(CHAT_STREAM, chat_streamed(), id="chat-stream"),
        pytest.param(RESPONSES, response_whole(), id="responses"),
        pytest.param(RESPONSES_STREAM, response_streamed(), id="responses-stream"),
        pytest.param(CODEX, item_by_item(), id="codex"),
    ],
)
async def test_an_answer_with_half_a_character_is_kept(wire: Wire, body: bytes) -> None:
    heard: list[TextBlock] = []
    async with service(body, "text/event-stream" if wire.streams else "application/json") as url:
        provider = provider_of(wire, url)
        answer = await provider.respond(wire.asking("hello", tools=[WEATHER]), heard.append)
        await provider.close()
    assert text_of(answer.blocks) == TEXT
    assert [block.input for block in answer.blocks if isinstance(block, ToolUseBlock)] == [CITY]
    assert dumps(answer), "it can be stored"
    assert dumps(heard), "and so can what is said of it meanwhile"


@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT, RESPONSES], ids=lambda wire: wire.id)
async def test_a_refusal_with_half_a_character_can_be_stored_too(wire: Wire) -> None:
    body = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "busy \ud83d"}}).encode()
    async with service(body, "application/json", status=529) as url:
        provider = provider_of(wire, url)
        with pytest.raises(ProviderFailure) as failed:
            await provider.respond(wire.asking("hello"))
        await provider.close()
    assert failed.value.kind is FailureKind.SERVER_ERROR
    assert "busy �" in failed.value.message
    assert dumps([failed.value.message, failed.value.diagnostics])


@given(st.text(st.characters(codec="utf-16"), max_size=30), st.integers(0, 60))
def test_a_text_that_was_cut_anywhere_comes_together_again(text: str, place: int) -> None:
    units = text.encode("utf-16-le")
    cut = min(place * 2, len(units))
    pieces = [half.decode("utf-16-le", "surrogatepass") for half in (units[:cut], units[cut:])]
    assert whole("".join(pieces)) == text


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_whatever_was_sent_can_be_stored(text: str) -> None:
    assert dumps(whole(text))
    assert len(whole(text)) <= len(text)
    assert all_whole([{text: [text, 1]}, None]) == [{whole(text): [whole(text), 1]}, None]


def test_what_is_no_json_or_of_another_shape_is_refused_as_before() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b'{"a": "cut o', dict[str, str])
    with pytest.raises(msgspec.DecodeError):
        decode(b'"half \\ud83d', str)
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"a": 1}', dict[str, str])
    with pytest.raises(msgspec.ValidationError):
        decode(b'["\\ud83d"]', dict[str, str])
    assert arguments_of('{"a": "\\ud83d') == {"_invalid_arguments": '{"a": "\\ud83d'}
