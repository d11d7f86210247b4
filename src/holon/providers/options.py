"""Options: what an operator may set for each transport, under `providers.<name>.options` in config.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from holon.core.codec import Input
from holon.providers.schemas import SchemaMode

Positive = Annotated[int, msgspec.Meta(ge=1)]


class TransportOptions(Input, frozen=True, kw_only=True):
    """For every transport."""

    #: How long the service may be silent before the attempt fails, in an answer that is not streamed.
    read_timeout_ms: Positive = 600_000
    #: How long it may take to connect.
    connect_timeout_ms: Positive = 10_000
    #: How long a stream may be silent.
    stream_idle_timeout_ms: Positive = 300_000
    #: Headers to send with each request …
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    #: … and headers whose values stand in environment variables: name of the header, name of the variable.
    header_env: dict[str, str] = msgspec.field(default_factory=dict)
    #: How tool schemas are sent.
    schema_mode: SchemaMode = SchemaMode.RELAXED
    #: Fields to add to each request's body, for what a service has beyond its API's usual.
    extra_body: dict[str, Any] = msgspec.field(default_factory=dict)


class ContextManagement(Input, frozen=True, kw_only=True):
    """Anthropic clears old tool results on its side once a prompt is long. The runtime's own request stays whole."""

    #: Clear when the prompt has more input tokens than this.
    trigger_input_tokens: Positive = 100_000
    #: Keep the newest so many tool uses.
    keep_tool_uses: Annotated[int, msgspec.Meta(ge=0)] = 3
    #: Clear nothing unless it frees so many tokens: each clearing costs the cache behind it.
    clear_at_least_input_tokens: Positive | None = None


class AnthropicOptions(TransportOptions, frozen=True, kw_only=True):
    #: Stream the answer, for live progress. The blocks are the same.
    stream: bool = False
    #: `enabled` thinks within a budget; `adaptive` lets newer models decide.
    thinking: Literal["off", "adaptive", "enabled"] = "off"
    thinking_budget_tokens: Annotated[int, msgspec.Meta(ge=1024)] = 4_096
    context_management: ContextManagement | None = None


class ResponsesOptions(TransportOptions, frozen=True, kw_only=True):
    #: Stream the answer, for live progress. The blocks are the same.
    stream: bool = False
    #: Let the model ask for several tools in one round.
    parallel_tool_calls: bool = True
    #: Send only what is new and let the service remember the rest (it then stores responses). Left out: where the
    #: service is OpenAI's own.
    incremental: bool | None = None
    #: Have reasoning sent along, encrypted, and send it back. For models that reason, without `incremental`.
    encrypted_reasoning: bool = False
    reasoning_effort: str | None = None
    #: Offer tools that have a grammar as free text. Left out: to models that know such tools (GPT-5 and later).
    freeform_tools: bool | None = None


class CodexOptions(TransportOptions, frozen=True, kw_only=True):
    parallel_tool_calls: bool = True
    #: As for `openai_responses`.
    freeform_tools: bool | None = None


class ChatOptions(TransportOptions, frozen=True, kw_only=True):
    #: Stream the answer, for live progress. The blocks are the same.
    stream: bool = False
    #: Ask for usage at the end of a stream. Off for services that refuse `stream_options`.
    stream_usage: bool = True
    #: Left out of the request unless given.
    parallel_tool_calls: bool | None = None
    #: What the service calls the limit of an answer.
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: Send the prompt's cache key. For OpenAI; others may refuse it.
    prompt_cache_key: bool = False
    #: Offer tools that have a grammar as free text. Few services beside OpenAI's own take them.
    freeform_tools: bool = False
    #: The field in which the service takes its own earlier thinking back, for example `reasoning_content`.
    reasoning_field: str | None = None
