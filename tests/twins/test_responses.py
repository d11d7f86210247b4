"""OpenAI's Responses API through the official SDK: whole answers, streams, and stored responses."""

from typing import Any

import openai
import pytest

from tests.twins.clients import GPT, WEATHER, openai_of, said
from twins import Answer, Rule, Script, StopReason, ToolCall, Twin, When

TOOL: dict[str, Any] = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}
FREE: dict[str, Any] = {"type": "custom", "name": "apply_patch", "description": "Takes a patch."}
CALLING = Script(
    rules=[
        Rule(
            when=When(pattern="weather"),
            answers=[
                Answer(
                    thinking="A tool knows.", text="I look.", tools=[ToolCall(name="weather", input={"city": "Oslo"})]
                ),
                Answer(text="It is {result}."),
            ],
        ),
        Rule(when=When(pattern="patch"), answers=[Answer(tools=[ToolCall(name="apply_patch", input="*** Begin")])]),
    ]
)


def told(response: Any) -> list[dict[str, Any]]:
    """The output without its ids, and without what the SDK's stream adds to it."""
    hidden = {"id", "call_id", "parsed_arguments"}
    items = [{key: value for key, value in item.to_dict().items() if key not in hidden} for item in response.output]
    for part in (part for item in items for part in item.get("content", [])):
        part.pop("parsed", None)
    return items


async def test_without_a_script_the_newest_user_text_is_echoed():
    async with Twin.start() as twin:
        response = await openai_of(twin).responses.create(model=GPT, instructions="Be brief.", input="Hello, twin!")
    assert (response.output_text, response.status, response.object) == ("Hello, twin!", "completed", "response")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response._request_id == twin.calls[0].request_id
    assert (response.instructions, response.store) == ("Be brief.", True)


async def test_a_stream_adds_up_to_the_whole_answer():
    asked: dict[str, Any] = {"model": GPT, "input": said("weather?"), "tools": [TOOL]}
    async with Twin.start(CALLING) as twin:
        whole = await openai_of(twin).responses.create(**asked)
        async with openai_of(twin).responses.stream(**asked) as stream:
            events = [event async for event in stream]
            streamed = await stream.get_final_response()
    assert [item["type"] for item in told(whole)] == ["reasoning", "message", "function_call"]
    assert told(streamed) == told(whole)
    assert streamed.usage == whole.usage
    assert [event.sequence_number for event in events] == list(range(len(events)))


async def test_the_events_of_a_stream_are_those_of_the_documentation():
    async with Twin.start(CALLING) as twin:
        client = openai_of(twin)
        kinds = [e.type async for e in await client.responses.create(model=GPT, input="weather", stream=True)]
    item, text = "response.output_item", "response.output_text"
    summary, arguments = "response.reasoning_summary", "response.function_call_arguments"
    assert kinds == [
        *("response.created", "response.in_progress"),
        *(f"{item}.added", f"{summary}_part.added", f"{summary}_text.delta", f"{summary}_text.done"),
        *(f"{summary}_part.done", f"{item}.done"),
        *(f"{item}.added", "response.content_part.added", f"{text}.delta", f"{text}.delta", f"{text}.done"),
        *("response.content_part.done", f"{item}.done"),
        *(f"{item}.added", f"{arguments}.delta", f"{arguments}.done", f"{item}.done"),
        "response.completed",
    ]


async def test_a_conversation_goes_on_from_a_stored_response():
    async with Twin.start(CALLING) as twin:
        client = openai_of(twin)
        first = await client.responses.create(model=GPT, input="weather?", tools=[TOOL])
        output = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain"}
        second = await client.responses.create(model=GPT, previous_response_id=first.id, input=[output], tools=[TOOL])
        again = await client.responses.retrieve(first.id)
    assert second.output_text == "It is rain."
    assert second.previous_response_id == first.id
    assert again.to_dict() == first.to_dict()


async def test_replaying_the_conversation_costs_the_same_as_going_on_from_a_stored_response():
    async with Twin.start(CALLING) as twin:
        client = openai_of(twin)
        history = said("weather?")
        first = await client.responses.create(model=GPT, input=history, tools=[TOOL])
        output = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain"}
        await client.responses.create(model=GPT, previous_response_id=first.id, input=[output], tools=[TOOL])
        replayed = [*history, *(item.to_dict() for item in first.output), output]
        await client.responses.create(model=GPT, input=replayed, tools=[TOOL])
        _, continued, whole = (call.bill for call in twin.calls)
    assert continued == whole


@pytest.mark.parametrize("unknown", ["resp_unknown", "unstored", "of another key"])
async def test_a_response_that_is_not_stored_cannot_be_continued(unknown):
    async with Twin.start() as twin:
        key = "twin-other" if unknown == "of another key" else "twin-test"
        other = openai_of(twin, key=key).responses
        response = await other.create(model=GPT, input="hi", store=unknown != "unstored")
        previous = unknown if unknown == "resp_unknown" else response.id
        with pytest.raises(openai.BadRequestError) as refused:
            await openai_of(twin).responses.create(model=GPT, input="go on", previous_response_id=previous)
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


async def test_a_tool_can_take_free_text():
    async with Twin.start(CALLING) as twin:
        client = openai_of(twin)
        whole = await client.responses.create(model=GPT, input="patch it", tools=[FREE])
        stream = await client.responses.create(model=GPT, input="patch it", tools=[FREE], stream=True)
        events = [event async for event in stream]
        call_id = whole.output[0].call_id
        output = {"type": "custom_tool_call_output", "call_id": call_id, "output": "done"}
        after = await client.responses.create(model=GPT, previous_response_id=whole.id, input=[output])
    assert told(whole) == [
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "status": "completed"}
    ]
    deltas = [event.delta for event in events if event.type == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == "*** Begin"
    assert after.status == "completed"


@pytest.mark.parametrize(
    ("stop", "reason"), [(StopReason.MAX_TOKENS, "max_output_tokens"), (StopReason.REFUSAL, "content_filter")]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_can_be_incomplete(stop, reason, stream):
    async with Twin.start(Script(rules=[Rule(answers=[Answer(text="half", stop=stop)])])) as twin:
        client = openai_of(twin)
        if stream:
            events = [event async for event in await client.responses.create(model=GPT, input="hi", stream=True)]
            assert events[-1].type == "response.incomplete"
            response = events[-1].response
        else:
            response = await client.responses.create(model=GPT, input="hi")
    assert response.incomplete_details is not None
    assert (response.status, response.incomplete_details.reason) == ("incomplete", reason)


async def test_an_answer_is_cut_at_max_output_tokens():
    async with Twin.start() as twin:
        client = openai_of(twin)
        response = await client.responses.create(model=GPT, input="apple " * 40, max_output_tokens=16)
    assert response.status == "incomplete"
    assert response.usage is not None
    assert response.usage.output_tokens == 16


async def test_thinking_comes_back_sealed_when_nothing_is_stored():
    async with Twin.start(CALLING) as twin:
        client = openai_of(twin)
        first = await client.responses.create(
            model=GPT, input="weather", store=False, include=["reasoning.encrypted_content"]
        )
        items = [item.to_dict() for item in first.output]
        output = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "rain"}
        second = await client.responses.create(model=GPT, input=[*said("weather"), *items, output], store=False)
    assert bool(first.output[0].encrypted_content)
    assert second.output_text == "It is rain."


async def test_an_answer_may_keep_silent_about_its_tokens():
    async with Twin.start(Script(rules=[Rule(answers=[Answer(text="hi", usage=False)])])) as twin:
        response = await openai_of(twin).responses.create(model=GPT, input="hi")
        assert twin.bill_total().input > 0
    assert response.usage is None


async def test_the_models_can_be_listed():
    async with Twin.start() as twin:
        names = [model.id async for model in openai_of(twin).models.list()]
    assert GPT in names
    assert not [name for name in names if name.startswith("claude")]
