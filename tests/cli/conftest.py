"""The CLI as people use it: a process of its own, on a home of its own, offline with the scripted model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

#: What the scripted model of these tests does, by the first word of its input; everything else it echoes.
SCRIPT = """
rules:
  - when: {pattern: "^fail"}
    rounds: [{fail: {kind: auth_error, message: the key is wrong}}]
  - when: {pattern: "^flaky"}
    rounds: [{fail: {status: 503, times: 1, retry_after_ms: 1}, text: better now}]
  - when: {pattern: "^rest"}
    rounds: [{text: good night, tools: [{name: Sleep, input: {reason: later, duration_ms: 3600000}}]}]
  - when: {pattern: "^again"}
    rounds: [{tools: [{name: Enqueue, input: {text: again}}], delay_ms: 300}, {text: once more}]
  - when: {pattern: "^use tools"}
    rounds: [{tools: [{name: Enqueue, input: {text: remember, priority: background}}]}, {text: used them}]
  - when: {pattern: "^how many"}
    rounds: [{text: "input {input}"}]
"""

DEADLINE_S = 30.0


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def problem(self) -> Any:
        return json.loads(self.err)


@dataclass(frozen=True)
class Cli:
    """`holon`, on one home."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str | None = None, **env: str) -> Done:
        done = subprocess.run(
            self.command(*arguments),
            env=self.environ(**env),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """What the command prints for programs; it must have worked, and said nothing else."""
        done = self(*arguments, "--json")
        assert (done.code, done.err) == (0, ""), done
        return done.json

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environ(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "holon", *arguments]

    def environ(self, **env: str) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("HOLON_", "NO_COLOR"))}
        own = {"HOLON_HOME": str(self.home), "HOME": str(self.home / "user"), "HOLON_MODEL": "scripted/actor"}
        return clean | own | self.env | env


@pytest.fixture
def cli() -> Iterator[Cli]:
    with a_home() as cli:
        yield cli


@pytest.fixture(scope="module")
def daemon() -> Iterator[Cli]:
    """A home with a Holon on it, shared by a module: its tests use agents of their own where it matters."""
    with a_home() as cli, serving(cli):
        yield cli


@contextmanager
def a_home() -> Iterator[Cli]:
    # Not tmp_path: the path of a socket must be short.
    home = Path(tempfile.mkdtemp(prefix="holon-"))
    (home / "scripts").mkdir()
    (home / "scripts" / "actor.yaml").write_text(SCRIPT)
    try:
        yield Cli(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def serving(cli: Cli, *arguments: str, **env: str) -> Iterator[dict[str, Any]]:
    """A `holon serve` in the foreground of its own process; yields its ready line."""
    process = cli.start("serve", "--listen", "127.0.0.1:0", "--json", *arguments, **env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=DEADLINE_S)
        yield json.loads(line)
    finally:
        end(process)


def end(process: subprocess.Popen[str], by: int = signal.SIGTERM) -> Done:
    """Ends a process that a test has started, and returns what it left behind."""
    if process.poll() is None:
        process.send_signal(by)
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Done(process.returncode, out, err)


def line_with(words: str, stream: IO[str] | None) -> str:
    """The next line of a running process that has these words."""
    assert stream is not None
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"the process ended without saying {words!r}")


def until(look: Callable[[], Any], what: str) -> Any:
    """The first true thing that `look` finds."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen in {DEADLINE_S:.0f} s")
