"""From the neutral request to the body of an Anthropic request, and back from its message."""

from hashlib import sha256
from typing import Any

import pytest

from holon.core.conversation import (
    AssistantBlocks,
    ModelBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResults,
    ToolUseBlock,
)
from holon.core.prompts import PromptBlock, PromptFrame, Stability
from holon.providers.anthropic_messages import clearing_diagnostics, lower
from holon.providers.canonical import CanonicalRequest
from holon.providers.contract import INVALID_ARGUMENTS
from holon.providers.options import AnthropicOptions, ContextManagement
from holon.providers.schemas import SchemaMode
from tests.providers.wires import WEATHER, asking, call, results

MARK = {"type": "ephemeral"}
MODEL = "claude-opus-5"


def text(words: str, mark: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": words, **({"cache_control": MARK} if mark else {})}


def marks_in(body: dict[str, Any]) -> list[str]:
    """Where the marks of a body stand, in the order in which the service reads it."""
    found = [f"tool {tool['name']}" for tool in body.get("tools", []) if "cache_control" in tool]
    found += [f"system {n}" for n, block in enumerate(body.get("system", [])) if "cache_control" in block]
    return found + [
        f"message {n}.{place}"
        for n, message in enumerate(body["messages"])
        for place, block in enumerate(message["content"])
        if "cache_control" in block
    ]


@pytest.mark.spec("RT-164", "RT-212", "CA-010", "CA-011")
def test_a_whole_request_has_tools_system_and_messages_with_their_marks():
    said = AssistantBlocks(blocks=[TextBlock(text="I look."), call("toolu_1", city="Bern")])
    request = asking("anthropic/x", "How is Bern?", said, results(toolu_1="sunny"), marks=[0, 2])
    assert lower(request, MODEL) == {
        "model": MODEL,
        "max_tokens": 8_192,
        "tools": [
            {
                "name": "Weather",
                "description": WEATHER.description,
                "input_schema": {**WEATHER.input_schema, "additionalProperties": False},
                "cache_control": MARK,
            }
        ],
        "system": [text("Be of use."), text("You are Ada.", mark=True)],
        "messages": [
            {"role": "user", "content": [text("How is Bern?", mark=True)]},
            {
                "role": "assistant",
                "content": [
                    text("I look."),
                    {"type": "tool_use", "id": "toolu_1", "name": "Weather", "input": {"city": "Bern"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny", "cache_control": MARK}
                ],
            },
        ],
    }


@pytest.mark.spec("RT-217", "CA-010")
def test_only_the_last_tool_is_marked_and_none_if_that_is_not_planned():
    tools = [WEATHER, WEATHER.__class__(name="Zoo", description="", input_schema=WEATHER.input_schema)]
    assert marks_in(lower(asking("x/y", "hi", tools=tools), MODEL)) == ["tool Zoo", "system 1"]
    assert marks_in(lower(asking("x/y", "hi", tools=tools, mark_tools=False), MODEL)) == ["system 1"]


def test_of_more_marks_than_the_service_takes_tools_system_and_the_newest_stay():
    request = asking("x/y", *(f"{n}" for n in range(5)), marks=[0, 1, 2, 3, 4])
    body = lower(request, MODEL)
    assert marks_in(body) == ["tool Weather", "system 1", "message 0.3", "message 0.4"]


def test_marks_on_too_many_system_blocks_are_cut_to_the_last_ones():
    blocks = [
        PromptBlock(text=str(n), stability=Stability.STABLE, source=str(n), cache_breakpoint=True) for n in range(6)
    ]
    request = asking("x/y", "hi", frame=PromptFrame(system_blocks=blocks), marks=[0])
    assert marks_in(lower(request, MODEL)) == ["tool Weather", "system 3", "system 4", "system 5"]


def test_a_mark_that_falls_on_thinking_or_on_nothing_moves_to_the_block_before():
    thought = AssistantBlocks(blocks=[ThinkingBlock(text="hm", signature="sig")])
    body = lower(asking("x/y", "first", thought, " ", "last", marks=[1, 2]), MODEL)
    assert marks_in(body) == ["tool Weather", "system 1", "message 0.0"]


@pytest.mark.spec("CA-014")
def test_without_tools_or_system_their_marks_are_left_out():
    body = lower(asking("x/y", "hi", tools=[], frame=PromptFrame()), MODEL)
    assert body == {"model": MODEL, "max_tokens": 8_192, "messages": [{"role": "user", "content": [text("hi")]}]}


@pytest.mark.spec("CA-001", "CA-002", "CA-011", "CA-012")
def test_of_the_two_segments_the_stable_one_is_first_and_marked_the_volatile_one_second_and_not():
    request = CanonicalRequest(
        request_id="r1", model="anthropic/x", messages=[], system_prompt="stable", system_prompt_volatile="volatile"
    )
    assert lower(request.as_provider_request(), MODEL)["system"] == [text("stable", mark=True), text("volatile")]


@pytest.mark.spec("CA-003", "CA-004")
@pytest.mark.parametrize(
    ("stable", "volatile", "system"),
    [("a", None, [text("a", mark=True)]), (None, "b", [text("b")]), (None, None, None), ("", " ", None)],
)
def test_each_segment_may_be_missing_and_no_empty_block_is_sent(stable, volatile, system):
    request = CanonicalRequest(
        request_id="r1", model="anthropic/x", messages=[], system_prompt=stable, system_prompt_volatile=volatile
    )
    assert lower(request.as_provider_request(), MODEL).get("system") == system


def test_neighbours_of_one_role_are_one_message_with_the_results_first():
    body = lower(
        asking("x/y", "one", "two", AssistantBlocks(blocks=[call("a")]), "wait", results(a="1"), "and?"), MODEL
    )
    assert [(m["role"], [block.get("text", block["type"]) for block in m["content"]]) for m in body["messages"]] == [
        ("user", ["one", "two"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result", "wait", "and?"]),
    ]


def test_thinking_goes_back_unchanged_and_only_to_who_signed_it():
    blocks: list[ModelBlock] = [
        ThinkingBlock(text="mine", signature="sig/+="),
        ThinkingBlock(text="unsigned"),
        ThinkingBlock(text="sealed", signature="openai-reasoning:rs_1:gAAA"),
        RedactedThinkingBlock(data="opaque"),
        TextBlock(text="  "),
        TextBlock(text="said"),
    ]
    body = lower(asking("x/y", "hi", AssistantBlocks(blocks=blocks), "more"), MODEL)
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "mine", "signature": "sig/+="},
        {"type": "redacted_thinking", "data": "opaque"},
        text("said"),
    ]


def test_ids_and_names_that_this_service_refuses_are_made_to_fit_alike_on_both_sides():
    foreign = ToolUseBlock(id="functions.Weather:0", name="functions.Weather", input={INVALID_ARGUMENTS: "{"})
    answer = ToolResults(results=[ToolResultBlock(tool_use_id="functions.Weather:0", content="", is_error=True)])
    body = lower(asking("x/y", "hi", AssistantBlocks(blocks=[foreign]), answer), MODEL)
    (called,), (answered,) = body["messages"][1]["content"], body["messages"][2]["content"]
    assert called == {
        "type": "tool_use",
        "id": "call_" + sha256(b"functions.Weather:0").hexdigest()[:24],
        "name": "functions_Weather",
        "input": {INVALID_ARGUMENTS: "{"},
    }
    assert answered == {"type": "tool_result", "tool_use_id": called["id"], "is_error": True}


@pytest.mark.parametrize(
    ("options", "items", "thinking"),
    [
        (AnthropicOptions(), ["hi"], None),
        (AnthropicOptions(thinking="adaptive"), ["hi"], {"type": "adaptive"}),
        (AnthropicOptions(thinking="enabled"), ["hi"], {"type": "enabled", "budget_tokens": 4_096}),
        (
            AnthropicOptions(thinking="enabled", thinking_budget_tokens=50_000),
            ["hi"],
            {"type": "enabled", "budget_tokens": 8_191},
        ),
        (AnthropicOptions(thinking="enabled"), ["hi", AssistantBlocks(blocks=[call("a")]), results(a="1")], None),
    ],
    ids=["off", "adaptive", "enabled", "within the answer", "not behind calls made without"],
)
def test_thinking_is_asked_for_as_configured_and_where_the_service_takes_it(options, items, thinking):
    assert lower(asking("x/y", *items), MODEL, options).get("thinking") == thinking


@pytest.mark.spec("RT-218")
def test_context_management_is_absent_unless_enabled_and_its_diagnostics_are_numbers():
    request = asking(
        "x/y",
        "hi",
        AssistantBlocks(blocks=[call("a"), call("b")]),
        results(a="secret é", b="2"),
        AssistantBlocks(blocks=[call("c")]),
        results(c="3"),
    )
    assert "context_management" not in lower(request, MODEL)
    assert clearing_diagnostics(request, None) is None
    wanted = ContextManagement(trigger_input_tokens=50_000, keep_tool_uses=1, clear_at_least_input_tokens=5_000)
    body = lower(request, MODEL, AnthropicOptions(context_management=wanted))
    assert body["context_management"] == {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 50_000},
                "keep": {"type": "tool_uses", "value": 1},
                "clear_at_least": {"type": "input_tokens", "value": 5_000},
            }
        ]
    }
    assert body["messages"] == lower(request, MODEL)["messages"]
    assert clearing_diagnostics(request, wanted) == {
        "context_management": {
            "trigger_input_tokens": 50_000,
            "eligible_tool_results": 2,
            "eligible_tool_result_bytes": len("secret é".encode()) + 1,
        }
    }


@pytest.mark.spec("RT-201")
def test_schemas_are_sent_relaxed_by_default_and_strict_if_asked():
    (relaxed,) = lower(asking("x/y", "hi"), MODEL)["tools"]
    assert relaxed["input_schema"]["required"] == ["city"]
    assert relaxed["input_schema"]["additionalProperties"] is False
    (strict,) = lower(asking("x/y", "hi"), MODEL, AnthropicOptions(schema_mode=SchemaMode.STRICT))["tools"]
    assert strict["input_schema"]["required"] == ["city", "days"]


@pytest.mark.spec("RT-211", "CA-015", "CA-017")
def test_the_next_request_is_this_one_and_more():
    first = asking("x/y", "How is Bern?", marks=[0])
    said = AssistantBlocks(blocks=[ThinkingBlock(text="hm", signature="s"), call("a", city="Bern")])
    second = asking("x/y", "How is Bern?", said, results(a="sunny"), marks=[0, 2], round=2)
    before, after = lower(first, MODEL), lower(second, MODEL)
    assert after["tools"] == before["tools"]
    assert after["system"] == before["system"]
    assert after["messages"][: len(before["messages"])] == before["messages"]
