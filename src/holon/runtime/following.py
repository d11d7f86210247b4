"""Following: an agent's log, from a number on, for as long as somebody listens.

Events are read from the store, never from memory, so a follower misses nothing and sees nothing before its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from holon.core.errors import CursorTooOld
from holon.core.events import EventEnvelope
from holon.runtime.admission import require_agent
from holon.store import Store, Tx, events

PAGE = 256


class Following:
    def __init__(self, store: Store, default_agent_id: str) -> None:
        self._store, self._default = store, default_agent_id
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._closed = asyncio.Event()

    def start(self) -> None:
        self._store.listen(self._committed)

    def close(self) -> None:
        """Ends all followers."""
        self._closed.set()
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.set()

    async def follow(
        self, agent_id: str | None, after_seq: int, *, include_private: bool = False
    ) -> AsyncIterator[EventEnvelope]:
        """Every event above `after_seq`, in order: first what is stored, then what comes."""
        target = agent_id or self._default
        await self._store.read(lambda tx: check_cursor(tx, target, after_seq, include_private=include_private))
        waiter = asyncio.Event()
        self._waiters.setdefault(target, set()).add(waiter)
        try:
            while not self._closed.is_set():
                waiter.clear()
                page = await self._store.read(lambda tx, after=after_seq: _page(tx, target, after))  # type: ignore[misc]
                for envelope in page:
                    yield envelope
                    after_seq = envelope.event_seq
                if len(page) < PAGE:
                    await waiter.wait()
        finally:
            waiters = self._waiters[target]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[target]

    def _committed(self, grown: dict[str, int]) -> None:
        for agent_id in grown:
            for waiter in self._waiters.get(agent_id, ()):
                waiter.set()


def _page(tx: Tx, agent_id: str, after_seq: int) -> list[EventEnvelope]:
    """What follows. Numbers have no gaps, so a gap is what retention took from a follower that was too slow."""
    found = events.after(tx, agent_id, after_seq, PAGE)
    if found and found[0].event_seq != after_seq + 1:
        check_cursor(tx, agent_id, after_seq, include_private=True)
    return events.envelopes(tx, found)


def check_cursor(tx: Tx, agent_id: str, after_seq: int, *, include_private: bool = False) -> None:
    require_agent(tx, agent_id, private=include_private)
    bounds = events.bounds(tx, agent_id)
    if not bounds.oldest - 1 <= after_seq <= bounds.newest:
        raise CursorTooOld(
            f"the log of agent {agent_id!r} holds events {bounds.oldest} to {bounds.newest}; {after_seq} is outside",
            hint=f"read /agents/{agent_id}/state once, then follow from its newest_event_seq",
            oldest_seq=bounds.oldest,
            newest_seq=bounds.newest,
        )
