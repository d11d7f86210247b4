"""The Codex backend of ChatGPT through the official SDK: the Responses wire with rules of its own."""

from typing import Any

import openai
import pytest

from tests.twins.clients import GPT, codex_of, said
from twins import Answer, CodexOutput, Fault, FaultKind, Rule, Script, StopReason, ToolCall, Twin

REQUEST: dict[str, Any] = {
    "model": GPT,
    "instructions": "Be brief.",
    "input": said("Hello, twin!"),
    "store": False,
    "stream": True,
    "include": [],
    "reasoning": None,
}
ANSWER = Answer(text="Hello!", tools=[ToolCall(name="look", input={"at": "it"})])


async def events_of(twin: Twin, **changes: Any) -> list[Any]:
    return [event async for event in await codex_of(twin).responses.create(**{**REQUEST, **changes})]


@pytest.mark.parametrize("output", list(CodexOutput))
async def test_the_output_is_in_the_items_whatever_the_last_event_says(output):
    async with Twin.start(Script(rules=[Rule(answers=[ANSWER])], codex_output=output)) as twin:
        events = await events_of(twin)
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == ["message", "function_call"]
    assert (done[0].content[0].text, done[1].arguments) == ("Hello!", '{"at":"it"}')
    last = events[-1]
    assert (last.type, last.response.status) == ("response.completed", "completed")
    assert last.response.usage.output_tokens > 0
    repeated = {CodexOutput.FULL: done, CodexOutput.EMPTY: [], CodexOutput.ABSENT: None}
    assert last.response.output == repeated[output]


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("Stream must be set to true", {"stream": False}),
        ("Store must be set to false", {"store": True}),
        ("Store must be set to false", {"store": openai.omit}),
        ("Instructions are required", {"instructions": openai.omit}),
        ("Input must be a list", {"input": "Hello, twin!"}),
        ("Unsupported parameter: max_output_tokens", {"max_output_tokens": 100}),
        ("Unsupported parameter: temperature", {"temperature": 1}),
        ("Unsupported parameter: previous_response_id", {"previous_response_id": "resp_1"}),
    ],
)
async def test_the_gate_has_rules_and_error_bodies_of_its_own(words, changes):
    async with Twin.start() as twin:
        with pytest.raises(openai.BadRequestError) as refused:
            await events_of(twin, **changes)
    assert refused.value.body == {"detail": words}


async def test_a_wrong_key_is_told_in_the_same_shape():
    async with Twin.start() as twin:
        with pytest.raises(openai.AuthenticationError) as refused:
            await codex_of(twin, key="real").responses.create(**REQUEST)
    assert refused.value.body == {"detail": "Unauthorized"}


async def test_a_used_up_plan_is_a_429_that_says_when_it_is_over():
    fault = Fault(status=429, retry_after=120)
    async with Twin.start(Script(rules=[Rule(fault=fault)])) as twin:
        with pytest.raises(openai.RateLimitError) as refused:
            await events_of(twin)
    body: Any = refused.value.body
    assert (body["type"], body["resets_in_seconds"]) == ("usage_limit_reached", 120)
    assert refused.value.response.headers["retry-after"] == "120"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(kind=FaultKind.FAILED), "server_error"),
        (Fault(kind=FaultKind.FAILED, code="rate_limit_exceeded"), "rate_limit_exceeded"),
        (Fault(kind=FaultKind.CONTEXT_LENGTH), "context_length_exceeded"),
    ],
)
async def test_a_failure_is_the_last_event_and_has_a_code(fault, code):
    async with Twin.start(Script(rules=[Rule(fault=fault)])) as twin:
        events = await events_of(twin)
    last = events[-1]
    assert (last.type, last.response.status, last.response.error.code) == ("response.failed", "failed", code)
    assert last.response.id == events[0].response.id
    assert last.sequence_number == len(events) - 1


async def test_an_incomplete_response_is_the_last_event():
    answer = Answer(text="half", stop=StopReason.MAX_TOKENS)
    async with Twin.start(Script(rules=[Rule(answers=[answer])])) as twin:
        last = (await events_of(twin))[-1]
    assert (last.type, last.response.incomplete_details.reason) == ("response.incomplete", "max_output_tokens")
