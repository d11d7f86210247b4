"""The demo: one agent's life in half a minute, offline, in a temporary home.

    make demo            (or: python examples/demo.py [--keep])

A daemon is started; an agent is woken by a prompt, by a timer and by an outside trigger, and answers each. Then the
daemon is killed with SIGKILL in the middle of a turn. It is started again, and the turn goes on where it stopped.
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

SCRIPT = Path(__file__).parent / "demo.yaml"
DEADLINE_S = 30.0
BOLD, DIM, GREEN, RED, OFF = (
    ("\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m") if sys.stdout.isatty() else ("", "", "", "", "")
)


class Daemon:
    """A real `holon serve` process on a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.client = Client(UnixAddress(path=home / "run" / "holon.sock", home=home))
        self.process: subprocess.Popen[str] | None = None
        self.http = ""

    def start(self) -> None:
        environment = {**os.environ, "HOLON_HOME": str(self.home), "HOLON_MODEL": f"scripted/{SCRIPT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holon", "serve", "--port", "0", "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.http = json.loads(self.process.stdout.readline())["http_addr"]

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

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

    def wait_for(self, found: Callable[[EventEnvelope], bool]) -> EventEnvelope:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            for envelope in list(self.events):
                if found(envelope):
                    return envelope
            time.sleep(0.02)
        raise SystemExit("the demo waited in vain; please report this with the output above")


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


def says(text: str) -> Callable[[EventEnvelope], bool]:
    return lambda event: event.type == "brief_created" and text in event.payload["text"]


def scene(number: int, title: str) -> None:
    print(f"\n{BOLD}{number}. {title}{OFF}", flush=True)


def play(home: Path) -> None:
    daemon = Daemon(home)
    try:
        scene(1, "A daemon starts, and an agent is there, asleep")
        daemon.start()
        witness = Witness(daemon)
        witness.start()
        print(f"   Holon serves {home} on a local socket and on {daemon.http}")

        scene(2, "A prompt wakes it")
        prompt(daemon, "Say hello to the reader.")
        witness.wait_for(says("Hello"))

        scene(3, "A timer wakes it, one second later")
        daemon.client.post("/control/agents/main/timers", {"duration_ms": 1000, "summary": "Look at the clock."})
        witness.wait_for(says("clock"))

        scene(4, "An outside system wakes it through its trigger URL")
        url = daemon.client.post("/control/agents/main/trigger/reveal")["trigger_url"]
        deliver(url, {"build": 417, "result": "green"})
        witness.wait_for(says("417"))

        scene(5, "A longer job begins, and the daemon is killed with SIGKILL in the middle of it")
        prompt(daemon, "Do the long job.")
        witness.wait_for(lambda event: event.type == "tool_executed")
        daemon.kill()
        print(f"   {RED}killed{OFF} (process {daemon.process.pid if daemon.process else '?'} is gone)")

        scene(6, "It comes back, and the turn goes on where it stopped")
        daemon.start()
        witness.wait_for(says("although the process was killed"))
        witness.wait_for(says("exactly once"))
        time.sleep(0.2)
        report(daemon)
    finally:
        daemon.stop()


def prompt(daemon: Daemon, text: str) -> None:
    daemon.client.post("/control/agents/main/prompt", {"text": text})


def deliver(url: str, payload: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url, data=json.dumps(payload).encode(), headers={"Content-Type": "application/json", "X-Holon-Source": "ci"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status in (200, 202), answer.status


def report(daemon: Daemon) -> None:
    status = daemon.client.get("/agents/main/status")
    agent, usage = status["agent"], status["token_usage"]
    turns = agent["turn_index"]
    briefs = [brief for brief in daemon.client.get("/agents/main/briefs", limit=50) if brief["kind"] == "result"]
    print(f"\n{BOLD}What it comes to{OFF}")
    print(f"   {turns} turns, {usage['total_model_rounds']} rounds, {usage['total']['total_tokens']} tokens")
    print(f"   {len(briefs)} results for {turns} turns: nothing lost, nothing done twice")
    if len(briefs) != turns:
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
