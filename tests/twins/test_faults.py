"""Every fault, on every wire, as the official SDKs meet it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.twins.clients import CLAUDE, GPT, WEATHER, anthropic_of, codex_of, openai_of, said
from twins import Answer, ApiName, Chunk, Fault, FaultKind, Outcome, Rule, Script, ToolCall, Twin, When

Ask = Callable[[Twin], Awaitable[Any]]
ANSWER = Answer(text="one two three four five six", tools=[ToolCall(name="weather", input={"city": "Oslo"})])


def script(fault: Fault) -> Script:
    return Script(rules=[Rule(fault=fault, answers=[ANSWER])])


async def anthropic_whole(twin: Twin, **options: Any) -> Any:
    tools: Any = [{"name": "weather", "input_schema": WEATHER}]
    client = anthropic_of(twin, **options)
    return await client.messages.create(model=CLAUDE, max_tokens=99, messages=said("hi"), tools=tools)


async def anthropic_stream(twin: Twin, **options: Any) -> Any:
    client = anthropic_of(twin, **options)
    return [
        e async for e in await client.messages.create(model=CLAUDE, max_tokens=99, messages=said("hi"), stream=True)
    ]


async def responses_whole(twin: Twin, **options: Any) -> Any:
    return await openai_of(twin, **options).responses.create(model=GPT, input="hi")


async def responses_stream(twin: Twin, **options: Any) -> Any:
    return [e async for e in await openai_of(twin, **options).responses.create(model=GPT, input="hi", stream=True)]


async def codex_stream(twin: Twin, **options: Any) -> Any:
    request: Any = {"model": GPT, "instructions": "Be.", "input": said("hi"), "store": False, "stream": True}
    return [e async for e in await codex_of(twin, **options).responses.create(**request)]


async def chat_whole(twin: Twin, **options: Any) -> Any:
    return await openai_of(twin, **options).chat.completions.create(model=GPT, messages=said("hi"))


async def chat_stream(twin: Twin, **options: Any) -> Any:
    client = openai_of(twin, **options)
    return [e async for e in await client.chat.completions.create(model=GPT, messages=said("hi"), stream=True)]


WHOLE = [anthropic_whole, responses_whole, chat_whole]
STREAMS = [anthropic_stream, responses_stream, codex_stream, chat_stream]
ALL = [*WHOLE, *STREAMS]


@pytest.mark.parametrize(
    ("status", "error", "type_"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.RequestTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (504, anthropic.DeadlineExceededError, "timeout_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("ask", [anthropic_whole, anthropic_stream])
async def test_anthropic_answers_with_an_error(status, error, type_, ask):
    async with Twin.start(script(Fault(status=status, retry_after=1.5))) as twin:
        with pytest.raises(error) as failed:
            await ask(twin)
        call = twin.calls[0]
    body = failed.value.body
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", type_, call.request_id)
    assert (failed.value.status_code, failed.value.response.headers["retry-after"]) == (status, "1.5")
    assert (call.outcome, call.status, call.fault, call.bill) == (Outcome.FAULTED, status, FaultKind.STATUS, None)


@pytest.mark.parametrize(
    ("status", "error", "type_", "code"),
    [
        (401, openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
        (403, openai.PermissionDeniedError, "request_forbidden", "unsupported_country_region_territory"),
        (404, openai.NotFoundError, "invalid_request_error", "model_not_found"),
        (413, openai.APIStatusError, "invalid_request_error", "request_too_large"),
        (429, openai.RateLimitError, "tokens", "rate_limit_exceeded"),
        (500, openai.InternalServerError, "server_error", None),
        (503, openai.InternalServerError, "service_unavailable_error", "server_is_overloaded"),
    ],
)
@pytest.mark.parametrize("ask", [responses_whole, responses_stream, chat_whole, chat_stream])
async def test_openai_answers_with_an_error(status, error, type_, code, ask):
    async with Twin.start(script(Fault(status=status, retry_after=2))) as twin:
        with pytest.raises(error) as failed:
            await ask(twin)
        assert twin.bill_total().dollars == 0
    assert (failed.value.status_code, failed.value.type, failed.value.code) == (status, type_, code)
    assert failed.value.response.headers["retry-after"] == "2"
    assert failed.value.request_id == twin.calls[0].request_id


async def test_a_429_may_be_an_empty_purse():
    async with Twin.start(script(Fault(status=429, code="insufficient_quota"))) as twin:
        with pytest.raises(openai.RateLimitError) as failed:
            await responses_whole(twin)
    assert (failed.value.type, failed.value.code) == ("insufficient_quota", "insufficient_quota")


TOO_LONG: list[tuple[Ask, type[Exception], str]] = [
    (anthropic_whole, anthropic.BadRequestError, "prompt is too long: "),
    (anthropic_stream, anthropic.BadRequestError, "prompt is too long: "),
    (responses_whole, openai.BadRequestError, "exceeds the context window"),
    (responses_stream, openai.APIError, "exceeds the context window"),
    (chat_whole, openai.BadRequestError, "maximum context length is"),
    (chat_stream, openai.BadRequestError, "maximum context length is"),
]


@pytest.mark.parametrize(("ask", "error", "words"), TOO_LONG, ids=[ask.__name__ for ask, *_ in TOO_LONG])
async def test_a_prompt_that_is_too_long_is_told_in_each_services_own_way(ask, error, words):
    async with Twin.start(script(Fault(kind=FaultKind.CONTEXT_LENGTH))) as twin:
        with pytest.raises(error, match=words) as failed:
            await ask(twin)
    if isinstance(failed.value, openai.APIError):
        assert failed.value.code == "context_length_exceeded"


async def test_in_a_stream_of_responses_it_comes_after_a_status_of_200():
    async with Twin.start(script(Fault(kind=FaultKind.CONTEXT_LENGTH))) as twin:
        with pytest.raises(openai.APIError) as failed:
            await responses_stream(twin)
        assert twin.calls[0].status == 200
    assert not isinstance(failed.value, openai.APIStatusError)


@pytest.mark.parametrize("ask", ALL)
async def test_a_stalled_call_is_accepted_and_never_answered(ask):
    async with Twin.start(script(Fault(kind=FaultKind.STALL))) as twin:
        with pytest.raises((anthropic.APITimeoutError, openai.APITimeoutError)):
            await ask(twin, timeout=0.1)
        call = twin.calls[0]
    assert (call.outcome, call.status, call.bill) == (Outcome.FAULTED, None, None)


@pytest.mark.parametrize("ask", ALL)
async def test_a_dropped_call_ends_before_the_first_byte(ask):
    async with Twin.start(script(Fault(kind=FaultKind.DROP))) as twin:
        with pytest.raises((anthropic.APIConnectionError, openai.APIConnectionError)) as failed:
            await ask(twin)
    assert "timed out" not in str(failed.value)


@pytest.mark.parametrize("ask", ALL)
async def test_a_cut_answer_ends_in_the_middle(ask):
    async with Twin.start(script(Fault(kind=FaultKind.CUT))) as twin:
        # Anthropic's SDK lets the error of a stream through as its HTTP library raises it.
        with pytest.raises((anthropic.APIConnectionError, openai.APIConnectionError, httpx2.RemoteProtocolError)):
            await ask(twin)
        assert twin.bill_total().output > 0


@pytest.mark.parametrize("ask", ALL)
async def test_a_malformed_answer_is_no_json(ask):
    async with Twin.start(script(Fault(kind=FaultKind.MALFORMED))) as twin:
        with pytest.raises(json.JSONDecodeError):
            await ask(twin)


@pytest.mark.parametrize("ask", ALL)
async def test_an_answer_of_unknown_shape_is_not_noticed_by_the_sdks(ask):
    async with Twin.start(script(Fault(kind=FaultKind.UNKNOWN_SHAPE))) as twin:
        answer = await ask(twin)
    one = answer[0] if isinstance(answer, list) else answer
    assert one.to_dict() == {"type": "surprise", "object": "surprise", "value": 42}


async def test_broken_arguments_of_anthropic_come_as_text():
    async with Twin.start(script(Fault(kind=FaultKind.BROKEN_ARGUMENTS))) as twin:
        message = await anthropic_whole(twin)
        events = await anthropic_stream(twin)
    pieces = [
        e.delta.partial_json for e in events if e.type == "content_block_delta" and e.delta.type == "input_json_delta"
    ]
    assert message.content[-1].input == "".join(pieces) == '{"city":"O'


@pytest.mark.parametrize("ask", [responses_whole, responses_stream, codex_stream])
async def test_broken_arguments_of_responses(ask):
    async with Twin.start(script(Fault(kind=FaultKind.BROKEN_ARGUMENTS))) as twin:
        answer = await ask(twin)
    done = (
        [event.item for event in answer if event.type == "response.output_item.done"]
        if isinstance(answer, list)
        else answer.output
    )
    with pytest.raises(json.JSONDecodeError):
        json.loads(done[-1].arguments)


@pytest.mark.parametrize("ask", [chat_whole, chat_stream])
async def test_broken_arguments_of_chat_completions(ask):
    async with Twin.start(script(Fault(kind=FaultKind.BROKEN_ARGUMENTS))) as twin:
        answer = await ask(twin)
    messages = [chunk.choices[0].delta for chunk in answer] if isinstance(answer, list) else [answer.choices[0].message]
    arguments = "".join(call.function.arguments for message in messages for call in message.tool_calls or [])
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)


async def test_a_model_of_anthropic_that_fails_in_the_middle_raises_a_status_error_with_status_200():
    async with Twin.start(script(Fault(kind=FaultKind.FAILED))) as twin:
        with pytest.raises(anthropic.APIStatusError) as streamed:
            await anthropic_stream(twin)
        with pytest.raises(anthropic.OverloadedError):
            await anthropic_whole(twin)
        assert twin.bill_total().dollars == 0
    assert (streamed.value.status_code, streamed.value.type) == (200, "overloaded_error")


async def test_a_response_can_fail():
    async with Twin.start(script(Fault(kind=FaultKind.FAILED))) as twin:
        response = await responses_whole(twin)
        with pytest.raises(openai.APIError) as streamed:
            await responses_stream(twin)
        with pytest.raises(openai.BadRequestError):
            await openai_of(twin).responses.create(model=GPT, input="go on", previous_response_id=response.id)
    assert (response.status, response.error.code, streamed.value.code) == ("failed", "server_error", "server_error")


async def test_a_completion_can_fail():
    async with Twin.start(script(Fault(kind=FaultKind.FAILED))) as twin:
        with pytest.raises(openai.InternalServerError):
            await chat_whole(twin)
        with pytest.raises(openai.APIError) as streamed:
            await chat_stream(twin)
    assert streamed.value.type == "server_error"


@pytest.mark.parametrize("ask", ALL)
async def test_slow_bytes_arrive_all_the_same(ask):
    answers = []
    for fault in (Fault(kind=FaultKind.SLOW, piece=7, every_ms=0), None):
        async with Twin.start(Script(rules=[Rule(fault=fault, answers=[ANSWER])])) as twin:
            answers.append(await ask(twin))
    slow, quick = answers
    assert [e.to_dict() for e in slow] == [e.to_dict() for e in quick] if isinstance(slow, list) else slow == quick


async def test_a_fault_can_end_after_some_times():
    async with Twin.start(script(Fault(status=529, times=2))) as twin:
        for _ in range(2):
            with pytest.raises(anthropic.OverloadedError):
                await anthropic_whole(twin)
        message = await anthropic_whole(twin)
        outcomes = [call.outcome for call in twin.calls]
    assert message.stop_reason == "tool_use"
    assert outcomes == [Outcome.FAULTED, Outcome.FAULTED, Outcome.ANSWERED]


async def test_a_fault_can_be_injected_into_a_running_twin():
    async with Twin.start(Script(rules=[Rule(answers=[ANSWER])])) as twin:
        twin.fail(Fault(status=500), When(api=ApiName.CHAT))
        twin.fail(Fault(kind=FaultKind.BROKEN_ARGUMENTS))
        message = await anthropic_whole(twin)
        with pytest.raises(openai.InternalServerError):
            await chat_whole(twin)
        again = await chat_whole(twin)
        healthy = await anthropic_whole(twin)
    assert message.content[-1].input == '{"city":"O'
    assert healthy.content[-1].input == {"city": "Oslo"}
    assert again.choices[0].finish_reason == "tool_calls"


async def test_a_client_that_goes_away_leaves_an_abandoned_call():
    slow = Answer(chunks=[Chunk(text="on ", wait_ms=5)] * 200)
    async with Twin.start(Script(rules=[Rule(answers=[slow])])) as twin:
        stream = await anthropic_of(twin).messages.create(
            model=CLAUDE, max_tokens=999, messages=said("hi"), stream=True
        )
        await stream.close()
        for _ in range(500):
            if twin.calls[0].outcome is Outcome.ABANDONED:
                break
            await asyncio.sleep(0.01)
        assert twin.calls[0].outcome is Outcome.ABANDONED


async def test_many_clients_at_once_are_served_at_once():
    waiting = Script(rules=[Rule(answers=[Answer(text="done", wait_ms=200)])])
    async with Twin.start(waiting) as twin:
        client = anthropic_of(twin)
        async with asyncio.timeout(5):
            asked = (client.messages.create(model=CLAUDE, max_tokens=9, messages=said("hi")) for _ in range(50))
            messages = await asyncio.gather(*asked)
    assert {message.stop_reason for message in messages} == {"end_turn"}
    assert len({message.id for message in messages}) == 50
