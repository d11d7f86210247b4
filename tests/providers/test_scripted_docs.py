"""The page on script writing is true: each script on it is played, and its dialogue must come out as printed."""

import re
from pathlib import Path

import pytest

from holon.core.codec import dumps
from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    ModelBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResults,
    ToolUseBlock,
    UserText,
    tool_uses,
)
from holon.core.prompts import PromptFrame
from holon.providers.attempts import RetryPolicy, Usable, run_round
from holon.providers.contract import ProviderRequest, RoundFailed
from holon.providers.scripted import ScriptedProvider
from holon.providers.scripts import InvalidScript, parse_script

PAGE = (Path(__file__).parents[2] / "docs" / "scripted-model.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```\n(?:^```text\n(.*?)^```$)?", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_every_script_on_the_page_has_a_dialogue():
    assert len(EXAMPLES) == PAGE.count("```yaml") >= 6
    assert all(dialogue for _, dialogue in EXAMPLES)


@pytest.mark.parametrize(("script", "dialogue"), EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
async def test_an_example_plays_as_printed(script, dialogue):
    provider = ScriptedProvider(scripts={"example": script})
    lines = dialogue.splitlines()
    assert await played(provider, [line for line in lines if not line.startswith("model")]) == lines


def test_the_error_on_the_page_is_the_one_that_is_raised():
    with pytest.raises(InvalidScript) as refused:
        parse_script("rules: [{rounds: [{txt: hi}]}]", source="demo.yaml")
    assert f"    {refused.value}\n" in PAGE


async def played(provider: ScriptedProvider, spoken: list[str]) -> list[str]:
    """The whole dialogue: what was spoken to the model, and all that it says, turn by turn."""
    conversation: list[ConversationItem] = []
    printed: list[str] = []
    spoken = list(spoken)
    turn = 0
    while spoken:
        turn, round = turn + 1, 0
        kind, _, text = spoken[0].partition("> ")
        printed.append(spoken.pop(0))
        conversation.append(UserText(text=f"[{kind} from somebody · some_authority · msg_{turn}]\n{text}"))
        calls: list[ToolUseBlock] = []
        while round == 0 or calls:
            if calls:
                printed.append(spoken[0])
                conversation.append(results_of(calls, spoken.pop(0)))
            round += 1
            request = ProviderRequest(
                agent_id="main",
                turn_id=f"turn_{turn}",
                round=round,
                model="scripted/example",
                frame=PromptFrame(),
                conversation=conversation,
            )
            blocks = await answer(provider, request, printed)
            conversation.append(AssistantBlocks(blocks=blocks))
            printed += [line_of(block) for block in blocks]
            calls = tool_uses(blocks)
    return printed


async def answer(provider: ScriptedProvider, request: ProviderRequest, printed: list[str]) -> list[ModelBlock]:
    """One round as the runtime makes it, retries included; nothing at all if it failed."""
    blocks: list[ModelBlock] = []
    try:
        outcome = await run_round(request, [Usable(request.model, provider)], policy=RetryPolicy(base_ms=0))
        timeline, blocks = outcome.timeline, outcome.response.blocks
    except RoundFailed as failed:
        timeline = failed.timeline
    for attempt in timeline.attempts:
        if attempt.failure_kind is not None:
            said = (attempt.transport_diagnostics or {})["source_chain"][0]
            printed.append(f"model fails> {attempt.failure_kind}: {said}")
    return blocks


def results_of(calls: list[ToolUseBlock], line: str) -> ToolResults:
    content = line.removeprefix("tool> ")
    return ToolResults(results=[ToolResultBlock(tool_use_id=call.id, content=content) for call in calls])


def line_of(block: ModelBlock) -> str:
    match block:
        case TextBlock(text=text):
            return f"model> {text}"
        case ThinkingBlock(text=text):
            return f"model thinks> {text}"
        case ToolUseBlock(name=name, input=input):
            return f"model calls> {name} {dumps(input)}"
        case _:
            raise AssertionError(f"the page shows no {block}")
