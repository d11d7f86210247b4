"""docs/prompt.md is true: its commands are run on a Holon such as the page describes, and print what it says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, a_home, serving

PAGE = (Path(__file__).parents[2] / "docs" / "prompt.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
STEPS = [step for block in BLOCKS for step in re.findall(r"^\$ holon (.*)\n((?:(?!\$ ).*\n?)*)", block, re.MULTILINE)]
MODELS = {"scripted/": {"prices": {"input": 3.0, "output": 15.0}}}


@pytest.fixture(scope="module")
def described() -> Iterator[Cli]:
    with a_home() as home:
        cli = Cli(home.home, {"HOLON_MODELS": json.dumps(MODELS), "HOLON_MODEL": "scripted/echo"})
        with serving(cli):
            (cli.home / "agents" / "main" / "AGENTS.md").write_text("be brief\n")
            for text in ("hello", "how are you?"):
                assert cli("prompt", text).code == 0
            yield cli


@pytest.mark.parametrize(("command", "printed"), STEPS, ids=[command for command, _ in STEPS])
def test_a_command_prints_what_the_page_says(described: Cli, command: str, printed: str):
    done = described(*shlex.split(command))
    assert done.code == 0, done.err
    # Columns are as wide as their widest cell, so their spaces do not count.
    expected = ".*".join(re.escape(part) for part in squeezed(printed).split("…"))
    assert re.fullmatch(expected, squeezed(done.out), re.DOTALL), done.out


def squeezed(text: str) -> str:
    return "\n".join(re.sub(r" +", " ", line).strip() for line in text.strip().splitlines())


def test_the_page_shows_each_command_that_it_is_about():
    shown = " ".join(command for command, _ in STEPS)
    for words in ("debug prompt", "--call", "--diff", "cost", "--by section", "agent model"):
        assert words in shown
