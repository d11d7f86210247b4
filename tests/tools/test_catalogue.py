"""The catalogue: which tools a model is offered, and which it never is."""

from __future__ import annotations

from typing import Any

import pytest

from holon.core.codec import dumps
from holon.core.tokens import count
from holon.workspaces.grammar import GRAMMAR
from tests.runtime.conftest import Opens, clock, living

__all__ = ["clock", "living"]  # fixtures of the runtime's tests

#: What the tools of commands, patches and tasks may cost in every prompt.
MOST_TOKENS = 1_000


async def offered(living: Opens) -> dict[str, Any]:
    life = await living()
    await life.ask("hello")
    return {tool.name: tool for tool in life.model.requests[-1].tools}


@pytest.mark.spec("RT-251", "RT-279")
async def test_looking_goes_through_commands_and_tasks_come_from_them_alone(living: Opens) -> None:
    tools = await offered(living)
    assert {"ExecCommand", "ExecCommandBatch", "ApplyPatch"} <= tools.keys()
    assert not {"Read", "Glob", "Grep", "CreateTask"} & tools.keys()
    makers = {name for name, tool in tools.items() if {"cmd", "items"} & tool.input_schema["properties"].keys()}
    assert makers == {"ExecCommand", "ExecCommandBatch"}
    for how in ("rg --files", "rg -n", "sed -n", "head", "tail"):
        assert how in tools["ExecCommand"].description


async def test_a_command_says_what_becomes_of_what_it_leaves_behind(living: Opens) -> None:
    description = (await offered(living))["ExecCommand"].description
    assert "nohup x &" in description
    assert "become a task" in description


async def test_only_patches_have_a_form_in_free_text_and_it_is_the_grammar_that_is_parsed(living: Opens) -> None:
    tools = await offered(living)
    assert [name for name, tool in tools.items() if tool.freeform] == ["ApplyPatch"]
    freeform = tools["ApplyPatch"].freeform
    assert (freeform.argument, freeform.syntax, freeform.definition) == ("patch", "lark", GRAMMAR)


async def test_the_tools_of_commands_and_tasks_cost_little(living: Opens) -> None:
    tools = await offered(living)
    names = ["ExecCommand", "ExecCommandBatch", "ApplyPatch", *(name for name in tools if name.startswith("Task"))]
    sent = [dumps([tool.name, tool.description, tool.input_schema]) for tool in map(tools.__getitem__, names)]
    assert sum(map(count, sent)) <= MOST_TOKENS
