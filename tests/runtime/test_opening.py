"""The start of a host: nobody works before the turns that were left open are taken up."""

from __future__ import annotations

import asyncio

import pytest

from holon.runtime.command_tasks import CommandTasks
from tests.runtime.conftest import Opens
from tests.runtime.living import Gate

SCRIPT = """
rules:
  - rounds:
      - {text: waiting, tools: [{name: Wait}]}
      - {text: over}
"""


async def test_an_agent_that_is_kicked_during_the_start_goes_on_with_its_open_turn_once(
    living: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a command's result that comes while another command is still looked for."""
    gate = Gate()
    life = await living(SCRIPT, tools=[gate.tool])
    await life.say("go")
    await gate.entered()
    await life.close()
    recover = CommandTasks.recover

    async def and_kick(commands: CommandTasks) -> None:
        await recover(commands)
        commands._kick("main")
        await asyncio.sleep(0.2)

    monkeypatch.setattr(CommandTasks, "recover", and_kick)
    gate = Gate()
    gate.open()
    life = await living(SCRIPT, tools=[gate.tool])
    (turn,) = await life.turns()
    assert turn.terminal is not None
    assert len(await life.events("turn_resumed")) == 1
    assert len(await life.events("turn_terminal")) == 1
    assert [brief.text for brief in await life.briefs()] == ["over"]
