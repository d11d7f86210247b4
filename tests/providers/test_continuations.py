"""Responses that send only what is new, and when they send everything instead."""

from contextlib import AsyncExitStack

import msgspec
import pytest

from holon.core.conversation import AssistantBlocks, ConversationItem, UserText
from holon.core.prompts import PromptCache, PromptFrame
from holon.providers.continuations import KEPT, Continuations
from holon.providers.contract import FailureKind, ProviderFailure, ProviderResponse, ToolSpec
from tests.providers.wires import CACHE, FRAME, RESPONSES, RESPONSES_STREAM, WEATHER, billed, results, text_said
from twins import Answer, Fault, Rule, Script, ToolCall, Twin, When

SCRIPT = Script(
    rules=[
        Rule(
            when=When(pattern="Bern"),
            answers=[
                Answer(thinking="A tool knows.", text="I look.", tools=[ToolCall(name="Weather", id="call_1")]),
                Answer(text="It is {result}."),
            ],
        )
    ]
)
ONE, TWO, THREE = ([{"type": "message", "content": n}] for n in (1, 2, 3))
QUESTION = UserText(text="How is Bern?")


def after(answer: ProviderResponse) -> list[ConversationItem]:
    return [QUESTION, AssistantBlocks(blocks=answer.blocks), results(call_1="sunny")]


def mode(answer: ProviderResponse) -> str:
    assert answer.request_diagnostics is not None
    return str(answer.request_diagnostics["request_mode"])


@pytest.mark.spec("RT-214", "RT-215")
@pytest.mark.parametrize("wire", [RESPONSES, RESPONSES_STREAM], ids=lambda wire: wire.id)
async def test_a_request_that_extends_the_last_exchange_sends_only_what_is_new(wire):
    async with Twin.start(SCRIPT) as twin, wire.open(twin, incremental=True) as provider:
        first = await provider.respond(wire.asking(QUESTION))
        second = await provider.respond(wire.asking(*after(first), round=2))
        third = await provider.respond(
            wire.asking(*after(first), AssistantBlocks(blocks=second.blocks), "Thanks", round=1)
        )
        whole, new, newest = (call.request for call in twin.calls)
    assert (mode(first), mode(second), mode(third)) == ("full", "incremental", "incremental")
    assert whole["prompt_cache_key"] == new["prompt_cache_key"] == CACHE.prompt_cache_key
    assert "previous_response_id" not in whole
    assert new["previous_response_id"] == first.response_id
    assert new["input"] == [{"type": "function_call_output", "call_id": "call_1", "output": "sunny"}]
    assert {**new, "input": 0, "previous_response_id": 0} == {**whole, "input": 0, "previous_response_id": 0}
    assert newest["previous_response_id"] == second.response_id
    assert newest["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks"}]}
    ]
    assert text_said(second) == "It is sunny."


async def test_the_model_sees_the_same_prompt_either_way():
    tokens = []
    for incremental in (True, False):
        async with Twin.start() as twin, RESPONSES.open(twin, incremental=incremental) as provider:
            first = await provider.respond(RESPONSES.asking("one"))
            await provider.respond(RESPONSES.asking("one", AssistantBlocks(blocks=first.blocks), "two"))
            tokens.append(billed(twin.calls[-1]).input)
    assert tokens[0] == tokens[1]


OTHER_KEY = msgspec.structs.replace(
    FRAME, cache=PromptCache(agent_id="main", prompt_cache_key="main:ctx:other", context_fingerprint="x")
)
OTHER_AGENT = msgspec.structs.replace(
    FRAME,
    cache=PromptCache(agent_id="bob", prompt_cache_key=CACHE.prompt_cache_key, context_fingerprint="x"),
)
OTHER_TEXT = msgspec.structs.replace(FRAME, context_blocks=[])
OTHER_TOOL = ToolSpec(name="Zoo", description="", input_schema=WEATHER.input_schema)


@pytest.mark.spec("RT-216")
@pytest.mark.parametrize(
    "fields",
    [
        {"frame": PromptFrame(system_blocks=FRAME.system_blocks, context_blocks=FRAME.context_blocks)},
        {"frame": OTHER_KEY},
        {"frame": OTHER_AGENT},
        {"frame": OTHER_TEXT},
        {"tools": [WEATHER, OTHER_TOOL]},
    ],
    ids=["no cache scope", "another key", "another agent", "another prompt", "another tool schema"],
)
async def test_where_scope_prompt_or_tools_differ_the_request_is_whole(fields):
    async with Twin.start(SCRIPT) as twin, RESPONSES.open(twin, incremental=True) as provider:
        first = await provider.respond(RESPONSES.asking(QUESTION))
        second = await provider.respond(RESPONSES.asking(*after(first), **fields))
        request = twin.calls[-1].request
    assert mode(second) == "full"
    assert "previous_response_id" not in request
    assert [item["type"] for item in request["input"]] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]


@pytest.mark.spec("RT-216")
async def test_a_conversation_that_was_compacted_or_has_nothing_new_is_sent_whole():
    async with Twin.start(SCRIPT) as twin, RESPONSES.open(twin, incremental=True) as provider:
        first = await provider.respond(RESPONSES.asking(QUESTION))
        again = await provider.respond(RESPONSES.asking(QUESTION))
        compacted = await provider.respond(RESPONSES.asking("In short: Bern was asked for.", "And now?"))
    assert (mode(first), mode(again), mode(compacted)) == ("full", "full", "full")


@pytest.mark.spec("RT-216")
async def test_after_an_error_the_next_request_is_whole():
    async with Twin.start(SCRIPT) as twin, RESPONSES.open(twin, incremental=True) as provider:
        first = await provider.respond(RESPONSES.asking(QUESTION))
        twin.fail(Fault(status=500))
        with pytest.raises(ProviderFailure) as failed:
            await provider.respond(RESPONSES.asking(*after(first)))
        second = await provider.respond(RESPONSES.asking(*after(first)))
    assert failed.value.kind is FailureKind.SERVER_ERROR
    assert mode(second) == "full"


@pytest.mark.spec("RT-216", "RT-219")
async def test_a_service_that_has_forgotten_gets_the_whole_request_in_the_same_attempt():
    async with AsyncExitStack() as stack:
        async with Twin.start(SCRIPT) as twin:
            provider = await stack.enter_async_context(RESPONSES.open(twin, incremental=True))
            first = await provider.respond(RESPONSES.asking(QUESTION))
        async with Twin.start(SCRIPT, port=twin.port) as forgetful:
            second = await provider.respond(RESPONSES.asking(*after(first)))
            refused, whole = forgetful.calls
    assert refused.status == 400
    assert refused.request["previous_response_id"] == first.response_id
    assert "previous_response_id" not in whole.request
    assert mode(second) == "full_after_refusal"
    assert text_said(second) == "It is sunny."


@pytest.mark.spec("RT-219")
async def test_without_what_was_remembered_the_next_request_still_works():
    async with Twin.start(SCRIPT) as twin:
        async with RESPONSES.open(twin, incremental=True) as provider:
            first = await provider.respond(RESPONSES.asking(QUESTION))
        async with RESPONSES.open(twin, incremental=True) as restarted:
            second = await restarted.respond(RESPONSES.asking(*after(first)))
    assert mode(second) == "full"
    assert text_said(second) == "It is sunny."


async def test_a_service_that_is_not_openais_own_stores_nothing_unless_asked():
    async with Twin.start(SCRIPT) as twin, RESPONSES.open(twin) as provider:
        await provider.respond(RESPONSES.asking(QUESTION))
        assert twin.calls[0].request["store"] is False


def test_what_is_remembered_is_bounded():
    known = Continuations()
    for number in range(KEPT + 10):
        known.remember(("a", str(number), "m"), {"input": ONE}, TWO, "resp_1")
    assert known.narrowed(("a", "9", "m"), {"input": [*ONE, *TWO, *THREE]}) is None
    assert known.narrowed(("a", "10", "m"), {"input": [*ONE, *TWO, *THREE]}) == {
        "input": THREE,
        "previous_response_id": "resp_1",
    }


def test_a_service_that_stores_nothing_is_soon_asked_no_more():
    known = Continuations()
    known.remember(("a", "k", "m"), {"input": ONE}, TWO, "resp_1")
    for taken in (False, False, True, False, False):
        known.taken(taken)
    assert known.narrowed(("a", "k", "m"), {"input": [*ONE, *TWO, *THREE]}) is not None
    known.taken(False)
    assert known.narrowed(("a", "k", "m"), {"input": [*ONE, *TWO, *THREE]}) is None


@pytest.mark.spec("RT-216")
def test_an_answer_without_an_id_is_not_built_upon():
    known = Continuations()
    known.remember(("a", "k", "m"), {"input": ONE}, TWO, "resp_1")
    known.remember(("a", "k", "m"), {"input": ONE}, TWO, None)
    assert known.narrowed(("a", "k", "m"), {"input": [*ONE, *TWO, *THREE]}) is None
