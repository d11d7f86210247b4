"""docs/http.md is true: every console block is run against a real server, and prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holon.server import routes
from tests.server.harness import TOKEN, Running, running, short_home

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
_MARK = "::ended::"

pytestmark = [
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on this machine"),
]


class Step(NamedTuple):
    command: str
    printed: str


def steps(block: str) -> list[Step]:
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", block, re.MULTILINE)
    return [Step(command, printed.strip()) for command, printed in found]


@pytest.fixture(scope="module")
def user() -> Iterator[tuple[Path, Running]]:
    """Somebody whose home directory has a Holon that runs, and who has said hello to it."""
    with short_home() as folder, running(folder / ".holon", event_heartbeat_ms=50) as server:
        server.settled(server.prompt("hello"))
        yield folder, server


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_prints_what_the_page_says(user: tuple[Path, Running], block: str) -> None:
    folder, server = user
    address = server.announcement.http_addr
    page_address = "127.0.0.1:7878"
    script = "".join(f"{step.command}\necho\necho {_MARK}$?\n" for step in steps(block)).replace(page_address, address)

    ran = subprocess.run(
        ["bash", "-c", script],
        env={"HOME": str(folder), "PATH": os.environ["PATH"], "HOLON_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=30,
    )

    outputs = re.findall(rf"(.*?)\n*{_MARK}(\d+)\n", ran.stdout, re.DOTALL)
    assert len(outputs) == len(steps(block)), ran
    for step, (output, exit_code) in zip(steps(block), outputs, strict=True):
        assert exit_code == "0", (step.command, output, ran.stderr)
        expected = ".*".join(re.escape(part) for part in step.printed.replace(page_address, address).split("…"))
        assert re.fullmatch(expected, output.strip().replace("\r", ""), re.DOTALL), (step.command, output)


def test_the_page_has_blocks_and_each_has_a_command() -> None:
    assert len(BLOCKS) >= 9
    assert all(steps(block) for block in BLOCKS)


def test_every_group_of_routes_is_on_the_page() -> None:
    page = PAGE.read_text()
    last_words = {
        path.replace(":str", "").rstrip("/").rpartition("/")[2] for handler in routes.ALL for path in handler.paths
    }

    missing = {word for word in last_words if word and not word.startswith("{") and word not in page}
    assert missing == set()
