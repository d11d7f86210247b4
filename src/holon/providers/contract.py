"""The contract between the runtime and a model: what a round sends, what comes back, and how it fails.

Every transport implements `Provider`: the scripted model here, real services beside it. A provider makes one attempt;
retry, fallback and the timeline stand around it in `attempts`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from holon.core.codec import Record
from holon.core.conversation import ConversationItem, ModelBlock, TextBlock
from holon.core.errors import ProviderError
from holon.core.prompts import PromptFrame
from holon.core.usage import InputBuckets, TokenUsage


class Freeform(Record, frozen=True, kw_only=True):
    """A tool's one argument as plain text that a grammar holds, for services that can take it so (OpenAI's)."""

    #: The argument that the text is.
    argument: str
    syntax: Literal["lark", "regex"]
    definition: str


class ToolSpec(Record, frozen=True, kw_only=True):
    """A tool as a model is told of it, neutral of any transport."""

    name: str
    description: str
    input_schema: dict[str, Any]
    #: Instead of the schema, where the transport can.
    freeform: Freeform | None = None


#: The only key of a tool call's input when the model's arguments were no JSON object; its value is what the model
#: wrote. No tool has such a field, so that the registry refuses the call and the model is told.
INVALID_ARGUMENTS = "_invalid_arguments"


class ProviderRequest(Record, frozen=True, kw_only=True):
    """One round: the frame and the whole conversation, replayable. A transport may send less than all of it.

    Cache marks are planned, not improvised: `mark_tools`, `cache_breakpoint` on blocks of the frame, and `marks` (the
    numbers of conversation items after which a provider with explicit marks sets one). Others ignore them.
    """

    agent_id: str
    turn_id: str
    round: int
    #: `provider/model`: what was asked for. A transport sends its own part of the candidate's reference.
    model: str
    frame: PromptFrame
    conversation: list[ConversationItem]
    tools: list[ToolSpec] = msgspec.field(default_factory=list)
    mark_tools: bool = True
    marks: list[int] = msgspec.field(default_factory=list)
    max_output_tokens: int = 8_192


class StopReason(StrEnum):
    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    REFUSAL = "refusal"
    OTHER = "other"


class ProviderResponse(Record, frozen=True, kw_only=True):
    blocks: list[ModelBlock]
    stop_reason: StopReason
    usage: TokenUsage | None = None
    #: The input by price class, where the provider tells. `usage.input_tokens` is their sum.
    buckets: InputBuckets | None = None
    #: The provider's own name for this answer.
    response_id: str | None = None
    #: How the request was sent, where there was a choice: sizes and modes, never its text.
    request_diagnostics: dict[str, Any] | None = None


class FailureKind(StrEnum):
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    AUTH_ERROR = "auth_error"
    CONTRACT_ERROR = "contract_error"
    INVALID_RESPONSE = "invalid_response"
    UNSUPPORTED_TRANSPORT = "unsupported_transport"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    UNKNOWN = "unknown"

    @property
    def retryable(self) -> bool:
        return self in (
            FailureKind.TIMEOUT,
            FailureKind.CONNECTION,
            FailureKind.RATE_LIMITED,
            FailureKind.SERVER_ERROR,
        )


class PromptCapability(StrEnum):
    """What a transport does with a prompt on its way to the service."""

    FULL_REQUEST_ONLY = "full_request_only"
    PROMPT_CACHE_KEY = "prompt_cache_key"
    PROMPT_CACHE_BLOCKS = "prompt_cache_blocks"
    INCREMENTAL_RESPONSES = "incremental_responses"
    CONTEXT_MANAGEMENT = "context_management"


class ProviderFailure(ProviderError):
    """One attempt failed. The kind is found by evidence: status, exception type, shape; never by a model's words."""

    code = "provider_failure"

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_ms: int | None = None,
        usage: TokenUsage | None = None,
        diagnostics: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.http_status = status
        self.retry_after_ms = retry_after_ms
        self.usage = usage
        self.diagnostics = diagnostics


#: Told pieces of the answer as they arrive, for live progress. Nothing durable depends on it.
OnProgress = Callable[[TextBlock], None]


class Provider(Protocol):
    """One transport. `respond` makes exactly one attempt and raises `ProviderFailure` if it fails."""

    name: str

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse: ...


class AttemptOutcome(StrEnum):
    RETRYING = "retrying"
    RETRIES_EXHAUSTED = "retries_exhausted"
    FAIL_FAST_ABORTED = "fail_fast_aborted"
    SUCCEEDED = "succeeded"


class AttemptRecord(Record, frozen=True, kw_only=True):
    provider: str
    model_ref: str
    attempt: int
    max_attempts: int
    outcome: AttemptOutcome
    advanced_to_fallback: bool  # no default: defaults are left out of JSON, and this one is always there
    started_at: str | None = None
    completed_at: str | None = None
    duration_ms: float | None = None
    failure_kind: FailureKind | None = None
    disposition: str | None = None
    backoff_ms: int | None = None
    token_usage: TokenUsage | None = None
    transport_diagnostics: dict[str, Any] | None = None


class AttemptTimeline(Record, frozen=True, kw_only=True):
    """Every attempt of one round, in order, also those before the one that succeeded."""

    attempts: list[AttemptRecord]
    requested_model_ref: str
    active_model_ref: str | None = None
    winning_model_ref: str | None = None
    aggregated_token_usage: TokenUsage | None = None


class RoundFailed(ProviderError):
    """All candidates failed. It carries the timeline, so that no attempt is lost."""

    code = "provider_round_failed"

    def __init__(self, message: str, *, last: ProviderFailure, timeline: AttemptTimeline) -> None:
        super().__init__(message)
        self.last = last
        self.timeline = timeline
