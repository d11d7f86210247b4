"""The demo: one agent's life in a quarter of a minute, offline, in a temporary home.

    make demo            (or: python examples/demo.py [--keep])

A daemon is started; an agent is woken by a prompt, by a timer and by an outside trigger, and answers each. Then it gets
a real job: in a small repository the tests fail; it looks, mends the cause, runs the tests and starts a slow check. The
daemon is killed with SIGKILL while the check runs. It comes back, the check was not disturbed, and the agent reports.
Everything shown is read from the daemon's own event log, while it happens.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holon.cli.client import Client, UnixAddress
from holon.cli.streams import follow
from holon.core.errors import HolonError
from holon.core.events import Event, EventEnvelope
from holon.core.presentation import DisplayMode, present, shown_in

ROOT = Path(__file__).parent.parent
SCRIPT = Path(__file__).parent / "demo.yaml"
DEADLINE_S = 120.0
JOB = """In work/project, inside your home, the unit tests fail. Find out why with the shell, mend the cause with
ApplyPatch, and run `python3 -m unittest -q` there again. Then start `sh slow-check.sh` there with yield_time_ms 300, so
that it goes on as a task, and end your turn. When its result comes, report in two sentences. Use login false."""
#: With one of these keys in the environment the same job runs on a real model.
KEYS = {"ANTHROPIC_API_KEY": "anthropic/claude-haiku-4-5", "OPENAI_API_KEY": "openai/gpt-5"}
BOLD, DIM, GREEN, RED, OFF = (
    ("\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m") if sys.stdout.isatty() else ("", "", "", "", "")
)


class Model:
    """The model that the agent thinks with: a real one if there is a key, else its twin on this machine."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        key = next((name for name in KEYS if os.environ.get(name)), None)
        self.ref = KEYS[key or "ANTHROPIC_API_KEY"]
        self.environment: dict[str, str] = {}
        self.words = f"the real {self.ref}, with your {key}"
        if key is None:
            self._start_twin()

    def _start_twin(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "twins", "--script", str(SCRIPT)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        urls = json.loads(self.process.stdout.readline())
        self.environment = {"ANTHROPIC_BASE_URL": urls["anthropic_url"], "ANTHROPIC_API_KEY": "twin-demo"}
        self.words = f"a twin of {self.ref}: it speaks the real wire and bills by the published prices"

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=10)


class Daemon:
    """A real `holon serve` process on a home of its own."""

    def __init__(self, home: Path, model: Model) -> None:
        self.home, self.model = home, model
        self.client = Client(UnixAddress(path=home / "run" / "holon.sock", home=home))
        self.process: subprocess.Popen[str] | None = None
        self.http = ""

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holon", "serve", "--port", "0", "--json"],
            env={
                **os.environ,
                **self.model.environment,
                "HOLON_HOME": str(self.home),
                "HOME": str(self.home),  # templates and skills of the demo stay in its own folder
                "HOLON_MODEL": self.model.ref,
                "PYTHONPATH": str(ROOT / "src"),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.http = json.loads(self.process.stdout.readline())["http_addr"]

    def kill(self) -> int:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return self.process.pid

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=10)


class Witness(threading.Thread):
    """Prints the agent's events as they are committed. It follows by number, so a restart loses it nothing."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon=True)
        self.events: list[EventEnvelope] = []
        self._daemon = daemon

    def run(self) -> None:
        try:
            for envelope in follow(self._daemon.client, "main", 0):
                self.events.append(envelope)
                line = spoken(envelope)
                if line:
                    print(f"   {DIM}{envelope.event_seq:4d}{OFF}  {line}", flush=True)
        except (HolonError, OSError):
            return  # the daemon has ended for good

    def wait_for(self, found: Callable[[EventEnvelope], bool], after_seq: int = 0) -> EventEnvelope:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for envelope in list(self.events):
                if envelope.event_seq > after_seq and found(envelope):
                    return envelope
            time.sleep(0.02)
        raise SystemExit("the demo waited in vain; please report this with the output above")

    @property
    def seen(self) -> int:
        return self.events[-1].event_seq if self.events else 0


def spoken(envelope: EventEnvelope) -> str | None:
    event = Event(
        id=envelope.id,
        agent_id=envelope.agent_id,
        event_seq=envelope.event_seq,
        created_at=envelope.ts,
        kind=envelope.type,
        payload=envelope.payload,
    )
    if not shown_in(event, DisplayMode.VERBOSE):
        return None
    shown = present(event)
    return f"{GREEN}{shown.title}: {shown.summary}{OFF}" if envelope.type == "brief_created" else shown.summary


def result(event: EventEnvelope) -> bool:
    return event.type == "brief_created" and event.payload["brief_kind"] == "result"


def scene(number: int, title: str) -> None:
    print(f"\n{BOLD}{number}. {title}{OFF}", flush=True)


def play(home: Path) -> None:
    model = Model()
    daemon = Daemon(home, model)
    try:
        scene(1, "A daemon starts, and an agent is there, asleep")
        daemon.start()
        witness = Witness(daemon)
        witness.start()
        print(f"   Holon serves {home} on a local socket and on {daemon.http}")
        print(f"   The model is {model.words}")

        scene(2, "A prompt wakes it")
        seen = witness.seen
        prompt(daemon, "Say hello to the reader in one sentence.")
        witness.wait_for(result, seen)

        scene(3, "A timer wakes it, one second later")
        seen = witness.seen
        daemon.client.post("/control/agents/main/timers", {"duration_ms": 1000, "summary": "Please look at the clock."})
        witness.wait_for(result, seen)

        scene(4, "An outside system wakes it through its trigger URL")
        seen = witness.seen
        deliver(
            daemon.client.post("/control/agents/main/trigger/reveal")["trigger_url"], {"build": 417, "result": "red"}
        )
        witness.wait_for(result, seen)

        scene(5, "It gets a real job: in a small repository the tests fail")
        project = make_project(home / "agents" / "main" / "work" / "project")
        seen = witness.seen
        prompt(daemon, JOB)
        witness.wait_for(lambda event: event.type == "task_created", seen)
        witness.wait_for(result, seen)

        scene(6, "The daemon is killed with SIGKILL while the slow check runs")
        daemon.kill()
        print(
            f"   {RED}killed{OFF} (process {daemon.process.pid if daemon.process else '?'} is gone; the check goes on)"
        )
        time.sleep(1.0)

        scene(7, "It comes back, finds the check again, takes its result and reports")
        seen = witness.seen
        daemon.start()
        witness.wait_for(result, seen)
        until_rest(daemon)
        report(daemon, project)
    finally:
        daemon.stop()
        model.stop()


def until_rest(daemon: Daemon) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        agent = daemon.client.get("/agents/main/status")["agent"]
        if agent["status"] == "asleep" and not agent.get("pending"):
            time.sleep(0.3)  # let the last lines be printed
            return
        time.sleep(0.05)


def make_project(folder: Path) -> Path:
    """A real repository whose tests fail, and a check that takes a while."""
    folder.mkdir(parents=True)
    (folder / "stats.py").write_text('"""Small statistics."""\n\n\ndef mean(values):\n    return sum(values) / 2\n')
    (folder / "test_stats.py").write_text(
        "import unittest\n\nfrom stats import mean\n\n\nclass MeanTest(unittest.TestCase):\n"
        "    def test_of_three(self):\n        self.assertEqual(mean([1, 2, 6]), 3)\n"
    )
    (folder / "slow-check.sh").write_text("sleep 4\npython3 -m unittest -q && echo the slow check passed\n")
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "A mean that is wrong"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def prompt(daemon: Daemon, text: str) -> None:
    daemon.client.post("/control/agents/main/prompt", {"text": text})


def deliver(url: str, payload: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url, data=json.dumps(payload).encode(), headers={"Content-Type": "application/json", "X-Holon-Source": "ci"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status in (200, 202), answer.status


def report(daemon: Daemon, project: Path) -> None:
    status = daemon.client.get("/agents/main/status")
    turns, usage = status["agent"]["turn_index"], status["token_usage"]
    results = [brief for brief in daemon.client.get("/agents/main/briefs", limit=50) if brief["kind"] == "result"]
    print(f"\n{BOLD}What it comes to{OFF}")
    print(f"   {turns} turns, {usage['total_model_rounds']} rounds, {usage['total']['total_tokens']} tokens")
    print(f"   {len(results)} results for {turns} turns: nothing lost, nothing done twice")
    changed = subprocess.run(["git", "diff", "--stat"], cwd=project, capture_output=True, text=True, check=True).stdout
    print(f"   in the repository:{changed.splitlines()[0] if changed else ' nothing changed'}")
    for line in daemon.client.get("/analytics/cost", by="model")["lines"]:
        sent = line["fresh"] + line["read"] + line["written"]
        print(f"   {line['key']}: ${line['dollars']:.4f}; of {sent} input tokens {line['read']} came from the cache")
    if len(results) != turns:
        raise SystemExit("that should have been one result for each turn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the home, and say where it is")
    keep = parser.parse_args().keep
    home = Path(tempfile.mkdtemp(prefix="holon-demo-"))
    began = time.monotonic()
    try:
        play(home)
        print(f"   {time.monotonic() - began:.1f} s in all" + (f"; look around in {home}" if keep else ""))
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
