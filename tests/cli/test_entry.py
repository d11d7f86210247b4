"""The way in: version, help, misuse, and what is said when no Holon runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import holon
from holon.cli import reference
from holon.cli.application import invoke, tree
from tests.cli.conftest import Cli

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, child in below.items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(tree()))
#: Commands that work without a Holon.
ALONE = {
    ("run",),
    ("serve",),
    ("models",),
    ("doctor",),
    *(path for path in COMMANDS if path[0] == "config"),
    *(("skills", verb) for verb in ("new", "lint", "test")),
}


def test_the_version_is_printed_without_loading_the_command_tree():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "holon", "--version"], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert done.stdout == f"holon {holon.__version__}\n"
    assert loaded.isdisjoint({"typer", "rich", "msgspec", "litestar", "uvicorn", "asyncio", "sqlite3"})


def test_the_command_tree_loads_neither_the_runtime_nor_a_server():
    code = "import sys, holon.cli.application as a; a.tree(); print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"litestar", "uvicorn", "sqlite3", "rich.table", "pydantic", "holon.store", "holon.runtime.host"}
    assert heavy.isdisjoint(loaded)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_shows_an_example_of_itself(path, capsys):
    assert invoke([*path, "--help"]) == 0
    _, found, example = capsys.readouterr().out.partition("Example:\n")
    assert found
    assert f"holon {' '.join(path)}" in example


def test_without_arguments_the_help_is_shown(capsys):
    assert invoke([]) == 0
    assert capsys.readouterr().out.startswith("Usage: holon [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["walk"], "error: no such command 'walk' (did you mean 'wake'?): see 'holon --help'\n"),
        (["agent"], "error: missing command: see 'holon agent --help'\n"),
        (["run"], "error: missing argument 'TEXT': see 'holon run --help'\n"),
        (["tail", "--limit", "x"], "error: invalid value for '--limit' / '-n': 'x' is not a valid int"),
        (["status", "--shout"], "error: no such option: --shout"),
        (["run", " "], "error: the text is empty: say what the agent should do"),
        (["run", "--create-agent", "x"], "error: --create-agent needs the agent's name: add --agent NAME"),
        (["timer", "create"], "error: a timer needs a time: give --after 10s, --every 1h or both\n"),
        (["timer", "create", "--after", "soon"], "error: 'soon' is not a duration: write it like 10s"),
        (
            ["timer", "create", "--after", "0s"],
            "error: --after 0s is no time to wait: give at least 1 ms",
        ),
        (["agent", "create", ""], "error: the agent's id is empty: 'holon agent list' shows"),
        (["timer", "cancel", "", "--agent", "main"], "error: an id is empty: give the id"),
        (["prompt", "hello", "--agent", ""], "error: the agent's id is empty"),
        (["run", "hello", "--agent", ""], "error: the agent's id is empty: name an agent"),
        (["status", "--token-file", "/nowhere"], "error: --token-file is for a Holon over TCP, and none is named: add"),
        (["timer", "create", "--after", "1s", "--after-ms", "9"], "error: --after and --after-ms say the same"),
        (["serve", "--listen", "here"], "error: 'here' is not HOST:PORT: write it like 127.0.0.1:7878\n"),
        (["serve", "--listen", "a:1", "--port", "2"], "error: --listen says both host and port"),
        (["status", "--url", "ftp://x"], "error: 'ftp://x' is not the URL of a Holon: write it like http://"),
        (["status", "--url", "http://127.0.0.1:x"], "error: 'http://127.0.0.1:x' is not the URL of a Holon"),
        (["config", "get", "colour"], "error: there is no setting 'colour': 'holon config schema' lists them all\n"),
        (["config", "set", "model.default", ""], "error: model.default may not be empty: 'holon config unset model.d"),
        (["config", "set", "http.socket", " "], "error: http.socket may not be empty: 'holon config unset http.so"),
        (["config", "set", "model.default", "echo"], "error: 'echo' does not name a model: expected provider/model"),
        (["config", "set", "model.fallbacks", "a/b,c"], "error: 'c' does not name a model: expected provider/model"),
        (["config", "set", "http.addr", "x"], "error: http.addr = 'x' is not valid"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_is_answered_with_one_sentence_and_the_next_step(arguments, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOLON_HOME", str(tmp_path))
    assert invoke(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_misuse_is_a_problem_document_for_programs(capsys):
    assert invoke(["tail", "--json", "--limit", "0"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err) == {
        "type": "urn:holon:problem:invalid_input",
        "title": "Invalid input",
        "status": 400,
        "detail": "invalid value for '--limit' / '-n': 0 is not in the range 1<=x<=500",
        "code": "invalid_input",
        "hint": "see 'holon tail --help'",
    }


#: Arguments with which each of these commands is complete.
COMPLETE: dict[tuple[str, ...], list[str]] = {
    ("prompt",): ["hello"],
    ("timer", "create"): ["--after", "1s"],
    ("timer", "cancel"): ["timer_1"],
    ("agent", "model", "set"): ["scripted/echo"],
    ("workspace", "use"): ["."],
    ("workspace", "detach"): ["ws_1"],
    ("workspace", "remove-worktree"): ["/srv/tree"],
    ("task", "input"): ["task_1", "hello"],
    **{("task", verb): ["task_1"] for verb in ("status", "stop", "output", "remove-worktree")},
    ("skills", "install"): ["https://example.org/skills.git"],
    **{("skills", verb): ["release-notes"] for verb in ("show", "uninstall")},
    **{("agent", verb): ["main"] for verb in ("create", "pause", "resume", "stop", "abort")},
}


@pytest.mark.parametrize("path", sorted(set(COMMANDS) - ALONE), ids=" ".join)
def test_without_a_running_holon_a_command_says_how_to_start_one(path, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOLON_HOME", str(tmp_path))
    assert invoke([*path, *COMPLETE.get(path, [])]) == 2
    assert capsys.readouterr() == ("", f"error: no Holon is running on {tmp_path}: start one with 'holon serve'\n")
    assert list(tmp_path.iterdir()) == []


def test_a_socket_that_a_dead_process_left_is_no_running_holon(capsys, monkeypatch, cli):
    import socket

    (cli.home / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(cli.home / "run" / "holon.sock"))
    monkeypatch.setenv("HOLON_HOME", str(cli.home))
    assert invoke(["status"]) == 2
    assert "start one with 'holon serve'" in capsys.readouterr().err


def test_an_error_is_said_in_one_line_and_traced_on_request(cli: Cli):
    (cli.home / "config.json").mkdir()
    plain, traced = cli("config", "list"), cli("config", "list", HOLON_DEBUG="1")
    assert plain.code == traced.code == 2
    assert plain.err.startswith("error: ")
    assert "Traceback" not in plain.err
    assert "Traceback" in traced.err


@pytest.mark.spec("RT-466")
def test_help_and_documentation_name_the_steps_of_troubleshooting_in_order():
    steps = ["run --json", "daemon status", "daemon logs", "status", "tail", "transcript", "tui", "serve"]
    root = tree().get_help(typer.Context(tree(), info_name="holon"))
    for text in (root.partition("in this order:")[2], DOCS.read_text().partition("Look in this order")[2]):
        at = 0
        for step in steps:
            found = text.find(step, at)
            assert found >= 0, step
            at = found + len(step)


def test_the_reference_in_the_docs_is_up_to_date():
    assert DOCS.read_text() == reference.reference(), "run: python -m holon.cli.reference > docs/cli.md"
