"""Keeping: retention as a service. Small steps, so that the writer is never held for long.

What temporary agents leave on disk goes with them: their folders under `agents/`, and nothing beside. Of other agents
only what their commands wrote goes (`kept_outputs`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from datetime import timedelta
from pathlib import Path

import msgspec

from holon.core.retention import FamilyCut, RetentionFamily, RetentionPlan, RetentionPolicy
from holon.runtime.kept_outputs import KeptOutputs
from holon.runtime.trees import opened, remove_tree
from holon.store import Store, retention

log = logging.getLogger("holon.retention")

#: Files and folders that one pass removes. A home that is bigger goes over several passes.
MOST_ENTRIES = 20_000
#: The ids that only temporary agents have, and no path is hidden in one.
_TEMPORARY = re.compile(r"tmp_(?:run|child)_[0-9a-z]+")


class Keeping:
    def __init__(self, store: Store, policy: RetentionPolicy, agents_dir: Path) -> None:
        self._store, self._policy, self._dir = store, policy, agents_dir
        self._outputs = KeptOutputs(store, policy, agents_dir)

    async def plan(self) -> RetentionPlan:
        """The dry run: what would go, and why. Nothing changes."""
        size = self._store.size_bytes()
        found = await self._store.read(lambda tx: retention.plan(tx, self._policy, size))
        cuts: list[FamilyCut] = []
        if found.agents:
            homes = await asyncio.to_thread(lambda: sum(os.path.lexists(self._dir / each) for each in found.agents))
            before = next(cut.before for cut in found.families if cut.family is RetentionFamily.AGENTS)
            cuts.append(FamilyCut(family=RetentionFamily.HOMES, before=before, rows=homes, estimated_bytes=0))
        if outputs := await self._outputs.due():
            before = found.made_at - timedelta(days=self._policy.output_days)
            cuts.append(FamilyCut(family=RetentionFamily.OUTPUTS, before=before, rows=len(outputs), estimated_bytes=0))
        return msgspec.structs.replace(found, families=[*found.families, *cuts])

    async def apply(self) -> dict[str, int]:
        """Removes what the plan names, batch by batch; how many records of each family went."""
        homes = 0

        async def clear(agent_ids: list[str]) -> list[str]:
            nonlocal homes
            gone, removed = await asyncio.to_thread(clear_homes, self._dir, agent_ids)
            homes += removed
            return gone

        deleted = await retention.enforce(self._store, self._policy, clear)
        folders = {RetentionFamily.HOMES: homes, RetentionFamily.OUTPUTS: await self._outputs.apply()}
        return {**deleted, **{family.value: count for family, count in folders.items() if count}}


def clear_homes(agents_dir: Path, agent_ids: list[str], most: int = MOST_ENTRIES) -> tuple[list[str], int]:
    """The agents whose folder is not there (any more), and how many folders were removed.

    Links are removed and never followed. A folder that cannot be removed keeps its agent until the next pass.
    """
    gone: list[str] = []
    removed = 0
    for agent_id in agent_ids:
        if most <= 0:
            break
        if not _TEMPORARY.fullmatch(agent_id):
            continue
        try:
            was_there = os.path.lexists(agents_dir / agent_id)
            if was_there:
                with opened(agents_dir) as parent:
                    most = remove_tree(parent, agent_id, most)
        except OSError as error:
            log.warning("the folder of %s cannot be removed (%s): look at %s", agent_id, error.strerror, agents_dir)
            continue
        if not os.path.lexists(agents_dir / agent_id):
            gone.append(agent_id)
            removed += was_there
    return gone, removed
