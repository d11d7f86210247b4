"""Sections: what rooms have to say in a prompt. A section is a value; this room arranges it and knows no room.

The order is the order of the runtime text: policy, mode, the agent's instructions, the workspace's, skills, tools; then
what is known about the agent. Nothing that depends on a turn is a section: it goes into the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from holon.context.drift import fingerprint
from holon.core.prompts import PromptBlock, Stability
from holon.core.tokens import estimate
from holon.core.values import Value


class Place(IntEnum):
    """Where a section stands. Stable ones come first, so that what agents share is a prefix of what they do not."""

    POLICY = 10
    MODE = 20
    AGENT_INSTRUCTIONS = 30
    WORKSPACE_INSTRUCTIONS = 40
    SKILL_GUIDANCE = 50
    TOOL_GUIDANCE = 60
    AGENT_CONTEXT = 70
    SKILL_INDEX = 80
    KNOWN_TOOLS = 90
    MEMORY = 100
    PADDING = 110


class Section(Value, frozen=True):
    #: Names the section for deltas and for the books: `agent_instructions`, `skill_index` …
    id: str
    place: Place
    stability: Stability
    text: str
    #: The file or room that it came from, for people who look.
    origin: str = ""

    @property
    def tokens(self) -> int:
        return estimate(self.text)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.text)


def arrange(sections: Iterable[Section]) -> list[Section]:
    """Stable before agent-scoped, each by place and then by name: the same input gives the same bytes."""
    kept = [section for section in sections if section.text.strip()]
    return sorted(kept, key=lambda s: (s.stability is not Stability.STABLE, s.place, s.id))


def blocks_of(sections: Iterable[Section]) -> list[PromptBlock]:
    """The sections as blocks, with the cache mark on the last of the stable ones' scope: the last agent-scoped."""
    arranged = arrange(sections)
    last = len(arranged) - 1
    return [
        PromptBlock(
            text=section.text, stability=section.stability, source=section.id, cache_breakpoint=position == last
        )
        for position, section in enumerate(arranged)
    ]


def fingerprints(sections: Iterable[Section]) -> dict[str, str]:
    return {section.id: section.fingerprint for section in sections if section.text.strip()}
