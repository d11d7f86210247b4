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


class InputBuckets(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The input of one call in three disjoint parts, each with a price of its own. They add up to the whole prompt."""

    fresh: int = 0
    read: int = 0
    written: int = 0

    @property
    def total(self) -> int:
        return self.fresh + self.read + self.written

    def __add__(self, other: InputBuckets) -> InputBuckets:
        return InputBuckets(
            fresh=self.fresh + other.fresh, read=self.read + other.read, written=self.written + other.written
        )


class AgentTokenUsage(Record, frozen=True, kw_only=True):
    """What an agent has used in all, and in its latest turn that reported usage."""

    total: TokenUsage
    total_model_rounds: int
    last_turn: TokenUsage | None = None
