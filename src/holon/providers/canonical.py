"""The canonical request: a single request in the context text's own form, for callers without an agent.

A script that wants one answer writes its system prompt in two parts and is done. Agents have frames and epochs; both
are lowered by the same wires.
"""

from __future__ import annotations

import msgspec

from holon.core.codec import Record
from holon.core.conversation import ConversationItem
from holon.core.prompts import PromptBlock, PromptFrame, Stability
from holon.providers.contract import ProviderRequest, ToolSpec


class CanonicalRequest(Record, frozen=True, kw_only=True):
    request_id: str
    #: `provider/model`.
    model: str
    messages: list[ConversationItem]
    tools: list[ToolSpec] = msgspec.field(default_factory=list)
    #: What stays the same over many turns: persona, index of skills, the project's instructions.
    system_prompt: str | None = None
    #: What may change with each turn: memory, and what the agent writes. It stands behind the cached part.
    system_prompt_volatile: str | None = None
    max_output_tokens: int = 4_096

    def as_provider_request(self) -> ProviderRequest:
        """The same request as the wires take it: stable first and marked for the cache, volatile behind it."""
        return ProviderRequest(
            agent_id="",
            turn_id=self.request_id,
            round=1,
            model=self.model,
            frame=PromptFrame(
                system_blocks=_blocks(self.system_prompt, Stability.STABLE),
                context_blocks=_blocks(self.system_prompt_volatile, Stability.TURN_SCOPED),
            ),
            conversation=self.messages,
            tools=self.tools,
            max_output_tokens=self.max_output_tokens,
        )


def _blocks(text: str | None, stability: Stability) -> list[PromptBlock]:
    if not text or not text.strip():
        return []
    stable = stability is Stability.STABLE
    source = "system_prompt" if stable else "system_prompt_volatile"
    return [PromptBlock(text=text, stability=stability, source=source, cache_breakpoint=stable)]
