"""A streamed completion: its chunks, put together to the completion that one request would have brought."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.conversation import TextBlock
from holon.providers.characters import all_whole, whole
from holon.providers.contract import FailureKind, OnProgress, ProviderFailure

#: Fields of a delta that are texts, and grow.
GROWING = ("content", "refusal", "reasoning_content", "reasoning")


async def read_stream(events: Any, on_progress: OnProgress | None) -> dict[str, Any]:
    """The completion that an SDK's stream of chunks comes to. What happens behind its last one does not matter."""
    stream = ChatStream(on_progress)
    try:
        async with events:
            async for event in events:
                stream.take(event.to_dict(warnings=False))
    except Exception:
        if not stream.ended:
            raise
    return all_whole(stream.completion())  # type: ignore[no-any-return]


class ChatStream:
    """Takes chunks as plain values, in order."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None

    @property
    def ended(self) -> bool:
        """A reason to stop is the end: usage may follow, `[DONE]` need not."""
        return self._finish is not None

    def take(self, chunk: dict[str, Any]) -> None:
        try:
            self._take(chunk)
        except (AttributeError, KeyError, TypeError) as error:
            raise msgspec.ValidationError(f"a chunk is not of the shape that it should be: {error}") from error

    def completion(self) -> dict[str, Any]:
        """The completion in its whole form. A stream that ended early has none."""
        if not self.ended:
            raise ProviderFailure(FailureKind.INVALID_RESPONSE, "the stream ended before the completion did")
        calls = [call for _, call in sorted(self._calls.items())]
        message = {**self._message, **({"tool_calls": calls} if calls else {})}
        return {**self._head, "choices": [{"message": message, "finish_reason": self._finish}]}

    def _take(self, chunk: dict[str, Any]) -> None:
        self._head |= {name: chunk[name] for name in ("id", "usage") if chunk.get(name)}
        for choice in chunk.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            self._add(choice.get("delta") or {})
            self._finish = choice.get("finish_reason") or self._finish

    def _add(self, delta: dict[str, Any]) -> None:
        for name in GROWING:
            if delta.get(name):
                self._message[name] = self._message.get(name, "") + delta[name]
        if delta.get("content") and self._on_progress is not None:
            self._on_progress(TextBlock(text=whole(delta["content"])))
        for piece in delta.get("tool_calls") or []:
            self._add_call(piece)

    def _add_call(self, piece: dict[str, Any]) -> None:
        """A piece of a call; the index says of which. Where there is none, a name begins a new call."""
        kind, argument = ("custom", "input") if piece.get("custom") else ("function", "arguments")
        part = piece.get(kind) or {}
        index = piece.get("index")
        if index is None:
            index = len(self._calls) if part.get("name") else max(0, len(self._calls) - 1)
        call = self._calls.setdefault(index, {"id": None, kind: {"name": "", argument: ""}})
        call["id"] = piece.get("id") or call["id"]
        if kind in call:  # a piece without either only names the call
            call[kind]["name"] += part.get("name") or ""
            call[kind][argument] += part.get(argument) or ""
