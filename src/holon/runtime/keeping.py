"""Keeping: retention as a service. Small steps, so that the writer is never held for long."""

from __future__ import annotations

from holon.core.retention import RetentionPlan, RetentionPolicy
from holon.store import Store, retention


class Keeping:
    def __init__(self, store: Store, policy: RetentionPolicy) -> None:
        self._store, self._policy = store, policy

    async def plan(self) -> RetentionPlan:
        """The dry run: what would go, and why. Nothing changes."""
        size = self._store.size_bytes()
        return await self._store.read(lambda tx: retention.plan(tx, self._policy, size))

    async def apply(self) -> dict[str, int]:
        """Removes what the plan names, batch by batch; how many rows of each family went."""
        return await retention.enforce(self._store, self._policy)
