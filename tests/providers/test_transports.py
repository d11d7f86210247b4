"""Every wire, through its official SDK and a twin: text, thinking, tools, stops, usage, progress, and replay."""

import asyncio
import subprocess
import sys
from typing import cast

import pytest

from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResults,
    ToolUseBlock,
    tool_uses,
)
from holon.core.usage import InputBuckets
from holon.providers.contract import INVALID_ARGUMENTS, Freeform, StopReason, ToolSpec
from holon.providers.options import ContextManagement
from holon.providers.schemas import SchemaMode
from holon.tools.envelope import ToolFailure
from holon.tools.registry import CallContext, ToolRegistry
from holon.tools.rest import SLEEP
from tests.providers.wires import (
    ANTHROPIC,
    ANTHROPIC_STREAM,
    CHAT,
    CHAT_STREAM,
    CODEX,
    COMPATIBLE,
    COMPATIBLE_STREAM,
    RESPONSES,
    RESPONSES_STREAM,
    WIRES,
    Wire,
    billed,
    call,
    results,
    until,
)
from twins import Answer, Chunk, CodexOutput, Fault, FaultKind, Quirk, Rule, Script, ToolCall, Twin, When
from twins import StopReason as Stop

WEATHER_SCRIPT = Script(
    rules=[
        Rule(
            when=When(pattern=r"weather in (?P<city>\w+)"),
            answers=[
                Answer(
                    thinking="A tool knows.",
                    text="I look it up.",
                    tools=[
                        ToolCall(name="Weather", input={"city": "{city}"}, id="call_1"),
                        ToolCall(name="Weather", input={"city": "Zug", "days": 2}, id="call_2"),
                    ],
                ),
                Answer(text="It is {result}."),
            ],
        )
    ]
)
every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.id)


@every_wire
async def test_a_text_comes_back_as_a_text(wire):
    async with Twin.start() as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("Hello, twin!"))
        (asked,) = twin.calls
    assert answer.blocks == [TextBlock(text="Hello, twin!")]
    assert answer.stop_reason is StopReason.END_TURN
    assert asked.model == wire.model
    assert answer.usage is not None
    assert answer.usage.input_tokens == billed(asked).input
    assert answer.usage.output_tokens == billed(asked).output
    assert answer.response_id


@every_wire
async def test_tool_calls_come_in_order_and_their_results_are_understood(wire):
    async with Twin.start(WEATHER_SCRIPT) as twin, wire.open(twin) as provider:
        first = await provider.respond(wire.asking("weather in Bern"))
        conversation: list[ConversationItem] = [
            AssistantBlocks(blocks=first.blocks),
            ToolResults(
                results=[
                    ToolResultBlock(tool_use_id="call_1", content="sunny"),
                    ToolResultBlock(tool_use_id="call_2", content="foggy", is_error=True),
                ]
            ),
        ]
        second = await provider.respond(wire.asking("weather in Bern", *conversation, round=2))
    assert [block for block in first.blocks if not isinstance(block, ThinkingBlock)] == [
        TextBlock(text="I look it up."),
        ToolUseBlock(id="call_1", name="Weather", input={"city": "Bern"}),
        ToolUseBlock(id="call_2", name="Weather", input={"city": "Zug", "days": 2}),
    ]
    assert first.stop_reason is StopReason.TOOL_USE
    assert second.blocks == [TextBlock(text="It is sunny\nfoggy.")]


@pytest.mark.parametrize("wire", [ANTHROPIC, ANTHROPIC_STREAM, RESPONSES, RESPONSES_STREAM, CODEX], ids=lambda w: w.id)
async def test_thinking_comes_as_a_block_in_front(wire):
    async with Twin.start(WEATHER_SCRIPT) as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("weather in Bern"))
    thought = answer.blocks[0]
    assert isinstance(thought, ThinkingBlock)
    assert thought.text == "A tool knows."


@pytest.mark.parametrize("wire", [ANTHROPIC, ANTHROPIC_STREAM], ids=lambda w: w.id)
async def test_the_service_takes_its_signed_thinking_back(wire):
    """The twin refuses a thinking block whose signature does not fit its words."""
    options = {"thinking": "enabled", "thinking_budget_tokens": 1024}
    async with Twin.start(WEATHER_SCRIPT) as twin, wire.open(twin, **options) as provider:
        first = await provider.respond(wire.asking("weather in Bern"))
        came = results(call_1="sunny", call_2="foggy")
        second = await provider.respond(wire.asking("weather in Bern", AssistantBlocks(blocks=first.blocks), came))
        assert twin.calls[-1].request["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert second.stop_reason is StopReason.END_TURN


async def test_the_service_takes_its_sealed_reasoning_back():
    async with Twin.start(WEATHER_SCRIPT) as twin, RESPONSES.open(twin, encrypted_reasoning=True) as provider:
        first = await provider.respond(RESPONSES.asking("weather in Bern"))
        came = results(call_1="sunny", call_2="foggy")
        await provider.respond(RESPONSES.asking("weather in Bern", AssistantBlocks(blocks=first.blocks), came))
        sealed = twin.calls[0].response["output"][0]
        assert twin.calls[1].request["input"][1] == {
            name: sealed[name] for name in ("type", "id", "summary", "encrypted_content")
        }


@pytest.mark.parametrize("wire", [w for w in WIRES if w.streams], ids=lambda w: w.id)
async def test_a_stream_tells_its_pieces_and_comes_to_the_same_blocks(wire):
    script = Script(rules=[Rule(answers=[Answer(chunks=["One ", "two ", Chunk(text="three.", wait_ms=1)])])])
    heard: list[str] = []
    async with Twin.start(script) as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("count"), lambda piece: heard.append(piece.text))
    assert heard == ["One ", "two ", "three."]
    assert answer.blocks == [TextBlock(text="One two three.")]


@every_wire
@pytest.mark.parametrize(
    ("said", "understood"),
    [
        (Answer(text="cut short", stop=Stop.MAX_TOKENS), StopReason.MAX_OUTPUT_TOKENS),
        (Answer(text="I may not", stop=Stop.REFUSAL), StopReason.REFUSAL),
    ],
    ids=["output limit", "refusal"],
)
async def test_why_the_model_stopped_is_understood(wire, said, understood):
    async with Twin.start(Script(rules=[Rule(answers=[said])])) as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("go"))
    assert answer.stop_reason is understood
    assert answer.blocks == [TextBlock(text=said.text)]


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire is not CODEX], ids=lambda w: w.id)
async def test_the_limit_of_the_answer_is_sent_and_kept(wire):
    async with Twin.start() as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("word " * 100, max_output_tokens=20))
    assert answer.stop_reason is StopReason.MAX_OUTPUT_TOKENS
    assert answer.usage is not None
    assert answer.usage.output_tokens <= 20


@pytest.mark.spec("RT-194")
@pytest.mark.parametrize("wire", [RESPONSES, CODEX, COMPATIBLE, COMPATIBLE_STREAM], ids=lambda w: w.id)
async def test_an_answer_without_usage_is_an_answer(wire):
    script = Script(rules=[Rule(answers=[Answer(text="hi", usage=False)])], quirks=[Quirk.NO_USAGE])
    async with Twin.start(script) as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("go"))
    assert answer.blocks == [TextBlock(text="hi")]
    assert (answer.usage, answer.buckets) == (None, None)


@pytest.mark.spec("RT-163", "RT-164", "RT-165", "RT-169")
@pytest.mark.parametrize(
    ("wire", "path", "stream"),
    [
        (RESPONSES, "/v1/responses", None),
        (ANTHROPIC, "/v1/messages", None),
        (CODEX, "/backend-api/codex/responses", True),
        (CHAT, "/v1/chat/completions", None),
    ],
    ids=["responses", "anthropic", "codex", "chat"],
)
async def test_one_round_is_one_request_of_the_wires_own_kind(wire, path, stream):
    async with Twin.start() as twin, wire.open(twin) as provider:
        await provider.respond(wire.asking("hello"))
        (asked,) = twin.calls
    assert (asked.path, asked.request.get("stream")) == (path, stream)


@pytest.mark.spec("RT-165", "RT-166", "RT-167")
@pytest.mark.parametrize("told", list(CodexOutput))
async def test_codex_output_is_rebuilt_where_the_last_event_does_not_tell_it(told):
    script = Script(rules=WEATHER_SCRIPT.rules, codex_output=told)
    async with Twin.start(script) as twin, CODEX.open(twin) as codex, RESPONSES.open(twin) as plain:
        streamed = await codex.respond(CODEX.asking("weather in Bern"))
        whole = await plain.respond(RESPONSES.asking("weather in Bern"))
        request = twin.calls[0].request
    assert streamed.blocks == whole.blocks
    assert streamed.stop_reason == whole.stop_reason
    assert "max_output_tokens" not in request
    assert (request["reasoning"], request["include"]) == (None, [])


@every_wire
async def test_arguments_that_are_no_json_reach_the_runtime_and_may_be_sent_again(wire):
    async with Twin.start(WEATHER_SCRIPT) as twin, wire.open(twin) as provider:
        twin.fail(Fault(kind=FaultKind.BROKEN_ARGUMENTS))
        first = await provider.respond(wire.asking("weather in Bern"))
        broken = tool_uses(first.blocks)[-1]
        again = await provider.respond(
            wire.asking("weather in Bern", AssistantBlocks(blocks=first.blocks), results(call_1="a", call_2="no"))
        )
    assert list(broken.input) == [INVALID_ARGUMENTS]
    assert broken.input[INVALID_ARGUMENTS].startswith('{"')
    assert again.blocks == [TextBlock(text="It is a\nno.")]


async def test_the_model_is_told_that_its_arguments_were_no_json():
    broken = {INVALID_ARGUMENTS: '{"reason": "re'}
    with pytest.raises(ToolFailure) as failed:
        await ToolRegistry.of([SLEEP]).call("Sleep", broken, cast(CallContext, None))
    assert failed.value.error.kind == "invalid_tool_input"


@every_wire
async def test_a_conversation_that_other_services_wrote_is_taken(wire):
    sealed_elsewhere = "openai-reasoning:rs_1:gAAA" if wire.transport == "anthropic_messages" else "EqQB"
    foreign: list[ConversationItem] = [
        AssistantBlocks(
            blocks=[
                ThinkingBlock(text="sealed", signature=sealed_elsewhere),
                ThinkingBlock(text="unsigned"),
                TextBlock(text=" "),
                ToolUseBlock(id="call_x", name="no such tool!", input={}),
            ]
        ),
        AssistantBlocks(blocks=[]),
        results(call_x=""),
        AssistantBlocks(blocks=[call("call_lost", city="Bern")]),
        results(call_nobody="?"),
    ]
    async with Twin.start() as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("first", *foreign, "last"))
    assert answer.blocks == [TextBlock(text="last")]


@pytest.mark.parametrize("wire", [RESPONSES, RESPONSES_STREAM, CODEX, CHAT, CHAT_STREAM], ids=lambda w: w.id)
async def test_a_tool_with_a_grammar_is_called_with_free_text(wire):
    patch = ToolSpec(
        name="ApplyPatch",
        description="Changes files.",
        input_schema={"type": "object", "properties": {"patch": {"type": "string"}}, "required": ["patch"]},
        freeform=Freeform(argument="patch", syntax="regex", definition=".+"),
    )
    told = Answer(tools=[ToolCall(name="ApplyPatch", input="*** Begin\n", id="c1")])
    script = Script(rules=[Rule(when=When(pattern="fix"), answers=[told, Answer(text="{result}")])])
    async with Twin.start(script) as twin, wire.open(twin, freeform_tools=True) as provider:
        first = await provider.respond(wire.asking("fix it", tools=[patch]))
        said = AssistantBlocks(blocks=first.blocks)
        second = await provider.respond(wire.asking("fix it", said, results(c1="changed"), tools=[patch]))
    assert first.blocks == [ToolUseBlock(id="c1", name="ApplyPatch", input={"patch": "*** Begin\n"})]
    assert second.blocks == [TextBlock(text="changed")]


async def test_a_strict_calls_nulls_are_what_was_left_out():
    told = Answer(tools=[ToolCall(name="Weather", input={"city": "Bern", "days": None})])
    script, strict = Script(rules=[Rule(answers=[told])]), SchemaMode.STRICT
    async with Twin.start(script) as twin, RESPONSES.open(twin, schema_mode=strict) as provider:
        answer = await provider.respond(RESPONSES.asking("go"))
    assert tool_uses(answer.blocks)[0].input == {"city": "Bern"}


@pytest.mark.parametrize("wire", [COMPATIBLE, COMPATIBLE_STREAM], ids=lambda w: w.id)
@pytest.mark.parametrize("quirk", [None, *Quirk])
async def test_habits_of_compatible_services_are_forgiven(wire, quirk):
    script = Script(rules=WEATHER_SCRIPT.rules, quirks=[quirk] if quirk else [])
    async with Twin.start(script) as twin, wire.open(twin) as provider:
        answer = await provider.respond(wire.asking("weather in Bern"))
        ids = [use.id for use in tool_uses(answer.blocks)]
        named = dict(zip(ids, ("sunny", "foggy"), strict=True))
        second = await provider.respond(
            wire.asking("weather in Bern", AssistantBlocks(blocks=answer.blocks), results(**named))
        )
    thought = [ThinkingBlock(text="A tool knows.")] if quirk is Quirk.REASONING_CONTENT else []
    assert answer.blocks == [
        *thought,
        TextBlock(text="I look it up."),
        ToolUseBlock(id=ids[0], name="Weather", input={"city": "Bern"}),
        ToolUseBlock(id=ids[1], name="Weather", input={"city": "Zug", "days": 2}),
    ]
    assert len(set(ids)) == 2
    assert answer.stop_reason is StopReason.TOOL_USE
    assert second.blocks == [TextBlock(text="It is sunny\nfoggy.")]


@pytest.mark.spec("RT-218")
async def test_context_management_is_sent_with_its_header_only_if_enabled():
    wanted = ContextManagement(keep_tool_uses=0)
    async with Twin.start() as twin:
        async with ANTHROPIC.open(twin) as plain, ANTHROPIC.open(twin, context_management=wanted) as managed:
            await plain.respond(ANTHROPIC.asking("hello"))
            said = AssistantBlocks(blocks=[call("toolu_1", city="Bern")])
            answer = await managed.respond(ANTHROPIC.asking("hello", said, results(toolu_1="four")))
        without, with_ = twin.calls
    assert "context_management" not in without.request
    assert "anthropic-beta" not in without.headers
    assert with_.request["context_management"]["edits"][0]["keep"] == {"type": "tool_uses", "value": 0}
    assert with_.headers["anthropic-beta"] == "context-management-2025-06-27"
    assert answer.request_diagnostics == {
        "context_management": {
            "trigger_input_tokens": 100_000,
            "eligible_tool_results": 1,
            "eligible_tool_result_bytes": 4,
        }
    }
    assert with_.request["messages"][-1]["content"][0]["content"] == "four"


@every_wire
async def test_fields_and_headers_of_the_configuration_are_sent(wire):
    name = "metadata" if wire.transport == "anthropic_messages" else "service_tier"
    value = {"user_id": "ada"} if name == "metadata" else "default"
    async with Twin.start() as twin:
        async with wire.open(twin, extra_body={name: value}, headers={"X-Team": "red"}) as provider:
            await provider.respond(wire.asking("hello"))
        (asked,) = twin.calls
    assert asked.request[name] == value
    assert asked.headers["x-team"] == "red"


async def test_several_agents_ask_at_the_same_time_over_one_provider():
    script = Script(rules=[Rule(when=When(pattern="slow"), answers=[Answer(text="late", wait_ms=150)])])
    async with Twin.start(script) as twin, CHAT.open(twin) as provider:
        slow = asyncio.create_task(provider.respond(CHAT.asking("slow")))
        quick = [await provider.respond(CHAT.asking(f"{n}")) for n in range(3)]
        assert not slow.done()
        assert [answer.blocks for answer in quick] == [[TextBlock(text=f"{n}")] for n in range(3)]
        assert (await slow).blocks == [TextBlock(text="late")]


async def test_a_cancelled_attempt_ends_at_once_and_the_provider_goes_on():
    script = Script(rules=[Rule(when=When(pattern="never"), fault=Fault(kind=FaultKind.STALL))])
    async with Twin.start(script) as twin, ANTHROPIC.open(twin) as provider:
        task = asyncio.create_task(provider.respond(ANTHROPIC.asking("never")))
        await until(lambda: twin.calls)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await provider.respond(ANTHROPIC.asking("hello"))).blocks == [TextBlock(text="hello")]


@pytest.mark.spec("RT-217", "CA-011", "CA-022")
@pytest.mark.parametrize("wire", [ANTHROPIC, ANTHROPIC_STREAM], ids=lambda w: w.id)
async def test_marked_prompts_are_written_once_and_read_afterwards(wire: Wire):
    long = "apple " * 1_200
    async with Twin.start() as twin, wire.open(twin) as provider:
        first = await provider.respond(wire.asking(long, marks=[0]))
        talk: list[ConversationItem | str] = [long, AssistantBlocks(blocks=first.blocks), "And now?"]
        second = await provider.respond(wire.asking(*talk, marks=[0, 2]))
        bills = [billed(asked) for asked in twin.calls]
    assert first.buckets == InputBuckets(fresh=bills[0].fresh, read=0, written=bills[0].written)
    assert second.buckets == InputBuckets(fresh=bills[1].fresh, read=bills[1].read, written=bills[1].written)
    assert second.buckets.read == first.buckets.written > 1_000
    assert second.usage is not None
    assert second.usage.input_tokens == second.buckets.total


@pytest.mark.spec("CA-017", "CA-019", "CA-023")
@pytest.mark.parametrize("wire", [RESPONSES, RESPONSES_STREAM, CODEX, CHAT], ids=lambda w: w.id)
async def test_a_prefix_that_stays_is_read_from_the_services_own_cache(wire: Wire):
    long = "apple " * 1_200
    async with Twin.start() as twin, wire.open(twin) as provider:
        first = await provider.respond(wire.asking(long))
        talk: list[ConversationItem | str] = [long, AssistantBlocks(blocks=first.blocks), "And now?"]
        second = await provider.respond(wire.asking(*talk))
        bill = billed(twin.calls[-1])
        short = await provider.respond(wire.asking("hello"))
    assert second.buckets == InputBuckets(fresh=bill.fresh, read=bill.read, written=bill.written)
    assert second.buckets.read >= 1_024
    assert short.buckets is not None
    assert short.buckets.read == 0


def test_importing_selection_and_choosing_candidates_imports_no_sdk():
    program = """
import sys
from typing import cast
from pathlib import Path
from holon.providers.selection import Providers
keys = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
providers = Providers.from_configuration(Path("."), {}, keys)
chosen = providers.candidates("anthropic/claude-opus-5", ["openai/gpt-5", "ollama/llama", "openai-codex/gpt-5"])
providers.doctor(["anthropic/claude-opus-5"])
assert [type(each).__name__ for each in chosen] == ["Usable", "Usable", "Usable", "Rejected"], chosen
print(sorted({"anthropic", "openai", "httpx2", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
