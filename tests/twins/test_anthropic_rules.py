"""What Anthropic's Messages API refuses."""

from typing import Any

import anthropic
import pytest

from tests.twins.clients import CLAUDE, anthropic_of, said
from twins import Twin

HAIKU = "claude-haiku-4-5"
MARK = {"cache_control": {"type": "ephemeral"}}
LONG_MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TEXT = {"type": "text", "text": "hi"}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("holons: Extra inputs are not permitted", {"extra_body": {"holons": 1}}),
    ("context_management: Extra inputs are not permitted", {"extra_body": {"context_management": {}}}),
    ("max_tokens: Input should be greater than or equal to 0", {"max_tokens": -1}),
    ("messages: at least one message is required", {"messages": []}),
    ('first message must use the "user" role', {"messages": [assistant(TEXT)]}),
    ("messages: text content blocks must be non-empty", {"messages": [user({"type": "text", "text": ""})]}),
    ("must contain non-whitespace text", {"messages": [user({"type": "text", "text": " \n"})]}),
    ("all messages must have non-empty content", {"messages": [user(), assistant(TEXT), user(TEXT)]}),
    ("Input tag 'input_text' found", {"messages": [user({"type": "input_text", "text": "hi"})]}),
    ("text.id: Extra inputs are not permitted", {"messages": [user({**TEXT, "id": "1"})]}),
    ("messages.0.name: Extra inputs are not permitted", {"messages": [{**user(TEXT), "name": "ada"}]}),
    ("system: text content blocks must be non-empty", {"system": [{"type": "text", "text": ""}]}),
    ("maximum of 4 blocks with cache_control may be provided. Found 5.", {"messages": [user(*[{**TEXT, **MARK}] * 5)]}),
    (
        "maximum of 4 blocks with cache_control may be provided. Found 5.",
        {"tools": [{**TOOL, **MARK}], "system": [{**TEXT, **MARK}], "messages": [user(*[{**TEXT, **MARK}] * 3)]},
    ),
    (
        "maximum of 4 blocks with cache_control may be provided. Found 5.",
        {"messages": [user(*[{**TEXT, **MARK}] * 4, TEXT)], **MARK},
    ),
    (
        "a ttl='1h' cache_control block must not come after a ttl='5m'",
        {"system": [{**TEXT, **MARK}], "messages": [user({**TEXT, **LONG_MARK})]},
    ),
    ("Top-level cache_control has ttl='5m'", {"messages": [user({**TEXT, **LONG_MARK})], **MARK}),
    (
        "ttl: Input should be '5m' or '1h'",
        {"messages": [user({**TEXT, "cache_control": {"type": "ephemeral", "ttl": "2h"}})]},
    ),
    ("cache_control cannot be set for empty text blocks", {"messages": [user({"type": "text", "text": "", **MARK})]}),
    (
        "cache_control: Extra inputs are not permitted",
        {"messages": [user(TEXT), assistant({"type": "thinking", **MARK})]},
    ),
    ("tools.0.custom.input_schema: Field required", {"tools": [{"name": "look"}]}),
    ("tools.0.custom.parameters: Extra inputs", {"tools": [{**TOOL, "parameters": {}}]}),
    ("tools.0.custom.input_schema.type", {"tools": [{"name": "look", "input_schema": {"type": "string"}}]}),
    ("tools.0.custom.name: String should match", {"tools": [{**TOOL, "name": "look at"}]}),
    ("Tool names must be unique", {"tools": [TOOL, TOOL]}),
    ("tool_choice may only be specified while providing tools", {"tool_choice": {"type": "auto"}}),
    ("Tool 'see' not found in provided tools", {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "see"}}),
    (
        "without `tool_result` blocks immediately after: toolu_1",
        {"model": HAIKU, "messages": [user(TEXT), assistant(CALL)]},
    ),
    ("without `tool_result` blocks immediately after", {"messages": [user(TEXT), assistant(CALL), user(TEXT)]}),
    ("without `tool_result` blocks immediately after", {"messages": [user(TEXT), assistant(CALL), user(TEXT, RESULT)]}),
    ("unexpected `tool_use_id` found in `tool_result` blocks: toolu_1", {"messages": [user(RESULT)]}),
    ("each tool_use must have a single result", {"messages": [user(TEXT), assistant(CALL), user(RESULT, RESULT)]}),
    ("`tool_use` ids must be unique", {"messages": [user(TEXT), assistant(CALL, CALL), user(RESULT)]}),
    ("`tool_use` blocks can only be in `assistant` messages", {"messages": [user(CALL)]}),
    ("tool_use.id: String should match", {"messages": [user(TEXT), assistant({**CALL, "id": "call:1"}), user(RESULT)]}),
    (
        "role 'system' is not supported on this model",
        {"messages": [user(TEXT), {"role": "system", "content": "be kind"}]},
    ),
    ("messages.0.role: Input should be", {"messages": [{"role": "tool", "content": "hi"}]}),
    (
        "cannot end with trailing whitespace",
        {"model": HAIKU, "messages": [user(TEXT), assistant({"type": "text", "text": "well "})]},
    ),
    (
        "does not support assistant message prefill",
        {"model": "claude-opus-4-7", "messages": [user(TEXT), assistant(TEXT)]},
    ),
    ("`temperature` is deprecated", {"model": "claude-opus-4-7", "extra_body": {"temperature": 0.5}}),
    ("greater than or equal to 1024", {"thinking": {"type": "enabled", "budget_tokens": 100}}),
    ("`max_tokens` must be greater than", {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
    (
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
        {
            "max_tokens": 2000,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "messages": [user(TEXT), assistant(CALL), user(RESULT)],
        },
    ),
    (
        "Invalid `signature` in `thinking` block",
        {
            "messages": [
                user(TEXT),
                assistant({"type": "thinking", "thinking": "hm", "signature": "forged"}, TEXT),
                user(TEXT),
            ]
        },
    ),
]


@pytest.mark.parametrize(("words", "request_"), REFUSED, ids=[words[:50] for words, _ in REFUSED])
async def test_a_wrong_request_is_refused_in_the_services_own_words(words, request_):
    async with Twin.start() as twin:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await anthropic_of(twin).messages.create(
                **{"model": CLAUDE, "max_tokens": 99, "messages": said("hi"), **request_}
            )
        call = twin.calls[0]
    assert words in str(refused.value.api_message)
    assert (refused.value.type, refused.value.request_id) == ("invalid_request_error", call.request_id)
    assert (call.outcome, call.status, call.bill) == ("refused", 400, None)


ACCEPTED: list[dict[str, Any]] = [
    {"messages": [user(TEXT), user(TEXT)]},
    {"messages": [user(TEXT), assistant(CALL), user(RESULT, TEXT)]},
    {"messages": [user(TEXT), assistant(CALL), user(RESULT), user(TEXT)]},
    {"model": HAIKU, "messages": [user(TEXT), assistant(TEXT)]},
    {"messages": [user(*[{**TEXT, **MARK}] * 4)]},
    {"system": [{**TEXT, **LONG_MARK}], "messages": [user({**TEXT, **MARK})]},
    {"extra_body": {"temperature": 0.5}},
    {"model": "claude-opus-4-8", "messages": [user(TEXT), {"role": "system", "content": "be kind"}]},
    {
        "extra_body": {"context_management": {"edits": []}},
        "extra_headers": {"anthropic-beta": "context-management-2025-06-27"},
    },
]


@pytest.mark.parametrize("request_", ACCEPTED, ids=range(len(ACCEPTED)))
async def test_a_right_request_is_answered(request_):
    async with Twin.start() as twin:
        message = await anthropic_of(twin).messages.create(
            **{"model": CLAUDE, "max_tokens": 99, "messages": said("hi"), **request_}
        )
    assert message.stop_reason == "end_turn"


@pytest.mark.parametrize("key", ["sk-ant-api03-real", "other"])
async def test_a_key_that_is_not_a_twins_is_refused(key):
    async with Twin.start() as twin:
        with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
            await anthropic_of(twin, key=key).messages.create(model=CLAUDE, max_tokens=9, messages=said("hi"))
        assert "x-api-key" not in twin.calls[0].headers


@pytest.mark.parametrize("model", ["claude-opus-99", "gpt-5"])
async def test_an_unknown_model_is_not_found(model):
    async with Twin.start() as twin:
        with pytest.raises(anthropic.NotFoundError, match=f"model: {model}"):
            await anthropic_of(twin).messages.create(model=model, max_tokens=9, messages=said("hi"))


async def test_a_prompt_beyond_the_window_is_refused():
    async with Twin.start() as twin:
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 200000 maximum"):
            await anthropic_of(twin).messages.create(model=HAIKU, max_tokens=9, messages=said("apple " * 200_001))
