"""Serving: from readiness to a graceful end, in this process and in one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from holon.core.errors import HomeBusy
from holon.server import tokens
from tests.server.harness import DEADLINE_S, Running, running, until

#: A process that serves a home and says when it is ready: what `holon serve` does.
SERVE = """
import asyncio, sys
from pathlib import Path
from holon.runtime.host import Host
from holon.runtime.settings import load_settings
from holon.server.serving import serve

async def main():
    settings = load_settings(Path(sys.argv[1]), {}, http_port=0)
    async with await Host.open(settings, purpose="serve") as host:
        await serve(host, on_ready=lambda said: print(said.http_addr, flush=True))

asyncio.run(main())
"""


def end_of(server: Running) -> None:
    """Waits until nobody listens any more."""

    def refused() -> bool:
        try:
            with server.local_client() as client:
                client.get("/")
        except httpx.TransportError:
            return True
        return False

    until(refused)


def test_the_root_says_who_is_there(server: Running) -> None:
    for client in (server.local, server.tcp, server.stranger):
        assert client.get("/").json() == {"ok": True, "default_agent": "main"}
    assert server.local.get("/control/runtime/readiness").json() == {"ok": True, "ready": True}


@pytest.mark.spec("RT-424")
def test_the_runtime_tells_how_it_is_and_ends_when_it_is_asked_to(server: Running) -> None:
    status = server.tcp.get("/control/runtime/status").json()

    assert (status["ok"], status["healthy"], status["pid"]) == (True, True, os.getpid())
    assert status["startup_surface"]["http_addr"] == server.announcement.http_addr
    assert status["startup_surface"]["socket_path"] == server.socket_path
    assert status["activity"]["active_agent_count"] == 1

    answer = server.tcp.post("/control/runtime/shutdown")

    assert (answer.status_code, answer.json()) == (202, {"ok": True, "shutting_down": True})
    end_of(server)


@pytest.mark.spec("RT-425")
def test_after_a_shutdown_and_a_restart_agents_are_not_stopped_and_go_on(home: Path) -> None:
    with running(home) as server:
        server.local.post("/control/agents/other/create")
        server.settled(server.prompt("one"))
        server.until_status("asleep")
        server.local.post("/control/runtime/shutdown")
        end_of(server)

    with running(home) as server:
        statuses = {line["identity"]["agent_id"]: line["status"] for line in server.local.get("/agents/list").json()}
        assert set(statuses) == {"main", "other"}
        assert "stopped" not in statuses.values()
        assert server.settled(server.prompt("two"))["queue"]["status"] == "processed"


def test_an_open_stream_ends_with_a_word_when_the_runtime_does(server: Running) -> None:
    lines: list[str] = []
    following = threading.Event()

    def follow() -> None:
        with (
            server.local_client() as client,
            client.stream("GET", "/agents/main/events/stream", params={"after_seq": 0}) as answer,
        ):
            for line in answer.iter_lines():
                lines.append(line)
                following.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert following.wait(DEADLINE_S)
    server.local.post("/control/runtime/shutdown")
    thread.join(DEADLINE_S)

    assert not thread.is_alive()
    assert ": the runtime shuts down" in lines


def test_a_run_that_is_under_way_does_not_keep_the_runtime_from_ending_and_is_taken_up_again(home: Path) -> None:
    with running(home) as server:
        message_id = server.prompt("slow one")
        until(lambda: server.local.get("/status").json()["agent"].get("current_turn_id"))
        server.local.post("/control/runtime/shutdown")
        end_of(server)

    with running(home) as server:
        until(lambda: server.local.get("/status").json()["agent"].get("current_turn_id"))
        status = server.local.get(f"/control/agents/main/messages/{message_id}").json()
        assert status["queue"]["status"] == "dequeued"
        (resumed,) = [event for event in server.events() if event["type"] == "turn_resumed"]
        assert resumed["turn_id"] == status["turn"]["id"]


def test_a_home_that_is_served_is_not_served_twice(server: Running) -> None:
    with pytest.raises(HomeBusy), running(server.settings.home):
        pass

    assert server.local.get("/").status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_serving_process_in_order(home: Path, number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(home)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        announced = json.loads((home / "run" / "daemon.json").read_text())
        assert (announced["pid"], announced["http_addr"]) == (process.pid, address)
        with (
            httpx.Client(transport=httpx.HTTPTransport(uds=announced["socket_path"])) as client,
            client.stream("GET", "http://holon/agents/main/events/stream", params={"after_seq": 0}) as stream,
        ):
            lines = stream.iter_lines()
            next(lines)
            process.send_signal(number)
            assert list(lines)[-2:] == [": the runtime shuts down", ""]
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()

    assert not (home / "run" / "daemon.json").exists()
    assert not (home / "run" / "holon.sock").exists()


def test_a_process_that_lost_its_home_ends_by_itself_and_leaves_the_door_to_its_successor(home: Path) -> None:
    command = [sys.executable, "-m", "holon", "serve", "--home", str(home), "--listen", "127.0.0.1:0", "--json"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        ready = json.loads(first.stdout.readline())
        (home / "run").rename(home / "lost")  # with it the lock and the door: nothing keeps a second process off
        with running(home) as second:
            token = tokens.issue(home, "laptop")
            old = httpx.Client(base_url=f"http://{ready['http_addr']}", headers={"authorization": f"Bearer {token}"})
            with old:
                answer = old.post("/control/agents/main/prompt", json={"text": "hello"}, timeout=DEADLINE_S)
            said = first.communicate(timeout=DEADLINE_S)[1]

            assert (answer.status_code, answer.json()["code"]) == (409, "fenced")
            assert first.returncode == 2
            assert "another process has taken over" in said
            assert json.loads((home / "run" / "daemon.json").read_text())["http_addr"] == second.announcement.http_addr
            with second.local_client() as client:
                assert client.get("/status").status_code == 200
        assert not (home / "run" / "holon.sock").exists()
    finally:
        first.kill()
        first.wait()


def test_a_process_that_was_killed_leaves_nothing_in_the_way_of_the_next(home: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    assert (home / "run" / "holon.sock").exists()

    with running(home) as server:
        assert server.local.get("/").status_code == 200
