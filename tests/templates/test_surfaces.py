"""Templates over HTTP, on the command line, in the package, and on their page."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, a_home, serving
from tests.server.harness import Running, running, short_home
from tests.templates.making import TEXT, put_template

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "templates.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with short_home() as home, running(home) as server:
        yield server


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with a_home() as bare:
        cli = Cli(bare.home, {"HOME": str(bare.home / "user")})
        (cli.home / "user").mkdir()
        with serving(cli):
            yield cli


@pytest.mark.spec("RT-468", "RT-471")
def test_http_makes_an_agent_from_a_template(server: Running, tmp_path: Path) -> None:
    template = put_template(tmp_path / "tester")

    made = server.tcp.post("/control/agents/scout/create", json={"template": str(template)})

    assert made.status_code == 201, made.text
    assert (Path(made.json()["agent_home"]) / "AGENTS.md").read_text().startswith(TEXT)
    listed = {entry["template_id"]: entry for entry in server.tcp.get("/templates").json()}
    assert listed["holon-reviewer"]["included_skills"] == ["builtin code-review"]


@pytest.mark.spec("RT-472")
def test_http_refuses_with_a_problem_and_makes_nothing(server: Running) -> None:
    for body, status, code in (
        ({"template": "nobody"}, 404, "unknown_template"),
        ({"template": "a/b"}, 400, "invalid_template"),
        ({"template": 7}, 400, "invalid_input"),
        ({"templat": "x"}, 400, "invalid_input"),
    ):
        refused = server.tcp.post("/control/agents/ghost/create", json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text
        assert refused.json()["hint"]
    assert server.tcp.get("/agents/ghost/status").status_code == 404
    assert not (server.settings.agents_dir / "ghost").exists()


@pytest.mark.spec("RT-474")
def test_the_command_line_lists_templates_and_makes_agents_from_them(cli: Cli) -> None:
    listed = {entry["template_id"]: entry for entry in cli.json("agent", "templates")}
    assert {"holon-default", "holon-developer"} <= set(listed)
    assert listed["holon-default"]["path"] == str(cli.home / "user/.agents/templates/holon-default")

    made = cli.json("agent", "create", "dev", "--template", "holon-developer")

    assert "# A developer" in (Path(made["agent_home"]) / "AGENTS.md").read_text()
    refused = cli("agent", "create", "ghost", "--template", "./here", "--json")
    assert (refused.code, refused.problem["code"]) == (2, "invalid_template")
    again = cli("agent", "create", "dev", "--template", "holon-developer")
    assert again.code == 2 and "holon agent status dev" in again.err


def test_the_commands_of_the_page_print_what_it_says(cli: Cli) -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", "".join(blocks), re.MULTILINE)
    assert len(steps) == 8
    user = cli.home / "user"

    for command, printed in steps:
        ran = subprocess.run(
            ["bash", "-c", f'holon() {{ {shlex.quote(sys.executable)} -m holon "$@"; }}; {command}'],
            env=cli.environ() | {"HOME": str(user)},
            cwd=user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        expected = ".*".join(re.escape(part) for part in squeezed(printed).split("…"))
        assert re.fullmatch(expected, squeezed(ran.stdout), re.DOTALL), (command, ran.stdout)


def test_the_json_on_the_page_is_what_a_template_may_say(tmp_path: Path) -> None:
    from holon.templates.contents import read_template

    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)

    assert len(read_template(put_template(tmp_path / "t", skills=example)).skill_refs) == 3


def test_the_wheel_has_the_templates_and_skills_that_come_with_holon(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        skills = json.loads(opened.read("holon/templates/builtin/holon-reviewer/skills.json"))
    assert {f"holon/templates/builtin/holon-{name}/AGENTS.md" for name in ("default", "developer", "release")} <= names
    assert f"holon/skills/builtin/{skills['skill_refs'][0]['name']}/SKILL.md" in names


def squeezed(text: str) -> str:
    return "\n".join(re.sub(r" +", " ", line).strip() for line in text.strip().splitlines())
