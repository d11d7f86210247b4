"""The scripted model: what it says to which request, and how a wrong script is refused."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.context.rendering import render_input
from holon.core.codec import dumps, to_plain
from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResults,
    ToolUseBlock,
    UserText,
    text_of,
)
from holon.core.messages import (
    ChannelOrigin,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    OperatorOrigin,
    Priority,
    TextBody,
    TimerOrigin,
)
from holon.core.prompts import PromptFrame
from holon.core.provenance import labels_for
from holon.core.usage import TokenUsage
from holon.providers.contract import FailureKind, ProviderFailure, ProviderRequest, ProviderResponse, StopReason
from holon.providers.scripted import ScriptedProvider, fill
from holon.providers.scripts import ECHO, InvalidScript, parse_script


def arrived(
    text: str, kind: MessageKind = MessageKind.OPERATOR_PROMPT, origin: MessageOrigin | None = None
) -> UserText:
    """An input as the runtime shows it to a model."""
    origin = origin or OperatorOrigin()
    trust, authority = labels_for(origin)
    envelope = MessageEnvelope(
        id="msg_1",
        agent_id="main",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        kind=kind,
        origin=origin,
        trust=trust,
        authority_class=authority,
        priority=Priority.NORMAL,
        body=TextBody(text=text),
    )
    return UserText(text=render_input(envelope))


def request(*conversation: ConversationItem, model: str = "scripted/a", round: int = 1) -> ProviderRequest:
    return ProviderRequest(
        agent_id="main",
        turn_id="turn_7",
        round=round,
        model=model,
        frame=PromptFrame(),
        conversation=list(conversation),
    )


async def said(provider: ScriptedProvider, *conversation: ConversationItem, round: int = 1) -> str:
    return text_of((await provider.respond(request(*conversation, round=round))).blocks)


def playing(script: str) -> ScriptedProvider:
    return ScriptedProvider(scripts={"a": script})


class TestEcho:
    @pytest.mark.parametrize("text", ["hello", "two\nlines", "[not a header]\nbody", "", "[a from b · c · d]\nquoted"])
    async def test_repeats_the_body_of_the_newest_input_without_its_line_of_provenance(self, text):
        asked = request(arrived("older"), AssistantBlocks(blocks=[]), arrived(text), model="scripted/echo")
        response = await ScriptedProvider().respond(asked)
        assert text_of(response.blocks) == text
        assert response.stop_reason is StopReason.END_TURN

    @pytest.mark.parametrize(
        ("kind", "origin"),
        [
            (MessageKind.OPERATOR_PROMPT, OperatorOrigin(actor_id="ann · bo]")),
            (MessageKind.CHANNEL_EVENT, ChannelOrigin(channel_id="c", sender_id="eve")),
            (MessageKind.TIMER_TICK, TimerOrigin(timer_id="timer_1")),
        ],
    )
    async def test_knows_the_line_of_provenance_of_every_origin(self, kind, origin):
        asked = request(arrived("hello", kind, origin), model="scripted/echo")
        assert text_of((await ScriptedProvider().respond(asked)).blocks) == "hello"

    async def test_is_not_misled_by_what_the_runtime_adds_after_an_input(self):
        asked = request(arrived("hello"), UserText(text="[the runtime ended the turn above]"), model="scripted/echo")
        assert text_of((await ScriptedProvider().respond(asked)).blocks) == "hello"

    async def test_takes_plain_user_texts_where_there_is_no_provenance_at_all(self):
        asked = request(UserText(text="one"), UserText(text="two"), model="scripted/echo")
        assert text_of((await ScriptedProvider().respond(asked)).blocks) == "two"

    async def test_of_an_empty_conversation_is_silence(self):
        assert (await ScriptedProvider().respond(request(model="scripted/echo"))).blocks == []


class TestRules:
    async def test_the_first_rule_that_fits_speaks_and_the_echo_where_none_does(self):
        provider = playing(
            """
            rules:
              - when: {pattern: 'deploy'}
                rounds: [{text: first}]
              - when: {pattern: 'deploy|test'}
                rounds: [{text: second}]
            """
        )
        assert await said(provider, arrived("deploy it")) == "first"
        assert await said(provider, arrived("test it")) == "second"
        assert await said(provider, arrived("drop it")) == "drop it"

    async def test_a_pattern_does_not_see_the_line_of_provenance(self):
        provider = playing("rules: [{when: {pattern: operator}, rounds: [{text: leaked}]}]")
        assert await said(provider, arrived("hello")) == "hello"

    async def test_a_rule_can_ask_for_the_kind_of_input(self):
        provider = playing("rules: [{when: {kind: timer_tick}, rounds: [{text: 'tick'}]}]")
        tick = arrived("wake up", MessageKind.TIMER_TICK, TimerOrigin(timer_id="timer_1"))
        assert await said(provider, tick) == "tick"
        assert await said(provider, arrived("wake up")) == "wake up"

    async def test_turns_are_counted_by_inputs_and_not_by_notices_of_the_runtime(self):
        provider = playing("rules: [{when: {turn: 2}, rounds: [{text: second}]}]")
        one, two, notice = arrived("one"), arrived("two"), UserText(text="[the runtime says something]")
        assert await said(provider, one, notice) == "one"
        assert await said(provider, one, notice, two) == "second"
        assert await said(provider, one, notice, two, arrived("three")) == "three"
        assert await said(provider, UserText(text="plain"), UserText(text="texts")) == "second"

    async def test_a_rule_for_one_round_says_its_one_line_in_that_round(self):
        provider = playing("rules: [{when: {round: 2}, rounds: [{text: in the second}]}]")
        assert await said(provider, arrived("x"), round=1) == "x"
        assert await said(provider, arrived("x"), round=2) == "in the second"

    async def test_round_after_round_is_played_and_then_silence_ends_the_turn(self):
        provider = playing("rules: [{rounds: [{text: one}, {text: two}]}]")
        assert [await said(provider, arrived("x"), round=n) for n in (1, 2, 3, 9)] == ["one", "two", "", ""]
        last = await provider.respond(request(arrived("x"), round=3))
        assert (last.blocks, last.stop_reason) == ([], StopReason.END_TURN)


class TestRounds:
    async def test_thinking_text_and_tool_calls_become_blocks_with_ids_that_a_repeat_gives_again(self):
        provider = playing(
            """
            rules:
              - rounds:
                  - thinking: hm
                    text: I look.
                    tools:
                      - {name: ExecCommand, input: {cmd: ls, limits: [1, true, null]}}
                      - {name: Sleep}
            """
        )
        expected = [
            ThinkingBlock(text="hm"),
            TextBlock(text="I look."),
            ToolUseBlock(id="call_turn_7_1_1", name="ExecCommand", input={"cmd": "ls", "limits": [1, True, None]}),
            ToolUseBlock(id="call_turn_7_1_2", name="Sleep", input={}),
        ]
        for _ in range(2):
            response = await provider.respond(request(arrived("x")))
            assert (response.blocks, response.stop_reason) == (expected, StopReason.TOOL_USE)

    async def test_the_stop_reason_can_be_written(self):
        provider = playing("rules: [{rounds: [{text: cut, stop_reason: max_output_tokens}]}]")
        assert (await provider.respond(request(arrived("x")))).stop_reason is StopReason.MAX_OUTPUT_TOKENS

    async def test_placeholders_are_filled_in_texts_and_tool_inputs(self):
        provider = playing(
            r"""
            rules:
              - when: {pattern: 'deploy (?P<app>\w+)(?: to (\w+))?'}
                rounds:
                  - text: "{input}: {app}={1}, {2}, all of '{0}'"
                    thinking: "about {app}"
                    tools: [{name: Run, input: {args: ["{app}"], env: {TARGET: "{2}", N: 3}}}]
                  - stream: ["it said ", "{result}"]
            """
        )
        first = await provider.respond(request(arrived("deploy shop to prod")))
        assert first.blocks == [
            ThinkingBlock(text="about shop"),
            TextBlock(text="deploy shop to prod: shop=shop, prod, all of 'deploy shop to prod'"),
            ToolUseBlock(id="call_turn_7_1_1", name="Run", input={"args": ["shop"], "env": {"TARGET": "prod", "N": 3}}),
        ]
        assert await said(provider, arrived("deploy shop")) == "deploy shop: shop=shop, , all of 'deploy shop'"
        results = ToolResults(results=[ToolResultBlock(tool_use_id="call_turn_7_1_1", content="done")])
        said_then = await said(provider, arrived("deploy shop"), AssistantBlocks(blocks=[]), results, round=2)
        assert said_then == "it said done"

    async def test_the_result_is_that_of_this_turn_and_not_of_one_before(self):
        provider = playing("rules: [{rounds: [{text: 'result: {result}'}]}]")
        results = ToolResults(results=[ToolResultBlock(tool_use_id="call_1", content="slept")])
        before = (arrived("one"), AssistantBlocks(blocks=[]), results)
        assert await said(provider, *before, arrived("two")) == "result: "

    async def test_pieces_are_told_in_order_and_their_delay_is_spread_over_them(self):
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        script = "rules: [{rounds: [{stream: ['a{1}', b, ''], delay_ms: 300}]}]"
        pieces: list[TextBlock] = []
        provider = ScriptedProvider(scripts={"a": script}, sleep=sleep)
        response = await provider.respond(request(arrived("x")), pieces.append)
        assert pieces == [TextBlock(text="a{1}"), TextBlock(text="b")]
        assert response.blocks == [TextBlock(text="a{1}b")]
        assert slept == [0.1, 0.1, 0.1]


class TestUsage:
    @pytest.mark.spec("RT-188")
    async def test_is_what_the_script_says(self):
        provider = playing("rules: [{rounds: [{text: hi, usage: {input_tokens: 100, output_tokens: 5}}]}]")
        usage = (await provider.respond(request(arrived("x")))).usage
        assert to_plain(usage) == {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}

    async def test_is_a_quarter_of_the_characters_by_default(self):
        provider = playing("rules: [{rounds: [{text: 'twelve chars', tools: [{name: T, input: {}}]}]}]")
        conversation = (
            UserText(text="x" * 40),
            AssistantBlocks(blocks=[ToolUseBlock(id="c", name="Tool", input={"a": 1})]),  # Tool{"a":1}
            ToolResults(results=[ToolResultBlock(tool_use_id="c", content="y" * 8)]),
        )
        usage = (await provider.respond(request(*conversation))).usage
        assert usage == TokenUsage.of(10 + 3 + 2, 3 + 1)

    async def test_can_be_kept_back(self):
        provider = playing("rules: [{rounds: [{text: hi, usage: none}]}]")
        assert (await provider.respond(request(arrived("x")))).usage is None


class TestFailing:
    async def test_every_attempt_fails_with_all_that_the_script_says(self):
        provider = playing(
            "rules: [{rounds: [{fail: {status: 429, message: slow down, retry_after_ms: 50,"
            " usage: {input_tokens: 3}}}]}]"
        )
        for _ in range(4):
            with pytest.raises(ProviderFailure) as failed:
                await provider.respond(request(arrived("x")))
            found = failed.value
            assert (found.kind, found.message, found.http_status, found.retry_after_ms, found.usage) == (
                FailureKind.RATE_LIMITED,
                "slow down",
                429,
                50,
                TokenUsage.of(3, 0),
            )

    async def test_the_first_attempts_of_each_round_fail_and_then_it_speaks(self):
        line = "{text: fine, fail: {kind: timeout, times: 2}}"
        provider = playing(f"rules: [{{rounds: [{line}, {line}]}}]")
        heard: list[str] = []
        for round in (1, 1, 1, 2, 2, 2, 2):
            try:
                heard.append(await said(provider, arrived("x"), round=round))
            except ProviderFailure as failure:
                heard.append(failure.kind)
        assert heard == ["timeout", "timeout", "fine", "timeout", "timeout", "fine", "fine"]

    async def test_the_counts_of_old_rounds_are_forgotten_in_the_end(self):
        provider = playing("rules: [{rounds: [{text: fine, fail: {kind: timeout, times: 1}}]}]")

        async def fails(turn: int) -> bool:
            asked = ProviderRequest(
                agent_id="main",
                turn_id=f"turn_{turn}",
                round=1,
                model="scripted/a",
                frame=PromptFrame(),
                conversation=[],
            )
            try:
                await provider.respond(asked)
            except ProviderFailure:
                return True
            return False

        assert all([await fails(turn) for turn in range(1_025)])
        assert not await fails(1_024)
        assert await fails(0)


pieces = st.sampled_from(
    ["{input}", "{1}", "{result}", "{{input}}", "{0.__class__}", "{input!r}", "{", "}", "text", ""]
)
templates = st.lists(pieces, max_size=6).map("".join)


@settings(max_examples=100, deadline=None)
@given(template=templates, text=st.text(max_size=30), round=st.integers(1, 3))
def test_the_answer_depends_on_the_request_and_not_on_what_the_model_was_asked_before(template, text, round):
    rounds = [{"text": template}, {"tools": [{"name": "T", "input": {"x": template}}]}]
    rules = [{"when": {"pattern": "(.*)"}, "rounds": rounds}]
    script = parse_script(dumps({"rules": rules}), source="demo.json")
    asked = request(arrived("before"), arrived(text), round=round)

    async def answers() -> tuple[ProviderResponse, ProviderResponse]:
        old, fresh = ScriptedProvider(scripts={"a": script}), ScriptedProvider(scripts={"a": script})
        for other in (1, 2, 3):
            await old.respond(request(arrived("other"), round=other))
        return await old.respond(asked), await fresh.respond(asked)

    after_others, at_once = asyncio.run(answers())
    assert after_others == at_once


@given(
    st.text(alphabet="{}abc01.[]!:_", max_size=60),
    st.dictionaries(st.sampled_from(["a", "b", "0", "input"]), st.text()),
)
def test_filling_only_ever_puts_known_values_in(text, values):
    filled = fill(text, values)
    if not any(f"{{{name}}}" in text for name in values):
        assert filled == text
    assert fill(text, {}) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a}", "A {b}"),
        ("{{a}}", "{a}"),
        ("{{other}} {other} {", "{{other}} {other} {"),
        ("{a.__class__} {a!r} {a[0]} {a:>9}", "{a.__class__} {a!r} {a[0]} {a:>9}"),
        ("awk '{print $1}' ${HOME}", "awk '{print $1}' ${HOME}"),
    ],
)
def test_a_placeholder_is_a_known_name_in_braces_and_nothing_else(text, expected):
    assert fill(text, {"a": "A {b}", "b": "never"}) == expected


class TestWrongScripts:
    @pytest.mark.parametrize(
        ("script", "complaint"),
        [
            ("rules: [{rounds: [{txt: hi}]}]", r"unknown field `txt` - at `\$.rules\[0\].rounds\[0\]`"),
            ("rule: []", r"unknown field `rule`"),
            ("{}", r"missing required field `rules`"),
            ("rules: [{when: {paterns: x}, rounds: [{}]}]", r"unknown field `paterns` - at `\$.rules\[0\].when`"),
            (
                "rules: [{when: {pattern: '('}, rounds: [{}]}]",
                r"`pattern` is not a regular expression: .*rules\[0\].when",
            ),
            ("rules: [{when: {pattern: '(?P<input>.)'}, rounds: [{}]}]", r"names a group 'input'"),
            ("rules: [{when: {turn: 0}, rounds: [{}]}]", r"`int` >= 1 - at `\$.rules\[0\].when.turn`"),
            (
                "rules: [{when: {kind: tick}, rounds: [{}]}]",
                r"Invalid enum value 'tick' - at `\$.rules\[0\].when.kind`",
            ),
            ("rules: [{when: {round: 1}, rounds: [{}, {}]}]", r"one entry in `rounds` - at `\$.rules\[0\]`"),
            ("rules: [{rounds: []}]", r"length >= 1 - at `\$.rules\[0\].rounds`"),
            ("rules: [{rounds: [{text: yes}]}]", r"Expected `str`, got `bool` - at `\$.rules\[0\].rounds\[0\].text`"),
            ("rules: [{rounds: [{text: a, stream: [b]}]}]", r"`text` or `stream`, not both"),
            ("rules: [{rounds: [{fail: {times: 1}}]}]", r"needs a `kind` or a `status` - at .*fail`"),
            ("rules: [{rounds: [{fail: {kind: bad_luck}}]}]", r"Invalid enum value 'bad_luck' - at .*fail.kind`"),
            ("rules: [", r"line \d: did not find expected node content"),
            ("- a list", r"Expected `object`, got `array`"),
            ("", r"Expected `object`, got `null`"),
            ("!!python/object/apply:os.getcwd []", r"could not determine a constructor"),
        ],
    )
    def test_are_refused_by_file_and_field(self, script, complaint):
        with pytest.raises(InvalidScript, match=rf"^script demo\.yaml (is not valid|cannot be read): .*{complaint}"):
            parse_script(script, source="demo.yaml")

    def test_in_json_are_refused_too(self):
        assert parse_script('{"rules": []}', source="demo.json") == ECHO
        with pytest.raises(InvalidScript, match=r"demo\.json cannot be read: JSON is malformed"):
            parse_script("rules: []", source="demo.json")

    def test_are_not_quoted_in_the_error_as_the_file_may_be_something_else(self):
        with pytest.raises(InvalidScript) as refused:
            parse_script("root:\n  hunter2: [oops\n  more: x: y", source="/etc/secrets")
        assert "hunter2" not in str(refused.value)

    async def test_fail_the_attempt_for_good_and_say_what_is_wrong(self, tmp_path):
        path = tmp_path / "broken.yaml"
        path.write_text("rules: [{rounds: [{txt: hi}]}]")
        with pytest.raises(ProviderFailure, match=rf"script {path} is not valid.*`txt`") as failed:
            await ScriptedProvider().respond(request(model=f"scripted/{path}"))
        assert failed.value.kind is FailureKind.CONTRACT_ERROR
        assert isinstance(failed.value.__cause__, InvalidScript)


class TestFiles:
    HELLO = "rules: [{rounds: [{text: hello}]}]"

    async def heard(self, model: str, home: Path | None = None) -> str:
        return text_of((await ScriptedProvider(home=home).respond(request(model=model))).blocks)

    async def test_are_found_by_absolute_path_from_here_and_in_the_home(self, tmp_path, monkeypatch):
        here, home = tmp_path / "here", tmp_path / "home"
        (home / "scripts").mkdir(parents=True)
        here.mkdir()
        monkeypatch.chdir(here)
        (here / "local.yaml").write_text("rules: [{rounds: [{text: local}]}]")
        (home / "scripts" / "local.yaml").write_text("rules: [{rounds: [{text: hidden by the other}]}]")
        (home / "scripts" / "shared.yml").write_text("rules: [{rounds: [{text: shared}]}]")
        (home / "scripts" / "typed.json").write_text('{"rules": [{"rounds": [{"text": "typed"}]}]}')
        models = [f"scripted/{here}/local.yaml", "scripted/local", "scripted/shared", "scripted/typed.json"]
        assert [await self.heard(model, home) for model in models] == ["local", "local", "shared", "typed"]

    async def test_are_looked_for_in_holon_home_by_default(self, tmp_path, monkeypatch):
        (tmp_path / "scripts").mkdir()
        (tmp_path / "scripts" / "shared.yaml").write_text(self.HELLO)
        monkeypatch.setenv("HOLON_HOME", str(tmp_path))
        assert await self.heard("scripted/shared") == "hello"

    async def test_are_read_again_when_they_change(self, tmp_path):
        path = tmp_path / "demo.yaml"
        path.write_text(self.HELLO)
        assert await self.heard(f"scripted/{path}") == "hello"
        path.write_text("rules: [{rounds: [{text: other}]}]")
        os.utime(path, ns=(1, 1))
        assert await self.heard(f"scripted/{path}") == "other"

    async def test_that_are_missing_are_named_with_the_place_where_they_could_be(self, tmp_path):
        with pytest.raises(ProviderFailure) as failed:
            await self.heard("scripted/nowhere", tmp_path)
        assert failed.value.kind is FailureKind.CONTRACT_ERROR
        assert failed.value.message == (
            f"there is no script 'nowhere': write it to {tmp_path}/scripts/nowhere.yaml, give a path to it,"
            " or use scripted/echo"
        )

    async def test_that_are_not_text_are_refused(self, tmp_path):
        path = tmp_path / "picture.yaml"
        path.write_bytes(b"\xff\xd8\xff")
        with pytest.raises(ProviderFailure, match="it is not UTF-8 text"):
            await self.heard(f"scripted/{path}")
