"""The README keeps its word: its links lead somewhere, its words of make exist, its commands run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()


def commands() -> list[str]:
    """The `holon` commands of the README, without their comments."""
    found = re.findall(r"^\$ \.venv/bin/holon (.+?)(?:\s+#.*)?$", README, re.MULTILINE)
    return [line for line in found if not line.startswith("serve")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A home with a daemon, as the README asks for."""
    home = tmp_path_factory.mktemp("home")
    keys = ("HOLON_", "ANTHROPIC_", "OPENAI_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(keys)}
    environment = {**inherited, "HOLON_HOME": str(home), "HOME": str(home), "NO_COLOR": "1"}
    serving = [sys.executable, "-m", "holon", "serve", "--port", "0", "--json"]
    with subprocess.Popen(serving, env=environment, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert json.loads(daemon.stdout.readline())["event"] == "ready"
        yield environment
        daemon.terminate()
        daemon.wait(timeout=20)


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_readme_runs(line: str, environment: dict[str, str]) -> None:
    words = shlex.split(line)
    if "--model" in words:  # without a key the answer says what is missing, and what to do
        words = ["doctor"]
    if "--follow" in words:
        words.remove("--follow")  # it would never end
    ran = subprocess.run(
        [sys.executable, "-m", "holon", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_words_of_make_exist() -> None:
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`", README)) | set(re.findall(r"^\$ make ([a-z]+)$", README, re.MULTILINE))
    assert named
    assert named <= made
