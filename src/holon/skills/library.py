"""The library: what agents see of skills on this machine. Files only; what was loaded is in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from holon.core.agents import AgentIdentity
from holon.core.skills import UnknownSkillError
from holon.skills.catalog import Catalog, CatalogReader, Places
from holon.skills.descriptors import SkillDescriptor
from holon.skills.references import Reference, ReferenceCache, find_reference
from holon.skills.searching import Found, SkillSearch

#: Agents whose search index is kept in memory.
CAPACITY = 64

#: The folder that an agent works in, where it has one beside its home.
Anchors = Callable[[str], Path | None]


class Library:
    """Made once a process. Its methods touch the disk; a first search reads all bodies, so it belongs on a thread."""

    def __init__(self, user_home: Path | None = None, anchor_of: Anchors = lambda _: None) -> None:
        self.user_home, self._anchor_of = user_home, anchor_of
        self._reader, self._references = CatalogReader(), ReferenceCache()
        self._searches: dict[Places, SkillSearch] = {}
        self._lock = threading.Lock()

    def places(self, agent: AgentIdentity) -> Places:
        """Only the default agent looks into its user's folders."""
        return Places(
            agent_home=Path(agent.agent_home),
            workspace_anchor=self._anchor_of(agent.agent_id),
            user_home=self.user_home if agent.is_default_agent else None,
        )

    def catalog(self, agent: AgentIdentity) -> Catalog:
        with self._lock:
            return self._reader.read(self.places(agent))

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
            if places not in self._searches and len(self._searches) >= CAPACITY:
                self._searches.clear()
            return self._searches.setdefault(places, SkillSearch()).search(catalog, query, limit)

    def reference(self, skill: SkillDescriptor, reference: str, turn_id: str) -> tuple[Reference, set[int]]:
        """A reference, and the pages of it that this turn was shown. Names are checked before anything is read."""
        listed = find_reference(skill, reference)
        with self._lock:
            return self._references.get(turn_id, skill, listed)
