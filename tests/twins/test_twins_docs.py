"""The page on the twins is true: its Python runs, its scripts play as printed, and its tables name what there is."""

import asyncio
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import pytest

from tests.twins.clients import CLAUDE, anthropic_of
from twins import Answer, ApiName, CodexOutput, FaultKind, Quirk, StopReason, Twin, When

PAGE = (Path(__file__).parents[2] / "docs" / "twins.md").read_text(encoding="utf-8")
DIALOGUES = re.findall(r"^```yaml\n(.*?)^```\n^```text\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_every_script_on_the_page_has_a_dialogue():
    assert len(DIALOGUES) == PAGE.count("```yaml") >= 2
    assert len(PYTHON) == PAGE.count("```python") >= 1


@pytest.mark.parametrize("code", PYTHON, ids=range(1, len(PYTHON) + 1))
def test_the_python_on_the_page_runs(code):
    scope: dict[str, Any] = {}
    exec("async def example():\n" + textwrap.indent(code, "    "), scope)
    asyncio.run(scope["example"]())


@pytest.mark.parametrize(("script", "dialogue"), DIALOGUES, ids=range(1, len(DIALOGUES) + 1))
async def test_a_dialogue_on_the_page_plays_as_printed(script, dialogue):
    lines = dialogue.splitlines()
    async with Twin.start(script) as twin:
        assert await played(twin, [line for line in lines if line.startswith(("user>", "tool>"))]) == lines


@pytest.mark.parametrize(
    "names", [ApiName, StopReason, FaultKind, Quirk, CodexOutput], ids=lambda names: names.__name__
)
def test_the_page_names_every_choice(names):
    assert [name for name in names if f"`{name.value}`" not in PAGE] == []


@pytest.mark.parametrize("shape", [When, Answer], ids=lambda shape: shape.__name__)
def test_the_page_names_every_field(shape):
    assert [field.name for field in msgspec.structs.fields(shape) if f"`{field.name}`" not in PAGE] == []


async def played(twin: Twin, spoken: list[str]) -> list[str]:
    """The whole dialogue: what was said to the model, and what came of it."""
    client = anthropic_of(twin)
    history: list[Any] = []
    printed: list[str] = []
    calls: list[Any] = []
    for line in spoken:
        printed.append(line)
        speaker, _, text = line.partition("> ")
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call in calls]
        history.append({"role": "user", "content": text if speaker == "user" else results})
        try:
            message = await client.messages.create(model=CLAUDE, max_tokens=99, messages=history)
        except anthropic.APIStatusError as error:
            printed.append(f"fails> {error.status_code} {error.type}: {error.api_message}")
            history.pop()
            continue
        history.append(message.to_param())
        calls = [block for block in message.content if block.type == "tool_use"]
        printed += [printed_of(block) for block in message.content]
    return printed


def printed_of(block: Any) -> str:
    match block.type:
        case "thinking":
            return f"model thinks> {block.thinking}"
        case "tool_use":
            return f"model calls> {block.name} {json.dumps(block.input, separators=(',', ':'))}"
        case _:
            return f"model> {block.text}"
