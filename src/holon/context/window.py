"""The window: the part of an agent's transcript that the model is shown, as conversation items.

It only grows at its end until it is long; then it is cut once, at the start of a turn, and grows again. A cut is rare,
so the prompt's prefix is stable in between, and the work per turn does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from holon.context.rendering import render_input
from holon.core.codec import dumps
from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    ModelBlock,
    ToolResultBlock,
    ToolResults,
    UserText,
)
from holon.core.messages import MessageEnvelope
from holon.core.transcripts import TranscriptEntry, TranscriptKind

#: Entries at which the window is cut, and how many it keeps.
CUT_AT = 160
KEEP = 40


class WindowItem(NamedTuple):
    seq: int
    item: ConversationItem
    #: Whether it is the first entry of a turn: the only place where the window may be cut.
    opens_turn: bool


@dataclass(slots=True)
class Window:
    """One agent's window, in memory. What is on disk rules: `newest_seq` tells whether this copy is current."""

    after_seq: int
    newest_seq: int
    entries: list[WindowItem] = field(default_factory=list)
    chars: int = 0

    def append(self, added: list[WindowItem]) -> None:
        for entry in added:
            self.entries.append(entry)
            self.newest_seq = entry.seq
            self.chars += _chars(entry.item)

    def items(self) -> list[ConversationItem]:
        return [entry.item for entry in self.entries]

    def cut_after(self) -> int | None:
        """The number after which the window should begin from now on, or `None` while it is short enough."""
        if len(self.entries) < CUT_AT:
            return None
        return next((entry.seq - 1 for entry in self.entries[-KEEP:] if entry.opens_turn), None)

    def inputs_before(self, seq: int) -> int:
        """How many messages leave the window with a cut after `seq`."""
        return sum(isinstance(entry.item, UserText) and entry.seq <= seq for entry in self.entries)


def window_of(
    entries: list[TranscriptEntry], messages: Mapping[str, MessageEnvelope], *, after_seq: int, newest_seq: int
) -> Window:
    """The window from what is stored."""
    window = Window(after_seq=after_seq, newest_seq=newest_seq)
    window.append([item_of(entry, messages.get(entry.related_message_id or "")) for entry in entries])
    window.newest_seq = newest_seq
    return window


def item_of(entry: TranscriptEntry, envelope: MessageEnvelope | None) -> WindowItem:
    """An entry as a model reads it. A message that retention has taken is named, not forgotten."""
    item: ConversationItem
    match entry.kind:
        case TranscriptKind.INCOMING_MESSAGE:
            text = render_input(envelope) if envelope else f"[message {entry.related_message_id} is archived]"
            item = UserText(text=text)
        case TranscriptKind.ASSISTANT_ROUND:
            item = AssistantBlocks(blocks=msgspec.convert(entry.data["blocks"], list[ModelBlock]))
        case TranscriptKind.TOOL_RESULTS:
            item = ToolResults(results=msgspec.convert(entry.data["results"], list[ToolResultBlock]))
        case TranscriptKind.CONTINUATION_PROMPT:
            item = UserText(text=str(entry.data["text"]))
        case TranscriptKind.RUNTIME_FAILURE:
            item = UserText(text=f"[the runtime ended the turn above: {entry.data['text']}]")
    return WindowItem(entry.seq, item, bool(entry.data.get("opens_turn")))


def _chars(item: ConversationItem) -> int:
    match item:
        case UserText(text=text):
            return len(text)
        case AssistantBlocks(blocks=blocks):
            return len(dumps(blocks))
        case ToolResults(results=results):
            return sum(len(result.content) for result in results)
