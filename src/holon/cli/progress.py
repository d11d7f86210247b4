"""Progress: what a running turn does, since when, and what it has used, read from its events.

The activity is a fold over events, without any I/O; `Progress` shows it: a live line on a terminal, plain lines
elsewhere, nothing for programs. Event text is the shared presentation's, as on every surface.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

import holon.core.event_kinds  # noqa: F401  (fills the registry that presentation reads)
from holon.cli.output import console, printable, remark, span
from holon.core.events import Event, EventCategory, EventEnvelope
from holon.core.presentation import DisplayMode, Presentation, present, shown_in
from holon.core.values import Value

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text


class Activity(Value, frozen=True, kw_only=True):
    doing: str = "waiting in the queue"
    since: float
    round: int = 0
    tokens: int = 0
    tools: tuple[str, ...] = ()

    def line(self, now: float) -> str:
        parts = [self.doing, span((now - self.since) * 1_000)]
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens")
        return " · ".join(parts)


def advance(activity: Activity, envelope: EventEnvelope, now: float) -> Activity:
    """The activity after one event; an event that changes nothing leaves `since` alone."""
    step = _STEPS.get(envelope.type)
    after = step(activity, envelope.payload) if step else activity
    return after if after.doing == activity.doing else msgspec.structs.replace(after, since=now)


def as_event(envelope: EventEnvelope) -> Event:
    """The stored event behind an envelope, as presentation reads it."""
    return Event(
        id=envelope.id,
        agent_id=envelope.agent_id,
        event_seq=envelope.event_seq,
        created_at=envelope.ts,
        kind=envelope.type,
        payload=envelope.payload,
        message_id=envelope.provenance.message_id,
        turn_id=envelope.turn_id,
    )


def presented(envelope: EventEnvelope, mode: DisplayMode) -> Presentation | None:
    """What a main view in this mode shows of the event, if anything."""
    event = as_event(envelope)
    return present(event) if shown_in(event, mode) else None


class Style(Enum):
    LIVE = "live"
    LINES = "lines"
    SILENT = "silent"

    @classmethod
    def for_output(cls, *, as_json: bool) -> Style:
        if as_json:
            return cls.SILENT
        return cls.LIVE if sys.stderr.isatty() else cls.LINES


class Progress:
    """Shows events as they come, on standard error. Use as a context manager."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.activity = Activity(since=time.monotonic())
        #: Whose events these are, once there was one.
        self.agent_id: str | None = None
        self._live: Live | None = None

    def show(self, envelope: EventEnvelope) -> None:
        self.agent_id = envelope.agent_id
        before = self.activity
        self.activity = advance(before, envelope, time.monotonic())
        line = presented(envelope, DisplayMode.VERBOSE)
        if line is not None and not _is_said_elsewhere(envelope, line):
            self._print(line.summary)
        if self.style is Style.LINES and self.activity.doing not in (before.doing, "done"):
            remark(f"… {self.activity.doing}")

    def __enter__(self) -> Progress:
        if self.style is Style.LIVE:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._render, console=console(stderr=True), transient=True, refresh_per_second=4
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(printable(text), style="dim")
        elif self.style is Style.LINES:
            remark(text)

    def _render(self) -> Text:
        from rich.text import Text

        return Text("… " + printable(self.activity.line(time.monotonic())), overflow="ellipsis", no_wrap=True)


def _is_said_elsewhere(envelope: EventEnvelope, line: Presentation) -> bool:
    """The request, which the reader has just written, and the result, which the command prints on standard output."""
    result = envelope.type == "assistant_round_recorded" and not envelope.payload.get("tool_names")
    return result or line.category is EventCategory.BRIEF or envelope.type == "message_admitted"


_Step = Callable[[Activity, dict[str, Any]], Activity]


def _began(activity: Activity, payload: dict[str, Any]) -> Activity:
    return msgspec.structs.replace(activity, doing="starting the turn", round=0, tools=())


def _prompted(activity: Activity, payload: dict[str, Any]) -> Activity:
    return _thinking(activity, int(payload.get("round", 1)))


def _interjected(activity: Activity, payload: dict[str, Any]) -> Activity:
    return _thinking(activity, int(payload.get("round", activity.round)) + 1)


def _thinking(activity: Activity, number: int) -> Activity:
    return msgspec.structs.replace(
        activity, doing=f"thinking, round {number}: waiting for the model", round=number, tools=()
    )


def _answered(activity: Activity, payload: dict[str, Any]) -> Activity:
    used = int((payload.get("token_usage") or {}).get("total_tokens", 0))
    return msgspec.structs.replace(activity, tokens=activity.tokens + used)


def _asked(activity: Activity, payload: dict[str, Any]) -> Activity:
    tools = tuple(str(name) for name in payload.get("tool_names") or ())
    return msgspec.structs.replace(activity, doing=f"tool {tools[0]}" if tools else "settling the turn", tools=tools)


def _used(activity: Activity, payload: dict[str, Any]) -> Activity:
    left = list(activity.tools)
    if payload.get("tool_name") in left:
        left.remove(str(payload["tool_name"]))
    if not left:
        return _thinking(activity, int(payload.get("round", activity.round)) + 1)
    return msgspec.structs.replace(activity, doing=f"tool {left[0]}", tools=tuple(left))


def _ended(activity: Activity, payload: dict[str, Any]) -> Activity:
    return msgspec.structs.replace(activity, doing="done", tools=())


#: What each event says about the activity. Events that are not here say nothing about it.
_STEPS: dict[str, _Step] = {
    "message_processing_started": _began,
    "turn_resumed": _began,
    "turn_context_built": _prompted,
    "provider_round_completed": _answered,
    "assistant_round_recorded": _asked,
    "tool_executed": _used,
    "tool_call_interrupted": _used,
    "operator_interjection_admitted": _interjected,
    "turn_terminal": _ended,
}
