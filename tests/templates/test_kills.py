"""A process that is killed while it makes an agent from a template: there is a whole agent afterwards, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skills.shelves import put_skill
from tests.templates.making import TEXT, put_template

ROOT = Path(__file__).parents[2]


def run(home: Path, template: Path | str, what: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HOLON_")}
    return subprocess.run(
        [sys.executable, "-m", "tests.templates.killed", str(home), str(template), what],
        env=environment | more,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def template(tmp_path: Path) -> Path:
    put_skill(tmp_path / "shelf", "deploy")
    refs = [{"kind": "local", "path": str(tmp_path / "shelf/deploy")}]
    return put_template(tmp_path / "template", skills=refs)


@pytest.mark.spec("RT-472")
@pytest.mark.parametrize(
    ("kill_at", "made"),
    [
        # The first of each is the default agent's.
        ("agent.create:before:2", False),
        ("agent.create:after:2", True),
        ("agent.home_made:before:2", True),
        ("agent.home_made:after:2", True),
    ],
)
def test_there_is_a_whole_agent_or_none(kill_at: str, made: bool, tmp_path: Path, template: Path) -> None:
    home = tmp_path / "home"
    died = run(home, template, "create", HOLON_KILL_AT=kill_at)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert (".staging" in os.listdir(home / "agents")) is kill_at.startswith("agent.create")

    looked = run(home, template, "look")

    assert looked.returncode == 0, looked.stderr
    assert (looked.stdout.strip() != "none") is made
    assert sorted(os.listdir(home / "agents")) == (["helper", "main"] if made else ["main"])
    again = run(home, template, "create")
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() not in ("none", "booting")
    agent = home / "agents/helper"
    assert (agent / "AGENTS.md").read_text().startswith(TEXT)
    assert (agent / "skills/deploy/SKILL.md").is_file()
    assert (agent / ".holon/state/template.json").is_file()
    assert sorted(os.listdir(home / "agents")) == ["helper", "main"]


@pytest.mark.spec("RT-472")
def test_a_kill_while_the_template_is_fetched_leaves_only_what_the_next_start_removes(
    tmp_path: Path, template: Path
) -> None:
    home, folder = tmp_path / "home", tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\nkill -9 $PPID\n")
    (folder / "git").chmod(0o755)

    url = "https://github.com/acme/agents/tree/main/tester"
    died = run(home, url, "create", PATH=f"{folder}:{os.environ['PATH']}")

    assert died.returncode == -signal.SIGKILL, died.stderr
    assert sorted(os.listdir(home / "agents")) == [".staging", "main"]
    assert run(home, template, "look").stdout.strip() == "none"
    assert os.listdir(home / "agents") == ["main"]
