"""A streamed response: its events, put together to the response that one request would have brought.

The last event has the whole response, or it does not: the Codex backend leaves the output out, which is then what the
events before it said, item by item.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.conversation import TextBlock
from holon.providers.characters import all_whole, whole
from holon.providers.contract import FailureKind, OnProgress, ProviderFailure
from holon.providers.evidence import Told, failure_told

TERMINAL = ("response.completed", "response.incomplete", "response.failed")


async def read_stream(events: Any, on_progress: OnProgress | None) -> dict[str, Any]:
    """The response that an SDK's stream of events comes to. What happens behind its last event does not matter."""
    stream = ResponseStream(on_progress)
    try:
        async with events:
            async for event in events:
                stream.take(event.to_dict(warnings=False))
    except Exception:
        if not stream.ended:
            raise
    return all_whole(stream.response())  # type: ignore[no-any-return]


class ResponseStream:
    """Takes events as plain values, in order. Types of events that it does not know are for others, and ignored."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress
        self._items: dict[int, Any] = {}
        self._response: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self._response is not None

    def take(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "response.output_text.delta", "delta": str(text)}:
                if text and self._on_progress is not None:
                    self._on_progress(TextBlock(text=whole(text)))
            case {"type": "response.output_item.done", "item": item}:
                self._items[event.get("output_index", len(self._items))] = item
            case {"type": "error"}:
                raise failure_told(Told.of(event), event="error")
            case {"type": str(type_), "response": dict(response)} if type_ in TERMINAL:
                # The event's own name says how it ended, also where the response inside is silent.
                self._response = {"status": type_.removeprefix("response."), **_given(response)}
            case {"type": str(type_)} if type_ in TERMINAL:
                raise msgspec.ValidationError(f"an event of type {type_!r} has no response")
            case _:
                pass

    def response(self) -> dict[str, Any]:
        """The response in its whole form. A stream that ended early has none."""
        if self._response is None:
            raise ProviderFailure(FailureKind.INVALID_RESPONSE, "the stream ended before the response did")
        streamed = [item for _, item in sorted(self._items.items())]
        return {**self._response, "output": self._response.get("output") or streamed}


def _given(response: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in response.items() if value is not None}
