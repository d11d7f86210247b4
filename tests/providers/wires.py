"""The wires under test: each real transport over its official SDK, pointed at a twin."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from holon.core.conversation import ConversationItem, ToolResultBlock, ToolResults, ToolUseBlock, UserText, text_of
from holon.core.prompts import PromptBlock, PromptCache, PromptFrame, Stability
from holon.providers.catalog import ProviderEntry
from holon.providers.contract import Provider, ProviderRequest, ProviderResponse, ToolSpec
from holon.providers.models import ModelTable
from holon.providers.options import AnthropicOptions, ChatOptions, CodexOptions, ResponsesOptions, TransportOptions
from holon.providers.secrets import Secret
from holon.providers.selection import Transport, service_transports
from twins import Bill, Call, Twin

KEY = "twin-7f3ad41c-nobody-may-see-this"

WEATHER = ToolSpec(
    name="Weather",
    description="The weather of a city.",
    input_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"],
    },
)
CACHE = PromptCache(agent_id="main", prompt_cache_key="main:ctx:0123456789abcdef", context_fingerprint="fingerprint-1")
FRAME = PromptFrame(
    system_blocks=[PromptBlock(text="Be of use.", stability=Stability.STABLE, source="policy")],
    context_blocks=[
        PromptBlock(text="You are Ada.", stability=Stability.AGENT_SCOPED, source="agent", cache_breakpoint=True)
    ],
    cache=CACHE,
)


@dataclass(frozen=True)
class Wire:
    """One transport with its options, and where a twin speaks its language."""

    id: str
    transport: str
    model: str
    url: Callable[[Twin], str]
    options: TransportOptions
    streams: bool = False

    @property
    def ref(self) -> str:
        return f"{self.id}/{self.model}"

    def entry(self, twin: Twin, key: str = KEY, **options: Any) -> ProviderEntry:
        return ProviderEntry(
            self.id,
            self.transport,
            base_url=self.url(twin),
            key=Secret(key),
            options=msgspec.structs.replace(self.options, **options),
        )

    @asynccontextmanager
    async def open(self, twin: Twin, key: str = KEY, **options: Any) -> AsyncIterator[Provider]:
        provider = service_transports(ModelTable())[self.transport](self.entry(twin, key, **options))
        assert isinstance(provider, Transport)
        try:
            yield provider
        finally:
            await provider.close()

    def asking(self, *items: ConversationItem | str, **fields: Any) -> ProviderRequest:
        return asking(self.ref, *items, **fields)


ANTHROPIC = Wire("anthropic", "anthropic_messages", "claude-opus-5", lambda t: t.anthropic_url, AnthropicOptions())
ANTHROPIC_STREAM = Wire(
    "anthropic-stream",
    "anthropic_messages",
    "claude-opus-5",
    lambda t: t.anthropic_url,
    AnthropicOptions(stream=True),
    streams=True,
)
RESPONSES = Wire("responses", "openai_responses", "gpt-5", lambda t: t.openai_url, ResponsesOptions())
RESPONSES_STREAM = Wire(
    "responses-stream",
    "openai_responses",
    "gpt-5",
    lambda t: t.openai_url,
    ResponsesOptions(stream=True),
    streams=True,
)
CODEX = Wire("codex", "openai_codex_responses", "gpt-5-codex", lambda t: t.codex_url, CodexOptions(), streams=True)
CHAT = Wire(
    "chat",
    "openai_chat_completions",
    "gpt-5",
    lambda t: t.openai_url,
    ChatOptions(max_tokens_field="max_completion_tokens"),
)
CHAT_STREAM = Wire(
    "chat-stream",
    "openai_chat_completions",
    "gpt-5",
    lambda t: t.openai_url,
    ChatOptions(max_tokens_field="max_completion_tokens", stream=True),
    streams=True,
)
COMPATIBLE = Wire("compatible", "openai_chat_completions", "some/model", lambda t: t.compatible_url, ChatOptions())
COMPATIBLE_STREAM = Wire(
    "compatible-stream",
    "openai_chat_completions",
    "some/model",
    lambda t: t.compatible_url,
    ChatOptions(stream=True),
    streams=True,
)

WIRES = [ANTHROPIC, ANTHROPIC_STREAM, RESPONSES, RESPONSES_STREAM, CODEX, CHAT, CHAT_STREAM, COMPATIBLE]


def asking(model_ref: str, *items: ConversationItem | str, **fields: Any) -> ProviderRequest:
    """A request with these items; a text is a user's."""
    conversation = [UserText(text=item) if isinstance(item, str) else item for item in items]
    given: dict[str, Any] = {"frame": FRAME, "tools": [WEATHER], "round": 1, **fields}
    return ProviderRequest(agent_id="main", turn_id="turn_1", model=model_ref, conversation=conversation, **given)


def call(id_: str, name: str = "Weather", **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id=id_, name=name, input=arguments)


def results(**by_id: str) -> ToolResults:
    return ToolResults(results=[ToolResultBlock(tool_use_id=id_, content=text) for id_, text in by_id.items()])


def words(count: int, start: str = "w") -> str:
    """A text of about so many tokens."""
    return start + " apple" * (count - 1)


def billed(call: Call) -> Bill:
    assert call.bill is not None
    return call.bill


def text_said(answer: ProviderResponse) -> str:
    return text_of(answer.blocks)


async def until(holds: Callable[[], object]) -> None:
    """Waits until it holds, for at most five seconds."""
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to hold within 5 s")
