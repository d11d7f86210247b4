"""Keeping: retention as a service. Small steps, so that the writer is never held for long."""

from __future__ import annotations

from holon.core.event_kinds import RetentionApplied
from holon.core.events import RUNTIME_SCOPE
from holon.core.retention import RetentionPolicy
from holon.core.transitions import Transition
from holon.store import Store, retention
from holon.store.retention import RetentionPlan


class Keeping:
    def __init__(self, store: Store, policy: RetentionPolicy) -> None:
        self._store, self._policy = store, policy

    async def plan(self) -> RetentionPlan:
        """The dry run: what would go, and why. Nothing changes."""
        size = self._store.size_bytes()
        return await self._store.read(lambda tx: retention.plan(tx, self._policy, size))

    async def apply(self) -> dict[str, int]:
        """Removes what the plan names, batch by batch; how many rows of each family went."""
        if not self._policy.enabled:
            return {}
        plan = await self.plan()
        removed: dict[str, int] = {}
        while batch := await self._store.write(lambda tx: retention.apply(tx, plan), at=Transition.RETENTION):
            for family, rows in batch.items():
                removed[family] = removed.get(family, 0) + rows
        if removed:
            event = RetentionApplied(deleted=removed, reason=plan.reason)
            await self._store.write(lambda tx: tx.emit(RUNTIME_SCOPE, event), at=Transition.AUDIT)
        return removed
