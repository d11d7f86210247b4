"""Which rule speaks, and what it says."""

from typing import Any

import pytest

from tests.twins.clients import CLAUDE, GPT, anthropic_of, openai_of, said
from twins import (
    Answer,
    ApiName,
    Fault,
    FaultKind,
    InvalidScript,
    Rule,
    Script,
    ToolCall,
    Twin,
    When,
    load_script,
    parse_script,
)
from twins.playing import Line, Player, Scene, Speaker, Turn, scene_of

USER, TOOL, ASSISTANT = Speaker.USER, Speaker.TOOL, Speaker.ASSISTANT


def scene(**changes: Any) -> Scene:
    values: dict[str, Any] = {"api": ApiName.CHAT, "model": GPT, "call": 1, "input": "hello", "result": "", "round": 1}
    return Scene(**{**values, **changes})


def play(*rules: Rule, at: Scene | None = None) -> str:
    return Player(Script(rules=list(rules))).play(at or scene()).answer.text


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        (When(), True),
        (When(pattern="(?i)HELL"), True),
        (When(pattern="^ello"), False),
        (When(call=1), True),
        (When(call=2), False),
        (When(round=1), True),
        (When(round=2), False),
        (When(model="gpt-*"), True),
        (When(model="gpt"), False),
        (When(api=ApiName.CHAT), True),
        (When(api=ApiName.CODEX), False),
        (When(result=""), False),
        (When(pattern="hello", model="claude-*"), False),
    ],
)
def test_a_rule_speaks_when_all_that_it_asks_for_holds(when, fits):
    said = play(Rule(when=when, answers=[Answer(text="rule")]))
    assert said == ("rule" if fits else "hello")


def test_the_first_rule_that_fits_speaks():
    rules = [Rule(when=When(pattern=name), answers=[Answer(text=name)]) for name in ("bye", "hel", "hello")]
    assert play(*rules) == "hel"


def test_answers_are_played_one_a_round_and_then_the_input_is_echoed():
    rule = Rule(answers=[Answer(text="first"), Answer(text="second")])
    assert [play(rule, at=scene(round=number)) for number in (1, 2, 3)] == ["first", "second", "hello"]


def test_a_rule_for_one_round_plays_its_first_answer_there():
    assert play(Rule(when=When(round=2), answers=[Answer(text="second")]), at=scene(round=2)) == "second"


def test_what_was_found_and_what_was_said_is_filled_in():
    rule = Rule(
        when=When(pattern=r"(\w)e(?P<rest>\w+)"),
        answers=[
            Answer(text="{input} {1} {rest} {result} {unknown}", tools=[ToolCall(name="a", input={"b": ["{rest}"]})])
        ],
    )
    answer = Player(Script(rules=[rule])).play(scene(result="7")).answer
    assert (answer.text, answer.tools[0].input) == ("hello h llo 7 {unknown}", {"b": ["llo"]})


def test_a_fault_is_played_so_many_times_and_then_the_answer():
    player = Player(Script(rules=[Rule(fault=Fault(status=500, times=2), answers=[Answer(text="well")])]))
    assert [player.play(scene()).fault is None for _ in range(4)] == [False, False, True, True]


def test_an_injected_fault_leaves_the_answer_of_the_script_and_its_faults_as_they_are():
    own = Fault(status=500, times=1)
    player = Player(Script(rules=[Rule(fault=own, answers=[Answer(text="well")])]))
    injected = Fault(kind=FaultKind.CUT, times=1)
    player.inject(injected, When(pattern="hello"))
    lines = [player.play(scene(input=text)) for text in ("bye", "hello", "hello")]
    well = Answer(text="well")
    assert lines == [Line(well, own), Line(well, injected), Line(well, None)]


def test_arguments_are_broken_only_where_there_are_some():
    rules = [Rule(when=When(pattern="call"), answers=[Answer(tools=[ToolCall(name="a")])]), Rule()]
    player = Player(Script(rules=rules))
    player.inject(Fault(kind=FaultKind.BROKEN_ARGUMENTS, times=1), When())
    assert [player.play(scene(input=text)).fault is None for text in ("hello", "call", "call")] == [True, False, True]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([], ("", "", 1)),
        ([Turn(USER, "a")], ("a", "", 1)),
        ([Turn(Speaker.SYSTEM, "s"), Turn(USER, "a"), Turn(ASSISTANT, "b"), Turn(USER, "c")], ("c", "", 1)),
        ([Turn(USER, "a"), Turn(ASSISTANT, ""), Turn(TOOL, "r")], ("a", "r", 2)),
        (
            [Turn(USER, "a"), Turn(ASSISTANT, ""), Turn(ASSISTANT, ""), Turn(TOOL, "r"), Turn(TOOL, "s")],
            ("a", "r\ns", 2),
        ),
        ([Turn(USER, "a"), *[Turn(ASSISTANT, ""), Turn(TOOL, "r")] * 2], ("a", "r", 3)),
        ([Turn(USER, "a"), Turn(ASSISTANT, ""), Turn(TOOL, "r"), Turn(USER, "b")], ("b", "", 1)),
    ],
)
def test_a_script_sees_the_newest_input_the_newest_results_and_the_round(turns, expected):
    seen = scene_of(ApiName.CHAT, GPT, 1, turns)
    assert (seen.input, seen.result, seen.round) == expected


async def test_calls_are_counted_over_all_apis():
    rules = [Rule(when=When(call=number), answers=[Answer(text=f"call {number}")]) for number in (1, 2, 3)]
    async with Twin.start(Script(rules=rules)) as twin:
        first = await anthropic_of(twin).messages.create(model=CLAUDE, max_tokens=9, messages=said("hi"))
        second = await openai_of(twin).responses.create(model=GPT, input="hi")
        third = await openai_of(twin).chat.completions.create(model=GPT, messages=said("hi"))
        numbers = [(call.number, call.api, call.model) for call in twin.calls]
    texts = [first.content[0].to_dict()["text"], second.output_text, third.choices[0].message.content]
    assert texts == ["call 1", "call 2", "call 3"]
    assert numbers == [(1, "anthropic", CLAUDE), (2, "responses", GPT), (3, "chat", GPT)]


async def test_the_same_run_of_a_script_gives_the_same_ids_and_bills():
    async def run() -> Any:
        script = Script(rules=[Rule(answers=[Answer(tools=[ToolCall(name="look")])])])
        async with Twin.start(script) as twin:
            message = await anthropic_of(twin).messages.create(model=CLAUDE, max_tokens=9, messages=said("hi"))
            return message.to_dict(), twin.bill_total()

    assert await run() == await run()


async def test_a_script_can_bring_models_of_its_own():
    yaml = """
    models:
      claude-tiny:
        {input: 1, output: 2, floor: 10, caching: marks, read: 0.1, write: 1.25, write_1h: 2, window: 50}
    """
    async with Twin.start(yaml) as twin:
        create = anthropic_of(twin).messages.create
        message = await create(model="claude-tiny", max_tokens=9, messages=said("hi"))
        with pytest.raises(Exception, match="50 maximum"):
            await create(model="claude-tiny", max_tokens=9, messages=said("hi " * 50))
    assert message.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rules: [{answers: [{txt: hi}]}]", "unknown field `txt`"),
        ("rules: [{when: {pattern: '('}}]", "is not a regular expression"),
        ("rules: [{answers: [{text: hi, chunks: [hi]}]}]", "`text` or `chunks`, not both"),
        ("rules: [{fault: {kind: cut, status: 500}}]", "either a `status` or a `kind`"),
        ("rules: [{fault: {}}]", "either a `status` or a `kind`"),
        ("rules: [{fault: {status: 200}}]", "400"),
        ("- rules", "Expected `object`"),
        ("rules: [", "the script is not a script"),
    ],
)
def test_a_wrong_script_says_what_is_wrong(text, reason):
    with pytest.raises(InvalidScript, match=r"docs/twins\.md") as refused:
        parse_script(text)
    assert reason in str(refused.value)


def test_a_script_that_is_not_there_says_where(tmp_path):
    with pytest.raises(InvalidScript, match=r"no script at .*/none.yaml: No such file"):
        load_script(tmp_path / "none.yaml")


def test_an_empty_script_is_the_echo(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("")
    assert load_script(path) == Script()
