"""What every wire does to a conversation on its way out: blanks, broken pairs, foreign names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResults,
    UserText,
    tool_uses,
)
from holon.core.prompts import PromptBlock, PromptFrame, Stability
from holon.providers.contract import INVALID_ARGUMENTS
from holon.providers.lowering import (
    NO_RESULT,
    arguments_of,
    model_name,
    portable_name,
    prompt_blocks,
    replayed,
    system_text,
)
from tests.providers.wires import asking, call, results


def items(*conversation: ConversationItem | str) -> list[ConversationItem]:
    return [each.item for each in replayed(asking("x/y", *conversation))]


def test_a_model_is_asked_for_by_the_name_behind_its_provider():
    assert model_name("openrouter/anthropic/claude-opus-4.5") == "anthropic/claude-opus-4.5"


@pytest.mark.spec("CA-002", "CA-018")
def test_what_belongs_to_one_turn_stands_at_the_end_of_the_system_text_and_blanks_nowhere():
    frame = PromptFrame(
        system_blocks=[
            PromptBlock(text="now: noon", stability=Stability.TURN_SCOPED, source="clock"),
            PromptBlock(text="policy", stability=Stability.STABLE, source="policy"),
        ],
        context_blocks=[
            PromptBlock(text=" \n", stability=Stability.AGENT_SCOPED, source="nothing"),
            PromptBlock(text="agent", stability=Stability.AGENT_SCOPED, source="agent"),
        ],
    )
    assert [block.text for block in prompt_blocks(frame)] == ["policy", "agent", "now: noon"]
    assert system_text(frame) == "policy\n\nagent\n\nnow: noon"


def test_results_stand_right_behind_their_calls_whatever_was_said_in_between():
    asked = AssistantBlocks(blocks=[call("a"), call("b")])
    came = ToolResults(
        results=[ToolResultBlock(tool_use_id="b", content="2"), ToolResultBlock(tool_use_id="a", content="1")]
    )
    assert items("go", asked, "hurry", came, "and then?") == [
        UserText(text="go"),
        asked,
        results(a="1", b="2"),
        UserText(text="hurry"),
        UserText(text="and then?"),
    ]


def test_a_call_whose_turn_ended_before_its_result_gets_one_that_says_so():
    asked = AssistantBlocks(blocks=[call("a"), call("b")])
    lost = ToolResultBlock(tool_use_id="b", content=NO_RESULT, is_error=True)
    assert items("go", asked, results(a="1"), "next") == [
        UserText(text="go"),
        asked,
        ToolResults(results=[ToolResultBlock(tool_use_id="a", content="1"), lost]),
        UserText(text="next"),
    ]


def test_results_without_a_call_and_blank_items_are_left_out():
    assert items("go", results(nobody="1"), " \n", AssistantBlocks(blocks=[]), "next") == [
        UserText(text="go"),
        UserText(text="next"),
    ]


def test_items_keep_the_numbers_that_marks_name_them_by():
    request = asking("x/y", "", "go", AssistantBlocks(blocks=[call("a")]), "hurry", results(a="1"))
    assert [(each.number, type(each.item)) for each in replayed(request)] == [
        (1, UserText),
        (2, AssistantBlocks),
        (4, ToolResults),
        (3, UserText),
    ]


@pytest.mark.parametrize(
    ("written", "understood"),
    [
        ('{"city": "Bern"}', {"city": "Bern"}),
        ("", {}),
        ("  ", {}),
        ('{"city": "Be', {INVALID_ARGUMENTS: '{"city": "Be'}),
        ('["Bern"]', {INVALID_ARGUMENTS: '["Bern"]'}),
        ("[" * 100_000, {INVALID_ARGUMENTS: "[" * 100_000}),
    ],
    ids=["object", "empty", "blank", "broken", "list", "deep"],
)
def test_arguments_that_are_no_json_object_go_on_as_they_were_written(written, understood):
    assert arguments_of(written) == understood


@given(st.text())
def test_every_name_becomes_one_that_services_take(name):
    taken = portable_name(name)
    assert 1 <= len(taken) <= 64
    assert taken.replace("-", "_").replace("_", "a").isalnum()
    assert taken.isascii()


blocks = st.one_of(
    st.builds(TextBlock, text=st.sampled_from(["", " ", "words"])),
    st.builds(ThinkingBlock, text=st.just("hm")),
    st.builds(call, st.sampled_from("abcdefgh")),
)
anything = st.one_of(
    st.builds(UserText, text=st.sampled_from(["", "hello"])),
    st.builds(
        AssistantBlocks, blocks=st.lists(blocks, max_size=3, unique_by=lambda b: getattr(b, "id", None) or id(b))
    ),
    st.builds(
        ToolResults,
        results=st.lists(st.builds(ToolResultBlock, tool_use_id=st.sampled_from("abcdefgh"), content=st.just("ok"))),
    ),
)


@given(st.lists(anything, max_size=12))
def test_whatever_was_recorded_each_call_has_one_result_right_behind_it(conversation):
    replay = items(*conversation)
    for place, item in enumerate(replay):
        calls = [use.id for use in tool_uses(item.blocks)] if isinstance(item, AssistantBlocks) else []
        if calls:
            behind = replay[place + 1]
            assert isinstance(behind, ToolResults)
            assert [result.tool_use_id for result in behind.results] == calls
    answered = sum(isinstance(item, ToolResults) for item in replay)
    assert answered == sum(isinstance(i, AssistantBlocks) and bool(tool_uses(i.blocks)) for i in replay)
