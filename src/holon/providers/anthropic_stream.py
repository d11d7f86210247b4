"""A streamed Anthropic message: its events, put together to the message that one request would have brought."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.conversation import TextBlock
from holon.core.usage import TokenUsage
from holon.providers.characters import all_whole, whole
from holon.providers.connections import Attempt
from holon.providers.contract import FailureKind, OnProgress, ProviderFailure
from holon.providers.lowering import arguments_of

#: What a delta adds to, by its type: the delta's field, and the block's.
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}

INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


async def read_stream(events: Any, attempt: Attempt, on_progress: OnProgress | None) -> dict[str, Any]:
    """The message that an SDK's stream of events comes to. What happens behind its last event does not matter."""
    stream = MessageStream(on_progress)
    try:
        async with events:
            async for event in events:
                stream.take(event.to_dict(warnings=False))
                attempt.usage = stream.usage()
    except Exception:
        if not stream.ended:
            raise
    return all_whole(stream.message())  # type: ignore[no-any-return]


class MessageStream:
    """Takes events as plain values, in order. Types of events that it does not know are for others, and ignored."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self.ended = False

    def take(self, event: dict[str, Any]) -> None:
        try:
            self._take(event)
        except (KeyError, TypeError) as error:
            raise msgspec.ValidationError(f"an event of type {event.get('type')!r} lacks {error}") from error

    def message(self) -> dict[str, Any]:
        """The message in its whole form. A stream that ended early has none."""
        if not self.ended:
            raise ProviderFailure(FailureKind.INVALID_RESPONSE, "the stream ended before the message did")
        return {**self._message, "content": [self._finished(block) for _, block in sorted(self._blocks.items())]}

    def usage(self) -> TokenUsage | None:
        """What the service has told so far: also an answer that breaks off was read, and is paid."""
        told = self._message.get("usage")
        if not isinstance(told, dict):
            return None
        read = [told.get(name) or 0 for name in INPUT_COUNTS]
        return TokenUsage.of(sum(read), told.get("output_tokens") or 0)

    def _take(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start":
                block = dict(event["content_block"])
                self._blocks[event["index"]] = {**block, "input": ""} if block["type"] == "tool_use" else block
            case "content_block_delta":
                self._add(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._message |= {key: value for key, value in event["delta"].items() if value is not None}
                told = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                self._message["usage"] = (self._message.get("usage") or {}) | told
            case "message_stop":
                self.ended = True

    def _add(self, block: dict[str, Any], delta: dict[str, Any]) -> None:
        if delta["type"] not in DELTAS:
            return
        source, target = DELTAS[delta["type"]]
        block[target] = (block.get(target) or "") + delta[source]
        if delta["type"] == "text_delta" and delta["text"] and self._on_progress is not None:
            self._on_progress(TextBlock(text=whole(delta["text"])))

    def _finished(self, block: dict[str, Any]) -> dict[str, Any]:
        return {**block, "input": arguments_of(block["input"])} if block["type"] == "tool_use" else block
