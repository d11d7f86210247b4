"""The window: the part of an agent's transcript that the model is shown, as conversation items.

It only grows at its end, until compaction opens a new epoch and with it a shorter window. The work per turn does not
grow with the history.
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
    #: Under what it is booked: inputs, answers, tool_results, deltas.
    source: str = "inputs"


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
            self.chars += chars_of(entry.item)

    def items(self) -> list[ConversationItem]:
        return [entry.item for entry in self.entries]

    @property
    def tokens(self) -> int:
        return (self.chars + 3) // 4

    def turn_starts(self) -> list[tuple[int, int]]:
        """(number of its first entry, tokens) of each turn, oldest first."""
        starts: list[tuple[int, int]] = []
        for entry in self.entries:
            tokens = (chars_of(entry.item) + 3) // 4
            if entry.opens_turn or not starts:
                starts.append((entry.seq, tokens))
            else:
                starts[-1] = (starts[-1][0], starts[-1][1] + tokens)
        return starts

    def before(self, seq: int) -> list[ConversationItem]:
        """What leaves the window with a cut in front of entry `seq`."""
        return [entry.item for entry in self.entries if entry.seq < seq]

    def cut_after(self) -> int | None:
        """The number after which the window should begin from now on, or `None` while it is short enough."""
        if len(self.entries) < CUT_AT:
            return None
        openings = [entry.seq for entry in self.entries if entry.opens_turn]
        recent = [seq for seq in openings if seq >= self.entries[-KEEP].seq]
        # A turn that is longer than what a cut keeps stays whole, so that the window is cut all the same.
        begins = recent[:1] or openings[-1:]
        return begins[0] - 1 if begins and begins[0] > self.entries[0].seq else None

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
        case TranscriptKind.CONTINUATION_PROMPT | TranscriptKind.CONTEXT_DELTA:
            item = UserText(text=str(entry.data["text"]))
        case TranscriptKind.RUNTIME_FAILURE:
            item = UserText(text=f"[the runtime ended the turn above: {entry.data['text']}]")
    return WindowItem(entry.seq, item, bool(entry.data.get("opens_turn")), _SOURCES[entry.kind])


_SOURCES = {
    TranscriptKind.INCOMING_MESSAGE: "inputs",
    TranscriptKind.ASSISTANT_ROUND: "answers",
    TranscriptKind.TOOL_RESULTS: "tool_results",
    TranscriptKind.CONTINUATION_PROMPT: "inputs",
    TranscriptKind.CONTEXT_DELTA: "deltas",
    TranscriptKind.RUNTIME_FAILURE: "inputs",
}


def chars_of(item: ConversationItem) -> int:
    match item:
        case UserText(text=text):
            return len(text)
        case AssistantBlocks(blocks=blocks):
            return len(dumps(blocks))
        case ToolResults(results=results):
            return sum(len(result.content) for result in results)
