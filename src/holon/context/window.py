"""The window: the part of an agent's transcript that the model is shown, as conversation items.

It only grows at its end, until compaction opens a new epoch and with it a shorter window. The work per turn does not
grow with the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


class WindowItem(NamedTuple):
    seq: int
    item: ConversationItem
    #: Whether it is the first entry of a turn: the only place where the window may be cut.
    opens_turn: bool
    #: Under what it is booked: inputs, answers, tool_results, deltas.
    source: str = "inputs"


@dataclass(slots=True)
class Window:
    """One agent's window, in memory. What is on disk rules: `newest_seq` tells whether this copy is current.

    Everything that a request needs of it grows with it, so that no request walks over the whole of it.
    """

    after_seq: int
    newest_seq: int
    entries: list[WindowItem] = field(default_factory=list)
    items: list[ConversationItem] = field(default_factory=list)
    #: Blocks of each item, as a provider counts them.
    block_counts: list[int] = field(default_factory=list)
    tokens: int = 0
    turns: int = 0

    def append(self, added: Iterable[WindowItem]) -> None:
        for entry in added:
            self.add(entry, tokens_of(entry.item))

    def add(self, entry: WindowItem, tokens: int) -> None:
        """The same for one whose tokens were counted already."""
        self.entries.append(entry)
        self.items.append(entry.item)
        self.block_counts.append(block_count(entry.item))
        self.tokens += tokens
        self.turns += entry.opens_turn
        self.newest_seq = entry.seq

    def turn_starts(self) -> list[tuple[int, int]]:
        """(number of its first entry, tokens) of each turn, oldest first."""
        starts: list[tuple[int, int]] = []
        for entry in self.entries:
            tokens = tokens_of(entry.item)
            if entry.opens_turn or not starts:
                starts.append((entry.seq, tokens))
            else:
                starts[-1] = (starts[-1][0], starts[-1][1] + tokens)
        return starts

    def before(self, seq: int) -> list[ConversationItem]:
        """What leaves the window with a cut in front of entry `seq`."""
        return [entry.item for entry in self.entries if entry.seq < seq]

    def from_seq(self, after_seq: int) -> Window:
        """The part after that entry, as a window of its own."""
        part = Window(after_seq=after_seq, newest_seq=self.newest_seq)
        part.append(entry for entry in self.entries if entry.seq > after_seq)
        part.newest_seq = self.newest_seq
        return part


def window_of(
    entries: list[TranscriptEntry], messages: Mapping[str, MessageEnvelope], *, after_seq: int, newest_seq: int
) -> Window:
    """The window from what is stored."""
    window = Window(after_seq=after_seq, newest_seq=newest_seq)
    window.append(item_of(entry, messages.get(entry.related_message_id or "")) for entry in entries)
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


def block_count(item: ConversationItem) -> int:
    match item:
        case AssistantBlocks(blocks=blocks):
            return max(1, len(blocks))
        case ToolResults(results=results):
            return max(1, len(results))
        case UserText():
            return 1


def tokens_of(item: ConversationItem) -> int:
    match item:
        case UserText(text=text):
            return (len(text) + 3) // 4
        case AssistantBlocks(blocks=blocks):
            return (len(dumps(blocks)) + 3) // 4
        case ToolResults(results=results):
            return (sum(len(result.content) for result in results) + 3) // 4
