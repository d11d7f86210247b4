"""Windows in memory: the newest agents' conversations, so that a turn need not read them again.

A copy is used only if it is current (its newest number is the transcript's), so forgetting one is always safe.
"""

from __future__ import annotations

from collections import OrderedDict

from holon.context.window import Window, WindowItem, window_of
from holon.store import Tx, queue, transcript
from holon.store.agents import StoredAgent

CAPACITY = 256
LOAD_LIMIT = 2_000


class Windows:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, Window] = OrderedDict()

    def find(self, tx: Tx, stored: StoredAgent) -> Window:
        """The window as it stands in this transaction."""
        kept = self._kept.get(stored.identity.agent_id)
        state, newest = stored.state, stored.counters.transcript_seq
        if kept is not None and kept.newest_seq == newest and kept.after_seq == state.window_after:
            return kept
        entries = transcript.after(tx, state.id, state.window_after, limit=LOAD_LIMIT)
        messages = queue.messages(tx, [entry.related_message_id for entry in entries if entry.related_message_id])
        return window_of(entries, messages, after_seq=state.window_after, newest_seq=newest)

    def grow(self, agent_id: str, window: Window, added: list[WindowItem], *, after_seq: int) -> Window:
        """After the commit: the window with what was added, cut where the state says that it begins."""
        if after_seq != window.after_seq:
            shorter = Window(after_seq=after_seq, newest_seq=window.newest_seq)
            shorter.append([entry for entry in window.entries if entry.seq > after_seq])
            window = shorter
        window.append(added)
        self._kept[agent_id] = window
        self._kept.move_to_end(agent_id)
        if len(self._kept) > CAPACITY:
            self._kept.popitem(last=False)
        return window
