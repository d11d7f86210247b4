"""From the neutral request to the bodies of the three OpenAI wires: Responses, Codex and Chat Completions."""

from typing import Any

import msgspec
import pytest

from holon.core.codec import dumps
from holon.core.conversation import (
    AssistantBlocks,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResults,
    ToolUseBlock,
)
from holon.core.prompts import PromptCache, PromptFrame
from holon.providers import openai_chat as chat
from holon.providers import openai_codex as codex
from holon.providers import openai_responses as responses
from holon.providers.canonical import CanonicalRequest
from holon.providers.contract import INVALID_ARGUMENTS, Freeform, StopReason, ToolSpec
from holon.providers.openai_chat import Completion
from holon.providers.options import ChatOptions, CodexOptions, ResponsesOptions
from holon.providers.responses_items import input_usage
from holon.providers.schemas import SchemaMode
from tests.providers.wires import CACHE, FRAME, WEATHER, asking, call, results

SYSTEM = "Be of use.\n\nYou are Ada."
SCHEMA = {**WEATHER.input_schema, "additionalProperties": False}
TALK = (
    "How is Bern?",
    AssistantBlocks(blocks=[ThinkingBlock(text="hm"), TextBlock(text="I look."), call("call_1", city="Bern")]),
    results(call_1="sunny"),
)
PATCH = ToolSpec(
    name="ApplyPatch",
    description="Changes files.",
    input_schema={"type": "object", "properties": {"patch": {"type": "string"}}, "required": ["patch"]},
    freeform=Freeform(argument="patch", syntax="lark", definition="start: /.+/"),
)


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def assistant(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


@pytest.mark.spec("RT-163", "RT-201", "RT-210", "RT-214", "CA-016")
def test_a_responses_request_is_whole_has_the_cache_key_and_no_marks():
    body = responses.lower(asking("openai/x", *TALK, marks=[0, 2]), "gpt-5")
    assert body == {
        "model": "gpt-5",
        "instructions": SYSTEM,
        "tools": [
            {
                "type": "function",
                "name": "Weather",
                "description": WEATHER.description,
                "parameters": SCHEMA,
                "strict": False,
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "input": [
            user("How is Bern?"),
            assistant("I look."),
            {"type": "function_call", "call_id": "call_1", "name": "Weather", "arguments": '{"city":"Bern"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        ],
        "prompt_cache_key": CACHE.prompt_cache_key,
        "max_output_tokens": 8_192,
        "store": False,
    }
    assert CACHE.context_fingerprint not in dumps(body)
    order = [name for name in body if name in ("instructions", "tools", "input")]
    assert order == ["instructions", "tools", "input"]


@pytest.mark.spec("RT-165", "RT-166")
def test_a_codex_request_streams_and_has_what_the_backend_wants_and_nothing_that_it_refuses():
    request = asking("openai-codex/x", *TALK)
    body = codex.lower(request, "gpt-5-codex")
    same = responses.lower(request, "gpt-5-codex")
    assert "max_output_tokens" not in body
    assert {name: body[name] for name in ("stream", "store", "reasoning", "include")} == {
        "stream": True,
        "store": False,
        "reasoning": None,
        "include": [],
    }
    for name in ("model", "instructions", "tools", "tool_choice", "parallel_tool_calls", "input", "prompt_cache_key"):
        assert body[name] == same[name]


def test_codex_gets_instructions_even_where_the_prompt_has_none():
    body = codex.lower(asking("openai-codex/x", "hi", frame=PromptFrame()), "gpt-5-codex")
    assert body["instructions"] == codex.NO_INSTRUCTIONS


@pytest.mark.spec("RT-169", "CA-005", "CA-018", "CA-021")
def test_a_chat_request_begins_with_one_system_message_and_has_no_marks():
    assert chat.lower(asking("acme/x", *TALK, marks=[0, 2]), "x") == {
        "model": "x",
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "How is Bern?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "Weather", "arguments": '{"city":"Bern"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "Weather",
                    "description": WEATHER.description,
                    "parameters": SCHEMA,
                    "strict": False,
                },
            }
        ],
        "tool_choice": "auto",
        "max_tokens": 8_192,
    }


@pytest.mark.spec("CA-020")
def test_a_route_to_a_service_with_explicit_marks_gets_them_in_the_shape_of_this_api():
    body = chat.lower(asking("openrouter/anthropic/x", *TALK, "more", marks=[0, 1, 2, 3]), "anthropic/x", marked=True)
    mark = {"type": "ephemeral"}
    assert body["messages"] == [
        {
            "role": "system",
            "content": [
                {"type": "text", "text": "Be of use."},
                {"type": "text", "text": "You are Ada.", "cache_control": mark},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "How is Bern?", "cache_control": mark}]},
        {**chat.lower(asking("a/b", *TALK), "x")["messages"][2]},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": [{"type": "text", "text": "sunny", "cache_control": mark}],
        },
        {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": mark}]},
    ]


@pytest.mark.spec("CA-002", "CA-003", "CA-004", "CA-018")
@pytest.mark.parametrize(
    ("stable", "volatile", "system"),
    [("a", "b", "a\n\nb"), ("a", None, "a"), (None, "b", "b"), (None, None, None)],
)
def test_the_two_segments_become_one_text_with_the_volatile_one_at_its_end(stable, volatile, system):
    request = CanonicalRequest(
        request_id="r1", model="openai/x", messages=[], system_prompt=stable, system_prompt_volatile=volatile
    ).as_provider_request()
    assert responses.lower(request, "x").get("instructions") == system
    assert chat.lower(request, "x")["messages"] == ([{"role": "system", "content": system}] if system else [])


@pytest.mark.spec("RT-208", "RT-210", "CA-017")
def test_what_changes_with_a_turn_changes_neither_the_prefix_nor_the_cache_key():
    later = PromptFrame(
        system_blocks=FRAME.system_blocks,
        context_blocks=FRAME.context_blocks,
        cache=PromptCache(
            agent_id="main", prompt_cache_key=CACHE.prompt_cache_key, context_fingerprint="fingerprint-2"
        ),
    )
    first = responses.lower(asking("openai/x", *TALK), "x")
    second = responses.lower(asking("openai/x", *TALK, "Thanks!", frame=later), "x")
    assert second["input"][: len(first["input"])] == first["input"]
    assert {**second, "input": None} == {**first, "input": None}


def test_a_cache_key_that_is_too_long_for_the_service_becomes_a_short_one_that_stays():
    long = PromptCache(agent_id="a" * 64, prompt_cache_key="a" * 64 + ":ctx:1", context_fingerprint="f")
    keys = {
        responses.lower(asking("openai/x", "hi", frame=PromptFrame(cache=long)), "x")["prompt_cache_key"]
        for _ in range(2)
    }
    assert len(keys) == 1
    assert len(keys.pop()) == 64


def test_without_a_cache_identity_no_key_is_sent():
    assert "prompt_cache_key" not in responses.lower(asking("openai/x", "hi", frame=PromptFrame()), "x")


def test_a_tool_with_a_grammar_is_offered_and_replayed_as_free_text():
    asked = AssistantBlocks(blocks=[ToolUseBlock(id="c1", name="ApplyPatch", input={"patch": "*** Begin"})])
    request = asking("openai/gpt-5", "fix it", asked, results(c1="done"), tools=[PATCH])
    body = responses.lower(request, "gpt-5")
    assert body["tools"] == [
        {
            "type": "custom",
            "name": "ApplyPatch",
            "description": "Changes files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        }
    ]
    assert body["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "ApplyPatch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]
    plain = responses.lower(request, "gpt-5", ResponsesOptions(freeform_tools=False))
    assert [item["type"] for item in plain["input"]] == ["message", "function_call", "function_call_output"]
    assert plain["tools"][0]["type"] == "function"


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("gpt-5", "custom"),
        ("gpt-5.6-luna", "custom"),
        ("gpt-5-codex", "custom"),
        ("openai/gpt-6", "custom"),
        ("codex-mini-latest", "custom"),
        ("gpt-4.1", "function"),
        ("gpt-4o", "function"),
        ("o3", "function"),
        ("openai/gpt-oss-120b", "function"),
        ("my-gpt-5", "function"),
    ],
)
def test_free_text_is_for_models_that_know_it_unless_the_operator_says(model, kind):
    request = asking(f"openai/{model}", "fix it", tools=[PATCH])
    assert responses.lower(request, model)["tools"][0]["type"] == kind
    assert codex.lower(request, model)["tools"][0]["type"] == kind
    assert chat.lower(request, model)["tools"][0]["type"] == "function"
    for wanted, always in ((True, "custom"), (False, "function")):
        bodies = [
            responses.lower(request, model, ResponsesOptions(freeform_tools=wanted)),
            codex.lower(request, model, CodexOptions(freeform_tools=wanted)),
            chat.lower(request, model, ChatOptions(freeform_tools=wanted)),
        ]
        assert {body["tools"][0]["type"] for body in bodies} == {always}


def test_in_chat_completions_the_grammar_stands_one_level_deeper():
    asked = AssistantBlocks(blocks=[ToolUseBlock(id="c1", name="ApplyPatch", input={"patch": "*** Begin"})])
    request = asking("openai/gpt-5", "fix it", asked, results(c1="done"), tools=[PATCH])
    body = chat.lower(request, "gpt-5", ChatOptions(freeform_tools=True))
    grammar = {"syntax": "lark", "definition": "start: /.+/"}
    assert body["tools"] == [
        {
            "type": "custom",
            "custom": {
                "name": "ApplyPatch",
                "description": "Changes files.",
                "format": {"type": "grammar", "grammar": grammar},
            },
        }
    ]
    call_ = {"id": "c1", "type": "custom", "custom": {"name": "ApplyPatch", "input": "*** Begin"}}
    assert body["messages"][-2:] == [
        {"role": "assistant", "content": None, "tool_calls": [call_]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]


def test_a_call_of_a_grammars_tool_that_is_no_free_text_is_replayed_as_json():
    asked = AssistantBlocks(blocks=[ToolUseBlock(id="c1", name="ApplyPatch", input={INVALID_ARGUMENTS: "x", "b": 1})])
    body = responses.lower(asking("openai/gpt-5", "fix it", asked, tools=[PATCH]), "gpt-5")
    assert [item["type"] for item in body["input"]] == ["message", "function_call", "function_call_output"]


def test_sealed_reasoning_goes_back_to_where_it_can_be_read():
    sealed = ThinkingBlock(text="hm", signature="openai-reasoning:rs_1:gAAA:x")
    foreign = ThinkingBlock(text="ho", signature="anthropic-signature")
    body = responses.lower(asking("openai/x", "hi", AssistantBlocks(blocks=[sealed, foreign, call("c1")])), "x")
    assert body["input"][1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA:x",
    }
    assert [item["type"] for item in body["input"]] == ["message", "reasoning", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ResponsesOptions(incremental=True), {"store": True}),
        (ResponsesOptions(encrypted_reasoning=True), {"store": False, "include": ["reasoning.encrypted_content"]}),
        (ResponsesOptions(reasoning_effort="low"), {"reasoning": {"effort": "low"}}),
        (ResponsesOptions(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        (ResponsesOptions(stream=True), {"stream": True}),
    ],
)
def test_options_of_responses_show_in_the_request(options, expected):
    body = responses.lower(asking("openai/x", "hi"), "x", options)
    assert {name: body[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ChatOptions(max_tokens_field="max_completion_tokens"), {"max_completion_tokens": 8_192}),
        (ChatOptions(prompt_cache_key=True), {"prompt_cache_key": CACHE.prompt_cache_key}),
        (ChatOptions(parallel_tool_calls=False), {"parallel_tool_calls": False}),
        (ChatOptions(stream=True), {"stream": True, "stream_options": {"include_usage": True}}),
        (ChatOptions(stream=True, stream_usage=False), {"stream": True}),
    ],
)
def test_options_of_chat_show_in_the_request(options, expected):
    plain, body = (chat.lower(asking("acme/x", "hi"), "x", each) for each in (ChatOptions(), options))
    assert {name: value for name, value in body.items() if plain.get(name) != value} == expected


def test_thinking_goes_back_over_chat_only_where_the_service_has_a_field_for_it():
    plain = chat.lower(asking("acme/x", *TALK), "x")["messages"][2]
    thoughtful = chat.lower(asking("acme/x", *TALK), "x", ChatOptions(reasoning_field="reasoning_content"))
    assert thoughtful["messages"][2] == {**plain, "reasoning_content": "hm"}


def test_an_answer_of_thinking_alone_leaves_no_empty_message_behind():
    silent = AssistantBlocks(blocks=[ThinkingBlock(text="hm")])
    body = chat.lower(asking("acme/x", "hi", silent, "well?"), "x")
    assert [message["role"] for message in body["messages"]] == ["system", "user", "user"]


@pytest.mark.spec("RT-204")
def test_strict_tools_are_strict_on_all_three_wires():
    request = asking("openai/x", "hi")
    options = ResponsesOptions(schema_mode=SchemaMode.STRICT)
    (tool,) = responses.lower(request, "x", options)["tools"]
    (function,) = chat.lower(request, "x", ChatOptions(schema_mode=SchemaMode.STRICT))["tools"]
    for strict in (tool, function["function"]):
        assert strict["strict"] is True
        assert strict["parameters"]["required"] == ["city", "days"]
        assert strict["parameters"]["properties"]["days"]["type"] == ["integer", "null"]


@pytest.mark.parametrize(
    ("told", "buckets"),
    [((100, 5, 60, 30), (10, 60, 30)), ((100, 5, 0, 0), (100, 0, 0)), ((100, 5, 120, 30), (0, 100, 0))],
    ids=["parts", "nothing cached", "more parts than the whole"],
)
def test_the_input_is_told_in_three_parts_that_add_up(told, buckets):
    usage, parts = input_usage(*told)
    assert (parts.fresh, parts.read, parts.written) == buckets
    assert parts.total == usage.input_tokens == told[0]


def test_a_refusal_in_chat_is_a_refusal():
    told = {"choices": [{"message": {"refusal": "I may not."}, "finish_reason": "stop"}]}
    answer = chat.response_of(msgspec.convert(told, Completion), asking("acme/x", "hi"))
    assert (answer.blocks, answer.stop_reason) == ([TextBlock(text="I may not.")], StopReason.REFUSAL)


def test_a_lost_result_is_told_as_an_error_on_every_wire():
    lost = ToolResults(results=[ToolResultBlock(tool_use_id="c9", content="?")])
    request = asking("openai/x", "hi", AssistantBlocks(blocks=[call("c1")]), lost)
    assert responses.lower(request, "x")["input"][-1]["output"].startswith("no result")
    assert chat.lower(request, "x")["messages"][-1]["content"].startswith("no result")
