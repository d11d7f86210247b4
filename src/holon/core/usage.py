"""Token usage, as a provider reports it and as agents add it up."""

from __future__ import annotations

from holon.core.codec import Record


class TokenUsage(Record, frozen=True, kw_only=True, omit_defaults=False):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    @classmethod
    def of(cls, input_tokens: int, output_tokens: int) -> TokenUsage:
        return cls(input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage.of(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


class AgentTokenUsage(Record, frozen=True, kw_only=True):
    """What an agent has used in all, and in its latest turn that reported usage."""

    total: TokenUsage
    total_model_rounds: int
    last_turn: TokenUsage | None = None
