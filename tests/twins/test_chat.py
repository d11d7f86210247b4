"""Chat Completions through the official SDK: OpenAI's own, and a compatible provider with habits of its own."""

from typing import Any

import openai
import pytest

from tests.twins.clients import GPT, WEATHER, openai_of, said
from twins import Answer, Fault, Quirk, Rule, Script, StopReason, ToolCall, Twin, When

TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
FREE: Any = [{"type": "custom", "custom": {"name": "apply_patch"}}]
CALLING = [
    Rule(
        when=When(pattern="weather"),
        answers=[
            Answer(thinking="A tool knows.", text="I look.", tools=[ToolCall(name="weather", input={"city": "Oslo"})]),
            Answer(text="It is {result}."),
        ],
    ),
    Rule(when=When(pattern="patch"), answers=[Answer(tools=[ToolCall(name="apply_patch", input="*** Begin")])]),
]


def compatible_of(twin: Twin) -> Any:
    return openai_of(twin, base_url=twin.compatible_url)


async def chunks_of(client: Any, **request: Any) -> list[Any]:
    request = {"model": GPT, "messages": said("weather?"), "stream": True, **request}
    return [chunk async for chunk in await client.chat.completions.create(**request)]


async def test_without_a_script_the_newest_user_text_is_echoed():
    async with Twin.start() as twin:
        completion = await openai_of(twin).chat.completions.create(model=GPT, messages=said("Hello, twin!"))
    choice = completion.choices[0]
    assert (choice.message.content, choice.finish_reason, choice.message.tool_calls) == ("Hello, twin!", "stop", None)
    assert completion._request_id == twin.calls[0].request_id


async def test_a_stream_adds_up_to_the_whole_answer():
    async with Twin.start(Script(rules=CALLING)) as twin:
        client = openai_of(twin)
        whole = await client.chat.completions.create(model=GPT, messages=said("weather?"), tools=TOOLS)
        chunks = await chunks_of(client, tools=TOOLS, stream_options={"include_usage": True})
    *parts, last, counted = chunks
    assert (
        "".join(part.choices[0].delta.content or "" for part in parts) == whole.choices[0].message.content == "I look."
    )
    calls = [call for part in parts for call in part.choices[0].delta.tool_calls or []]
    assert (calls[0].function.name, calls[0].index, bool(calls[0].id)) == ("weather", 0, True)
    assert "".join(call.function.arguments for call in calls) == '{"city":"Oslo"}'
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason == "tool_calls"
    assert (counted.choices, counted.usage) == ([], whole.usage)
    assert {part.usage for part in parts} == {None}


async def test_a_stream_tells_its_tokens_only_if_it_is_asked():
    async with Twin.start() as twin:
        chunks = await chunks_of(openai_of(twin))
        assert twin.bill_total().input > 0
    assert {chunk.usage for chunk in chunks} == {None}
    assert all(chunk.choices for chunk in chunks)


async def test_a_round_of_tools_goes_its_whole_way():
    async with Twin.start(Script(rules=CALLING)) as twin:
        client = openai_of(twin)
        first = await client.chat.completions.create(model=GPT, messages=said("weather?"), tools=TOOLS)
        message = first.choices[0].message
        assert message.tool_calls is not None
        result: Any = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}
        history: Any = [*said("weather?"), message.to_dict(), result]
        second = await client.chat.completions.create(model=GPT, messages=history, tools=TOOLS)
    assert second.choices[0].message.content == "It is rain."


async def test_a_tool_can_take_free_text():
    async with Twin.start(Script(rules=CALLING)) as twin:
        completion = await openai_of(twin).chat.completions.create(model=GPT, messages=said("patch"), tools=FREE)
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].to_dict() == {
        "id": calls[0].id,
        "type": "custom",
        "custom": {"name": "apply_patch", "input": "*** Begin"},
    }


@pytest.mark.parametrize(
    ("stop", "finish"), [(StopReason.MAX_TOKENS, "length"), (StopReason.REFUSAL, "content_filter")]
)
async def test_a_script_can_say_why_the_model_stops(stop, finish):
    async with Twin.start(Script(rules=[Rule(answers=[Answer(text="half", stop=stop)])])) as twin:
        completion = await openai_of(twin).chat.completions.create(model=GPT, messages=said("hi"))
    assert completion.choices[0].finish_reason == finish


async def test_limits_of_the_request_are_kept():
    async with Twin.start() as twin:
        create = openai_of(twin).chat.completions.create
        short = await create(model=GPT, messages=said("one two three four"), max_completion_tokens=2)
        stopped = await create(model=GPT, messages=said("one STOP two"), stop="STOP")
    assert (short.choices[0].message.content, short.choices[0].finish_reason) == ("one two", "length")
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("one ", "stop")


async def test_a_compatible_provider_takes_any_model_and_ignores_what_it_does_not_know():
    async with Twin.start() as twin:
        completion = await compatible_of(twin).chat.completions.create(
            model="qwen3-coder", messages=said("hi"), max_tokens=9, extra_body={"holons": 1}
        )
        assert twin.bill_total().dollars == 0
    assert completion.choices[0].message.content == "hi"


async def quirky(quirk: Quirk, **request: Any) -> tuple[Any, list[Any]]:
    """A whole answer and a stream of a provider with one habit."""
    async with Twin.start(Script(rules=CALLING, quirks=[quirk])) as twin:
        client = compatible_of(twin)
        whole = await client.chat.completions.create(model=GPT, messages=said("weather?"), **request)
        return whole, await chunks_of(client, stream_options={"include_usage": True}, **request)


async def test_quirk_no_usage():
    whole, chunks = await quirky(Quirk.NO_USAGE)
    assert (whole.usage, {chunk.usage for chunk in chunks}) == (None, {None})


async def test_quirk_reasoning_content():
    whole, chunks = await quirky(Quirk.REASONING_CONTENT)
    assert whole.choices[0].message.reasoning_content == "A tool knows."
    thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk in chunks if chunk.choices]
    assert "".join(thoughts) == "A tool knows."


async def test_quirk_whole_tool_calls():
    _, chunks = await quirky(Quirk.WHOLE_TOOL_CALLS)
    calls = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or []]
    assert [call.function.arguments for call in calls] == ['{"city":"Oslo"}']


async def test_quirk_no_call_ids():
    whole, chunks = await quirky(Quirk.NO_CALL_IDS)
    calls = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or []]
    assert whole.choices[0].message.tool_calls[0].id is None
    assert {call.id for call in calls} == {None}


async def test_quirk_stop_despite_tools():
    whole, chunks = await quirky(Quirk.STOP_DESPITE_TOOLS)
    finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert (whole.choices[0].finish_reason, finishes[-1]) == ("stop", "stop")
    assert bool(whole.choices[0].message.tool_calls)


@pytest.mark.parametrize(("quirk", "line"), [(Quirk.NO_DONE, "data: [DONE]"), (Quirk.COMMENTS, ": PROCESSING")])
async def test_quirks_of_the_stream_itself(quirk, line):
    texts = []
    for quirks in ([], [quirk]):
        async with Twin.start(Script(quirks=quirks)) as twin:
            client = compatible_of(twin)
            create = client.chat.completions.with_streaming_response.create
            async with create(model=GPT, messages=said("hi"), stream=True) as response:
                texts.append((await response.text()).split("\n"))
            assert len(await chunks_of(client)) > 1  # the SDK copes with it
    without, with_quirk = texts
    assert (line in without) != (line in with_quirk)


async def test_quirk_plain_errors():
    rules = [Rule(fault=Fault(status=429))]
    async with Twin.start(Script(rules=rules, quirks=[Quirk.PLAIN_ERRORS])) as twin:
        with pytest.raises(openai.RateLimitError) as refused:
            await compatible_of(twin).chat.completions.create(model=GPT, messages=said("hi"))
    body: Any = refused.value.body
    assert (body.keys(), body["code"]) == ({"message", "code"}, 429)
