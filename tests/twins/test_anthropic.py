"""Anthropic's Messages API through the official SDK: whole answers and streams."""

import anthropic
import pytest

from tests.twins.clients import CLAUDE, WEATHER, anthropic_of, said
from twins import Answer, Chunk, Rule, Script, StopReason, ToolCall, Twin, When

TOOLS = [{"name": "weather", "description": "The weather of a city.", "input_schema": WEATHER}]
CALLING = Script(
    rules=[
        Rule(
            when=When(pattern=r"weather in (?P<city>\w+)"),
            answers=[
                Answer(
                    thinking="A tool knows.",
                    text="I look it up.",
                    tools=[ToolCall(name="weather", input={"city": "{city}"}), ToolCall(name="weather")],
                ),
                Answer(text="It is {result}."),
            ],
        )
    ]
)


async def test_without_a_script_the_newest_user_text_is_echoed():
    async with Twin.start() as twin:
        message = await anthropic_of(twin).messages.create(model=CLAUDE, max_tokens=99, messages=said("Hello, twin!"))
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "Hello, twin!"}]
    assert (message.role, message.stop_reason, message.model) == ("assistant", "end_turn", CLAUDE)
    assert message.id.startswith("msg_")
    assert message._request_id == twin.calls[0].request_id


async def test_a_stream_adds_up_to_the_whole_answer():
    asked = {"model": CLAUDE, "max_tokens": 99, "tools": TOOLS, "messages": said("weather in Oslo?")}
    async with Twin.start(CALLING) as twin:
        whole = await anthropic_of(twin).messages.create(**asked)
        async with anthropic_of(twin).messages.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            streamed = await stream.get_final_message()

    def told(message: anthropic.types.Message) -> list[dict[str, object]]:
        return [{**block.to_dict(), "id": None} for block in message.content]

    assert told(streamed) == told(whole)
    assert (streamed.stop_reason, streamed.usage) == (whole.stop_reason, whole.usage)
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert {"thinking", "text", "input_json", "signature"} <= set(kinds)


async def test_the_events_of_a_stream_are_those_of_the_documentation():
    async with Twin.start(Script(rules=[Rule(answers=[Answer(chunks=["Hel", "lo"])])])) as twin:
        client = anthropic_of(twin)
        response = await client.messages.with_raw_response.create(
            model=CLAUDE, max_tokens=9, messages=said("hi"), stream=True
        )
        events = [sse async for sse in anthropic.AsyncStream.raw_events(response.http_response)]
    assert response.http_response.headers["content-type"].startswith("text/event-stream")
    assert [event.event for event in events] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert all(event.json()["type"] == event.event for event in events)
    assert events[3].json()["delta"] == {"type": "text_delta", "text": "Hel"}
    assert events[6].json()["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


async def test_a_round_of_tools_goes_its_whole_way():
    async with Twin.start(CALLING) as twin:
        client = anthropic_of(twin)
        history = said("weather in Oslo?")
        first = await client.messages.create(model=CLAUDE, max_tokens=99, tools=TOOLS, messages=history)
        calls = [block for block in first.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"} for call in calls]
        history = [*history, first.to_param(), {"role": "user", "content": results}]
        second = await client.messages.create(model=CLAUDE, max_tokens=99, tools=TOOLS, messages=history)
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert (first.stop_reason, calls[0].input, calls[1].input) == ("tool_use", {"city": "Oslo"}, {})
    assert calls[0].id != calls[1].id
    assert second.content[0].to_dict() == {"type": "text", "text": "It is rain\nrain."}


@pytest.mark.parametrize("stop", [StopReason.MAX_TOKENS, StopReason.REFUSAL])
async def test_a_script_can_say_why_the_model_stops(stop):
    async with Twin.start(Script(rules=[Rule(answers=[Answer(text="half", stop=stop)])])) as twin:
        client = anthropic_of(twin)
        message = await client.messages.create(model=CLAUDE, max_tokens=99, messages=said("hi"))
    assert message.stop_reason == stop


async def test_an_answer_is_cut_at_max_tokens():
    async with Twin.start() as twin:
        client = anthropic_of(twin)
        message = await client.messages.create(model=CLAUDE, max_tokens=3, messages=said("one two three four five"))
    assert message.content[0].to_dict() == {"type": "text", "text": "one two three"}
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 3)


async def test_an_answer_ends_before_a_stop_sequence():
    async with Twin.start() as twin:
        client = anthropic_of(twin)
        message = await client.messages.create(
            model=CLAUDE, max_tokens=99, messages=said("one STOP two"), stop_sequences=["STOP"]
        )
    assert message.content[0].to_dict() == {"type": "text", "text": "one "}
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "STOP")


async def test_max_tokens_of_zero_only_warms_the_cache():
    async with Twin.start() as twin:
        client = anthropic_of(twin)
        message = await client.messages.create(model=CLAUDE, max_tokens=0, messages=said("hi"))
    assert (message.content, message.usage.output_tokens) == ([], 0)


async def test_an_answer_may_come_late_and_in_pieces():
    chunks: list[Chunk | str] = [Chunk(text="slowly "), Chunk(text="but surely", wait_ms=30)]
    async with (
        Twin.start(Script(rules=[Rule(answers=[Answer(chunks=chunks, wait_ms=30)])])) as twin,
        anthropic_of(twin).messages.stream(model=CLAUDE, max_tokens=99, messages=said("hi")) as stream,
    ):
        texts = [text async for text in stream.text_stream]
    assert texts == ["slowly ", "but surely"]


async def test_tokens_can_be_counted_before_they_are_paid_for():
    asked = {"model": CLAUDE, "messages": said("How many?"), "system": "Count.", "tools": TOOLS}
    async with Twin.start() as twin:
        client = anthropic_of(twin)
        counted = await client.messages.count_tokens(**asked)
        message = await client.messages.create(**asked, max_tokens=9)
    assert counted.input_tokens == message.usage.input_tokens
    assert len(twin.calls) == 1


async def test_the_models_can_be_listed():
    async with Twin.start() as twin:
        names = [model.id async for model in anthropic_of(twin).models.list()]
    assert CLAUDE in names
    assert not [name for name in names if name.startswith("gpt")]


async def test_a_bearer_token_is_as_good_as_a_key():
    async with Twin.start() as twin:
        client = anthropic.AsyncAnthropic(base_url=twin.anthropic_url, auth_token="twin-token", max_retries=0)
        message = await client.messages.create(model=CLAUDE, max_tokens=9, messages=said("hi"))
    assert message.stop_reason == "end_turn"


async def test_an_answer_may_keep_silent_about_its_tokens_but_the_bill_does_not():
    async with Twin.start(Script(rules=[Rule(answers=[Answer(text="hi", usage=False)])])) as twin:
        client = anthropic_of(twin)
        message = await client.messages.create(model=CLAUDE, max_tokens=9, messages=said("hi"))
        bill = twin.calls[0].bill
    assert (message.usage.input_tokens, message.usage.output_tokens) == (0, 0)
    assert bill is not None
    assert bill.fresh > 0
