"""Epochs: inside one, each request is the one before plus what is new at its end. Only compaction opens the next.

The head of an epoch (tools, frame) is stored byte for byte when it is opened, so that after a restart, or on another
machine, the next request has the same prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holon.context.drift import fingerprint
from holon.context.sections import Section, arrange, blocks_of, fingerprints
from holon.core.codec import Record, dumps
from holon.core.prompts import PromptBlock, PromptCache, PromptFrame, Stability
from holon.core.tokens import estimate


class FrozenTool(Record, frozen=True, kw_only=True):
    """A tool as the epoch shows it. Tools are sorted by name and frozen: their bytes stand at the very front."""

    name: str
    description: str
    input_schema: dict[str, object]
    #: The grammar of a tool that takes text instead of arguments, for providers that know such tools.
    freeform: dict[str, object] | None = None


class Epoch(Record, frozen=True, kw_only=True):
    agent_id: str
    number: int
    opened_at: datetime
    reason: str
    #: The transcript entry after which this epoch's conversation begins.
    after_seq: int
    tools: list[FrozenTool]
    blocks: list[PromptBlock]
    #: Fingerprints of the sections in the head, by id: what the model knew when the epoch was opened.
    sections: dict[str, str]
    #: What was said before, in short. It is the first item of the conversation.
    summary: str | None = None
    working_memory_revision: int = 0
    #: Names of skill bodies that stand whole in the head.
    preloaded: list[str] = msgspec.field(default_factory=list)

    @property
    def head_tokens(self) -> int:
        return sum(estimate(block.text) for block in self.blocks) + tools_tokens(self.tools)

    def frame(self, context_fingerprint: str = "") -> PromptFrame:
        return PromptFrame(
            system_blocks=[block for block in self.blocks if block.stability is Stability.STABLE],
            context_blocks=[block for block in self.blocks if block.stability is not Stability.STABLE],
            cache=PromptCache(
                agent_id=self.agent_id,
                prompt_cache_key=cache_key(self),
                context_fingerprint=context_fingerprint,
                working_memory_revision=self.working_memory_revision,
                compression_epoch=self.number,
            ),
        )


def open_epoch(
    agent_id: str,
    number: int,
    opened_at: datetime,
    sections: Sequence[Section],
    tools: Sequence[FrozenTool],
    *,
    reason: str,
    after_seq: int,
    summary: str | None = None,
    working_memory_revision: int = 0,
    preloaded: Sequence[str] = (),
) -> Epoch:
    """A new epoch from what is true now."""
    return Epoch(
        agent_id=agent_id,
        number=number,
        opened_at=opened_at,
        reason=reason,
        after_seq=after_seq,
        tools=sorted(tools, key=lambda tool: tool.name),
        blocks=blocks_of(arrange(sections)),
        sections=fingerprints(sections),
        summary=summary,
        working_memory_revision=working_memory_revision,
        preloaded=sorted(preloaded),
    )


def cache_key(epoch: Epoch) -> str:
    """The provider-facing scope: the agent and all that is not turn-scoped. An ordinary turn does not change it."""
    content = dumps([epoch.agent_id, epoch.tools, epoch.blocks])
    return f"{epoch.agent_id}:ctx:{fingerprint(content)[:16]}"


def tools_tokens(tools: Sequence[FrozenTool]) -> int:
    """What the tools cost. One that also has a form in free text is counted in the other, shorter one: a prefix that is
    taken for longer than it is would be padded too little to be cached."""
    return sum(estimate(tool.name + tool.description + dumps(tool.input_schema)) for tool in tools)
