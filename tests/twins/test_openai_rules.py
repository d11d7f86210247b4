"""What OpenAI's APIs refuse, with which code and param."""

from typing import Any

import openai
import pytest

from tests.twins.clients import GPT, openai_of, said
from twins import Answer, Rule, Script, ToolCall, Twin

CALL = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED = {**OPEN, "additionalProperties": False}
NESTED = {**CLOSED, "properties": {"a": {"type": "array", "items": OPEN}}}
OPTIONAL = {**CLOSED, "required": []}

Refused = tuple[str, str | None, str | None, dict[str, Any]]


def function(parameters: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": "look", "parameters": parameters, **more}


def free(format_: Any) -> dict[str, Any]:
    return {"type": "custom", "name": "look", "format": format_}


RESPONSES: list[Refused] = [
    ("Unknown parameter: 'holons'", "unknown_parameter", "holons", {"extra_body": {"holons": 1}}),
    ("Unknown parameter: 'messages'", "unknown_parameter", "messages", {"extra_body": {"messages": []}}),
    ("integer below minimum value", "integer_below_min_value", "max_output_tokens", {"max_output_tokens": 15}),
    ("Unsupported parameter: 'temperature'", "unsupported_parameter", "temperature", {"temperature": 0.5}),
    (
        "Unsupported parameter: 'prompt_cache_options'",
        "unsupported_parameter",
        "prompt_cache_options",
        {"prompt_cache_options": {"mode": "explicit"}},
    ),
    ("does not exist", "model_not_found", "model", {"model": "gpt-99"}),
    ("does not exist", "model_not_found", "model", {"model": "claude-sonnet-4-6"}),
    ("No tool output found for function call call_1", None, "input", {"input": [*said("hi"), CALL]}),
    ("No tool call found for function call output with call_id call_1", None, "input", {"input": [OUTPUT]}),
    (
        "Unknown parameter: 'input[0].name'",
        "unknown_parameter",
        "input[0].name",
        {"input": [{**said("hi")[0], "name": "a"}]},
    ),
    (
        "Invalid value: 'text'",
        "invalid_value",
        "input[0].content[0].type",
        {"input": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    ),
    (
        "Supported values are: 'output_text', 'refusal'",
        "invalid_value",
        "input[0].content[0].type",
        {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]}]},
    ),
    (
        "Expected an ID that begins with 'fc'",
        "invalid_value",
        "input[0].id",
        {"input": [{**CALL, "id": "call_1"}, OUTPUT]},
    ),
    (
        "Missing required parameter",
        "missing_required_parameter",
        "input[0].output",
        {"input": [{**OUTPUT, "output": None}]},
    ),
    (
        "'additionalProperties' is required to be supplied and to be false",
        "invalid_function_parameters",
        "tools[0].parameters",
        {"tools": [function(OPEN, strict=True)]},
    ),
    (
        "array including every key in properties. Missing 'a'",
        "invalid_function_parameters",
        "tools[0].parameters",
        {"tools": [function(OPTIONAL, strict=True)]},
    ),
    (
        "In context=('properties', 'a', 'items')",
        "invalid_function_parameters",
        "tools[0].parameters",
        {"tools": [function(NESTED, strict=True)]},
    ),
    ("Invalid schema", "invalid_function_parameters", "tools[0].parameters", {"tools": [function(OPTIONAL)]}),
    ("Unknown parameter", "unknown_parameter", "tools[0].function", {"tools": [{**function(CLOSED), "function": {}}]}),
    ("does not match pattern", "invalid_value", "tools[0].name", {"tools": [{**function(CLOSED), "name": "a b"}]}),
    (
        "Invalid value: 'ebnf'",
        "invalid_value",
        "tools[0].format.syntax",
        {"tools": [free({"type": "grammar", "syntax": "ebnf", "definition": "a"})]},
    ),
    (
        "Missing required parameter",
        "missing_required_parameter",
        "tools[0].format.definition",
        {"tools": [free({"type": "grammar", "syntax": "lark"})]},
    ),
    ("Invalid value: 'json'", "invalid_value", "tools[0].format.type", {"tools": [free({"type": "json"})]}),
]

CHAT: list[Refused] = [
    ("Unknown parameter: 'input'", "unknown_parameter", "input", {"extra_body": {"input": []}}),
    ("Use 'max_completion_tokens' instead", "unsupported_parameter", "max_tokens", {"max_tokens": 9}),
    ("only allowed when 'stream' is enabled", None, "stream_options", {"stream_options": {"include_usage": True}}),
    ("empty array", "empty_array", "messages", {"messages": []}),
    ("empty array", "empty_array", "tools", {"tools": []}),
    (
        "Missing required parameter",
        "missing_required_parameter",
        "tools[0].custom.format.grammar.syntax",
        {"tools": [{"type": "custom", "custom": free({"type": "grammar", "syntax": "lark", "definition": "a"})}]},
    ),
    ("Invalid value: 'bot'", "invalid_value", "messages.[0].role", {"messages": [{"role": "bot", "content": "hi"}]}),
    ("expected a string, got null", None, "messages.[0].content", {"messages": [{"role": "user", "content": None}]}),
    (
        "must be a response to a preceeding message with 'tool_calls'",
        None,
        "messages.[1].role",
        {"messages": [*said("hi"), {"role": "tool", "tool_call_id": "call_1", "content": "seen"}]},
    ),
    (
        "did not have response messages: call_1",
        None,
        "messages",
        {
            "messages": [
                *said("hi"),
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
                },
                *said("go on"),
            ]
        },
    ),
    (
        "Missing 'a'",
        "invalid_function_parameters",
        "tools[0].function.parameters",
        {"tools": [{"type": "function", "function": {"name": "look", "parameters": OPTIONAL, "strict": True}}]},
    ),
]


@pytest.mark.parametrize(("words", "code", "param", "request_"), RESPONSES, ids=range(len(RESPONSES)))
async def test_the_responses_api_refuses_a_wrong_request(words, code, param, request_):
    async with Twin.start() as twin:
        with pytest.raises(openai.BadRequestError) as refused:
            await openai_of(twin).responses.create(**{"model": GPT, "input": "hi", **request_})
    assert words in refused.value.message
    assert (refused.value.code, refused.value.param) == (code, param)
    assert refused.value.type == "invalid_request_error"


@pytest.mark.parametrize(("words", "code", "param", "request_"), CHAT, ids=range(len(CHAT)))
async def test_chat_completions_refuses_a_wrong_request(words, code, param, request_):
    async with Twin.start() as twin:
        with pytest.raises(openai.BadRequestError) as refused:
            await openai_of(twin).chat.completions.create(**{"model": GPT, "messages": said("hi"), **request_})
    assert words in refused.value.message
    assert (refused.value.code, refused.value.param) == (code, param)


@pytest.mark.parametrize(
    "tool", [function(OPEN, strict=False), function(CLOSED, strict=True), function(CLOSED), {"type": "web_search"}]
)
async def test_a_right_tool_is_taken(tool):
    async with Twin.start() as twin:
        response = await openai_of(twin).responses.create(model=GPT, input="hi", tools=[tool])
    assert response.status == "completed"


async def test_a_function_of_chat_completions_is_not_strict_unless_it_says_so():
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": OPTIONAL}}
    async with Twin.start() as twin:
        completion = await openai_of(twin).chat.completions.create(model=GPT, messages=said("hi"), tools=[tool])
    assert completion.choices[0].finish_reason == "stop"


async def test_a_call_that_was_thought_out_must_come_back_with_its_thinking():
    thinking = Script(rules=[Rule(answers=[Answer(thinking="hm", tools=[ToolCall(name="look")])])])
    async with Twin.start(thinking) as twin:
        client = openai_of(twin)
        first = await client.responses.create(model=GPT, input="hi")
        call = first.output[1].to_dict()
        output = {**OUTPUT, "call_id": call["call_id"]}
        with pytest.raises(openai.BadRequestError, match="without its required 'reasoning' item"):
            await client.responses.create(model=GPT, input=[*said("hi"), call, output])
        # Without its id nobody knows where it came from.
        bare = {key: value for key, value in call.items() if key != "id"}
        second = await client.responses.create(model=GPT, input=[*said("hi"), bare, output])
    assert second.status == "completed"


async def test_thinking_that_was_not_stored_is_not_found():
    thought: Any = {"type": "reasoning", "id": "rs_1", "summary": []}
    async with Twin.start() as twin:
        with pytest.raises(openai.NotFoundError, match="Items are not persisted when `store` is set to false"):
            await openai_of(twin).responses.create(model=GPT, input=[*said("hi"), thought])


@pytest.mark.parametrize("key", ["sk-real", "other"])
async def test_a_key_that_is_not_a_twins_is_refused(key):
    async with Twin.start() as twin:
        with pytest.raises(openai.AuthenticationError) as refused:
            await openai_of(twin, key=key).responses.create(model=GPT, input="hi")
        assert "authorization" not in twin.calls[0].headers
    assert refused.value.code == "invalid_api_key"


async def test_chat_completions_does_not_find_an_unknown_model():
    async with Twin.start() as twin:
        with pytest.raises(openai.NotFoundError) as refused:
            await openai_of(twin).chat.completions.create(model="gpt-99", messages=said("hi"))
    assert refused.value.code == "model_not_found"


async def test_a_field_of_a_wrong_type_is_the_clients_fault():
    async with Twin.start() as twin:
        with pytest.raises(openai.BadRequestError, match="not of the type that it should be"):
            await openai_of(twin).responses.create(model=GPT, input="hi", tools=["look"])
