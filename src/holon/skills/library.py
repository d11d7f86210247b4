"""The library: what agents see of skills on this machine. Files only; what was loaded is in the store."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holon.core.agents import AgentIdentity
from holon.core.skills import UnknownSkillError
from holon.skills.catalog import Catalog, CatalogReader, Places
from holon.skills.descriptors import SkillDescriptor
from holon.skills.hits import Found
from holon.skills.references import Reference, ReferenceCache, find_reference

if TYPE_CHECKING:
    from holon.skills.searching import SkillSearch

#: Agents whose search index is kept in memory.
CAPACITY = 64
#: Agents whose places are: each turn asks for them.
PLACES = 1_024

#: Skills up to which a look at the disk takes less time than asking a thread to look.
FEW = 32

#: The folder that an agent works in, where it has one beside its home.
Anchors = Callable[[str], Path | None]


class Library:
    """Made once a process. Its methods touch the disk; a first search reads all bodies, so it belongs on a thread."""

    def __init__(self, user_home: Path | None = None, anchor_of: Anchors = lambda _: None) -> None:
        self.user_home, self._anchor_of = user_home, anchor_of
        self._reader, self._references = CatalogReader(), ReferenceCache()
        self._searches: dict[Places, SkillSearch] = {}
        self._places: dict[str, Places] = {}
        self._lock, self._search_lock = threading.Lock(), threading.Lock()

    def places(self, agent: AgentIdentity) -> Places:
        """Only the default agent looks into its user's folders."""
        anchor = self._anchor_of(agent.agent_id)
        known = self._places.get(agent.agent_id)
        if known is None or known.workspace_anchor != anchor:
            if len(self._places) >= PLACES:
                self._places.clear()
            known = self._places[agent.agent_id] = Places(
                agent_home=Path(agent.agent_home),
                workspace_anchor=anchor,
                user_home=self.user_home if agent.is_default_agent else None,
            )
        return known

    def catalog(self, agent: AgentIdentity) -> Catalog:
        with self._lock:
            return self._reader.read(self.places(agent))

    def catalog_at_once(self, agent: AgentIdentity) -> Catalog | None:
        """The catalog as it stands now, if a look takes next to no time: it is small, and nobody else is looking."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            places = self.places(agent)
            known = self._reader.known(places)
            count = len(known.skills) if known is not None else _entries(places)
            return self._reader.read(places) if count <= FEW else None
        finally:
            self._lock.release()

    def known_catalog(self, agent: AgentIdentity) -> Catalog:
        """The catalog as it was last seen, without a look at the disk if there was one."""
        known = self._reader.known(self.places(agent))
        return known if known is not None else self.catalog(agent)

    def find(self, agent: AgentIdentity, name: str) -> SkillDescriptor:
        """A skill that the agent's model may use."""
        skill = self.catalog(agent).find(name)
        if not skill.model_visible:
            raise UnknownSkillError(f"skill {name!r} is for people only", hint="look for another one with skill_search")
        return skill

    def search(self, agent: AgentIdentity, query: str, limit: int = 10) -> list[Found]:
        places = self.places(agent)
        with self._lock:
            catalog = self._reader.read(places)
        with self._search_lock:  # a first search reads every body; nobody who only looks at the catalog waits for it
            if places not in self._searches and len(self._searches) >= CAPACITY:
                self._searches.clear()
            from holon.skills.searching import SkillSearch

            return self._searches.setdefault(places, SkillSearch()).search(catalog, query, limit)

    def reference(self, skill: SkillDescriptor, reference: str, turn_id: str) -> tuple[Reference, set[int]]:
        """A reference, and the pages of it that this turn was shown. Names are checked before anything is read."""
        listed = find_reference(skill, reference)
        with self._lock:
            return self._references.get(turn_id, skill, listed)


def _entries(places: Places) -> int:
    """How much there is to look at."""
    count = 0
    for _, root in places.roots():
        with suppress(OSError):
            count += len(os.listdir(root))
    return count
