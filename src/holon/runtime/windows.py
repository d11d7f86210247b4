"""Prompts in memory: the newest agents' windows and epochs, so that a turn need not read them again.

A copy is used only if it is current (its newest number is the transcript's), so forgetting one is always safe.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from holon.context.window import Window, WindowItem, tokens_of, window_of
from holon.runtime.prompting import Prompt
from holon.store import Tx, queue, transcript
from holon.store.agents import StoredAgent

CAPACITY = 256
LOAD_LIMIT = 20_000


class Kept(NamedTuple):
    window: Window
    prompt: Prompt | None


class Windows:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._kept

    def forget(self, agent_id: str) -> None:
        self._kept.pop(agent_id, None)

    def find(self, tx: Tx, stored: StoredAgent) -> Kept:
        """The window as it stands in this transaction, and the prompt in front of it where it is still known."""
        state, newest = stored.state, stored.counters.transcript_seq
        kept = self._kept.get(state.id)
        if kept is not None and kept.window.newest_seq == newest and kept.window.after_seq == state.window_after:
            return kept
        entries = transcript.after(tx, state.id, state.window_after, limit=LOAD_LIMIT)
        messages = queue.messages(tx, [entry.related_message_id for entry in entries if entry.related_message_id])
        return Kept(window_of(entries, messages, after_seq=state.window_after, newest_seq=newest), None)

    def grow(self, agent_id: str, window: Window, prompt: Prompt, added: list[WindowItem]) -> None:
        """After the commit: what was added is part of the window and of the prompt."""
        for entry in added:
            tokens = tokens_of(entry.item)
            window.add(entry, tokens)
            prompt.add(entry, tokens)
        self._kept[agent_id] = Kept(window, prompt)
        self._kept.move_to_end(agent_id)
        if len(self._kept) > CAPACITY:
            self._kept.popitem(last=False)
