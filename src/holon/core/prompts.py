"""Prompts: the provider-neutral frame of a request. Blocks know how stable they are and where they came from."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holon.core.codec import Record


class Stability(StrEnum):
    """How long a block stays as it is: for every agent, for one agent's epoch, or for one turn."""

    STABLE = "stable"
    AGENT_SCOPED = "agent_scoped"
    TURN_SCOPED = "turn_scoped"


class PromptBlock(Record, frozen=True, kw_only=True):
    """A piece of the prompt. `source` names the section that it came from, for the books."""

    text: str
    stability: Stability
    source: str
    cache_breakpoint: bool = False


class PromptCache(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Who the prompt belongs to, for providers that keep caches by key, and for people who compare prompts."""

    agent_id: str
    #: Stable across ordinary turns: it changes only with what is not turn-scoped.
    prompt_cache_key: str
    #: A fingerprint of everything, for diagnosis only. It is never sent as a cache key.
    context_fingerprint: str
    working_memory_revision: int = 0
    compression_epoch: int = 0


class PromptFrame(Record, frozen=True, kw_only=True):
    """What stands in front of the conversation: frozen for an epoch."""

    system_blocks: list[PromptBlock] = msgspec.field(default_factory=list)
    context_blocks: list[PromptBlock] = msgspec.field(default_factory=list)
    cache: PromptCache | None = None

    @property
    def blocks(self) -> list[PromptBlock]:
        return [*self.system_blocks, *self.context_blocks]

    @property
    def system_prompt(self) -> str:
        return "\n\n".join(block.text for block in self.blocks)
