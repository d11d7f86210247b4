"""Guidance: which instruction files are in force for an agent. Metadata only; the texts stay in the prompt."""

from __future__ import annotations

from enum import StrEnum

from holon.core.codec import Record


class GuidanceScope(StrEnum):
    AGENT = "agent"
    WORKSPACE = "workspace"


class GuidanceKind(StrEnum):
    AGENTS_MD = "agents_md"
    CLAUDE_MD_FALLBACK = "claude_md_fallback"
    MEMORY = "memory"


class GuidanceSource(Record, frozen=True, kw_only=True):
    """Where guidance came from. Surfaces show this, never the text."""

    scope: GuidanceScope
    kind: GuidanceKind
    path: str
    bytes: int
    truncated: bool = False
    #: Why it was left out, if it was.
    problem: str | None = None


class LoadedGuidance(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The instruction file of each root: the agent's home, and the anchor of its workspace."""

    agent_source: GuidanceSource | None = None
    workspace_source: GuidanceSource | None = None
