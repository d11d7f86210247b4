"""Outages: times in which the disk takes no writes. What must not be lost waits here, tries again, and says so once.

Each who waits tries ever more rarely, and soon when there is more room on the disk or when it took somebody else's
write. Nothing is logged in between: the runtime's status says what is wrong for as long as it lasts.
"""

from __future__ import annotations

import asyncio
import logging
import time

from holon.core.errors import HolonError, StoreUnavailable
from holon.store import Store

log = logging.getLogger("holon.outages")

#: The pause after the first refusal. Each that follows is twice as long.
FIRST_S = 1.0
AT_MOST_S = 30.0
#: How often those who wait look whether there is room.
LOOK_S = 1.0


def pause_s(refusals: int) -> float:
    """How long the next try may take, after so many refusals in a row."""
    return min(FIRST_S * 2.0 ** min(refusals - 1, 10), AT_MOST_S)


class Outages:
    def __init__(self, store: Store) -> None:
        self._store = store
        #: How often in a row each who waits was refused.
        self._refused: dict[str, int] = {}
        #: How often something was refused since this process began.
        self.refusals = 0
        self._error: HolonError | None = None
        self._since = 0.0

    @property
    def problem(self) -> HolonError | None:
        """Why nothing can be written now: what holds up those who wait, else what became of the last write."""
        return self._error or self._store.trouble

    @property
    def waiting(self) -> int:
        return len(self._refused)

    async def look(self) -> HolonError | None:
        """The problem, if it still is one: where nobody waits, nobody else would find out that it has passed."""
        if self.problem is not None and not self._refused:
            try:
                await self._store.try_again()
            except HolonError as error:
                return error
        return self.problem

    async def wait(self, who: str, error: StoreUnavailable) -> None:
        """Until it is worth another try for somebody whose write was refused."""
        if not self._refused:
            self._since = time.monotonic()
            log.error("%s; what waits for it goes on by itself, and is tried at least every %d s", error, AT_MOST_S)
        self._error, self.refusals = error, self.refusals + 1
        times = self._refused[who] = self._refused.get(who, 0) + 1
        await self._room(pause_s(times))

    def over(self, who: str) -> None:
        """It was written, or nobody wants it written any more. Cheap for those who never waited."""
        if self._refused.pop(who, None) is not None and not self._refused:
            self._error = None
            log.warning("the disk takes writes again, after %d s", time.monotonic() - self._since)

    async def _room(self, at_most_s: float) -> None:
        before, until = self._store.room(), time.monotonic() + at_most_s
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_S))
            if self._store.trouble is None or self._store.room() > before:
                return
