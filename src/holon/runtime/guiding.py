"""Guiding: the sections of an agent's prompt that come from files and from policy. Files are read when they change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from holon.context.guidance import MEMORY_FILES, Guidance, guidance_sections, load_guidance, memory_sections
from holon.context.policy import policy_sections
from holon.context.sections import Section
from holon.core.guidance import GuidanceScope, LoadedGuidance

POLICY = tuple(policy_sections())
_NAMES = ("AGENTS.md", "CLAUDE.md")
#: Homes whose guidance is kept in memory. A forgotten one is read again.
CAPACITY = 1_024


class _Seen(NamedTuple):
    stamp: tuple[tuple[int, int, int] | None, ...]
    guidance: Guidance | None


class Guiding:
    def __init__(self, agents_dir: Path) -> None:
        self._agents_dir = agents_dir
        self._homes: dict[str, Path] = {}
        self._seen: dict[tuple[Path, GuidanceScope], _Seen] = {}
        self._remembered: dict[Path, tuple[tuple[tuple[int, int, int] | None, ...], list[Section]]] = {}

    def sections(self, agent_id: str, workspace_anchor: Path | None = None) -> list[Section]:
        """What stands in front of this agent's conversation."""
        agent, workspace = self._load(agent_id, workspace_anchor)
        return [*POLICY, *guidance_sections(agent, workspace), *self._memory(self._home(agent_id))]

    def sources(self, agent_id: str, workspace_anchor: Path | None = None) -> LoadedGuidance:
        agent, workspace = self._load(agent_id, workspace_anchor)
        return LoadedGuidance(
            agent_source=agent.source if agent else None, workspace_source=workspace.source if workspace else None
        )

    def _load(self, agent_id: str, anchor: Path | None) -> tuple[Guidance | None, Guidance | None]:
        home = self._home(agent_id)
        agent = self._look(home, GuidanceScope.AGENT)
        # One directory that is both home and workspace is loaded once, under the scope of the agent.
        workspace = self._look(anchor, GuidanceScope.WORKSPACE) if anchor and anchor != home else None
        return agent, workspace

    def _home(self, agent_id: str) -> Path:
        if agent_id not in self._homes:
            if len(self._homes) >= CAPACITY:
                self._homes.clear()
            self._homes[agent_id] = self._agents_dir / agent_id
        return self._homes[agent_id]

    def _memory(self, home: Path) -> list[Section]:
        stamp = tuple(_stamp(f"{home}/{name}") for name, _, _ in MEMORY_FILES)
        remembered = self._remembered.get(home)
        if remembered is None or remembered[0] != stamp:
            if len(self._remembered) >= CAPACITY:
                self._remembered.clear()
            remembered = self._remembered[home] = (stamp, memory_sections(home))
        return remembered[1]

    def _look(self, root: Path, scope: GuidanceScope) -> Guidance | None:
        stamp = tuple(_stamp(f"{root}/{name}") for name in _NAMES)
        seen = self._seen.get((root, scope))
        if seen is None or seen.stamp != stamp:
            if len(self._seen) >= CAPACITY:
                self._seen.clear()
            seen = self._seen[root, scope] = _Seen(stamp, load_guidance(root, scope))
        return seen.guidance


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
