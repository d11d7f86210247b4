"""Standard input, output and error as shells hand them over: bytes that are no text, ASCII, full, closed, broken."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.conftest import DEADLINE_S, Cli

BAD = b"bad\xffbyte"


def in_shell(cli: Cli, script: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of shell; `holon` in it is the command on this home."""
    words = " ".join(f"'{word}'" for word in cli.command())
    whole = f'holon() {{ {words} "$@"; }}; {script}'
    return subprocess.run(
        ["bash", "-c", whole],
        env=cli.environ(**env),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (r"holon prompt $'bad\xffbyte'", rb"the argument 'bad\xffbyte' is not UTF-8"),
        (r"holon run $'bad\xffbyte'", rb"the argument 'bad\xffbyte' is not UTF-8"),
        (r"holon prompt hello --agent $'bad\xffbyte'", rb"the argument 'bad\xffbyte' is not UTF-8"),
        (r"printf 'bad\xffbyte' | holon prompt -", b"standard input is not UTF-8 (byte 3)"),
        (r"printf 'bad\xffbyte' | LC_ALL=C holon run -", b"standard input is not UTF-8 (byte 3)"),
        (r"holon prompt - <&-", b"standard input is closed"),
    ],
)
def test_what_is_no_text_is_refused_with_a_sentence(daemon: Cli, script: str, what: bytes):
    done = in_shell(daemon, script)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: " + what)
    assert done.stderr.count(b"\n") == 1


def test_what_is_no_text_is_a_problem_for_programs(daemon: Cli):
    done = in_shell(daemon, r"holon prompt --json $'bad\xffbyte'")
    assert (done.returncode, json.loads(done.stderr)["code"]) == (2, "invalid_input")


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}])
def test_an_answer_that_the_terminal_cannot_show_is_escaped_and_not_lost(daemon: Cli, env: dict[str, str]):
    done = in_shell(daemon, "holon prompt 'é→😀'", **env)
    assert done.returncode == 0, done.stderr
    encoding = env["PYTHONIOENCODING"]
    assert done.stdout == "é→😀\n".encode(encoding, "backslashreplace")

    for_programs = in_shell(daemon, "holon prompt --json 'é→😀'", **env)
    assert json.loads(for_programs.stdout.decode("ascii"))["text"] == "é→😀"


def test_text_is_understood_where_the_locale_is_not_utf8(daemon: Cli):
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert json.loads(in_shell(daemon, "holon prompt --json 'é→😀'", **env).stdout)["text"] == "é→😀"


@pytest.mark.parametrize("command", ["transcript", "status --json", "prompt hello", "--help", "--version"])
def test_a_full_disk_behind_the_output_is_said_and_is_no_mistake_of_ours(daemon: Cli, command: str):
    done = in_shell(daemon, f"holon {command} > /dev/full")
    assert done.returncode == 1
    assert b"standard output cannot be written (No space left on device)" in done.stderr
    assert b"Holon made a mistake" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.parametrize("command", ["status", "transcript --json", "--help", "--version"])
def test_a_closed_output_is_said_before_anything_is_done(daemon: Cli, command: str):
    done = in_shell(daemon, f"holon {command} >&-")
    assert done.returncode == 1
    assert b"standard output cannot be written (it is closed)" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("place", ["2>&-", "2>/dev/full"])
def test_what_is_said_beside_the_result_may_be_lost_the_result_may_not(daemon: Cli, place: str):
    done = in_shell(daemon, f"holon prompt hello {place}")
    assert (done.returncode, done.stdout) == (0, b"hello\n")


def test_a_reader_that_goes_away_is_left_in_peace(daemon: Cli):
    done = in_shell(daemon, "holon status | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == (b"141\n", b"")
