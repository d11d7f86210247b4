"""Connections: callers without a token neither lock the operator out nor hold others up. Real sockets, real waits."""

from __future__ import annotations

import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from holon.server.connections import Bounds, _half_of_the_descriptors
from tests.server.harness import DEADLINE_S, TOKEN, Running, running, until

#: Long enough for a request on a busy machine, short enough to wait for.
SHORT = 0.4
BOUNDS = Bounds(head_seconds=SHORT, body_seconds=SHORT, idle_seconds=SHORT, head_bytes=4_096, connections=8)
FLOOD = 64 << 20
POST = f"POST /control/agents/main/prompt HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


@pytest.fixture
def bounded(home: Path) -> Iterator[Running]:
    with running(home, bounds=BOUNDS) as server:
        yield server


@contextmanager
def caller(server: Running) -> Iterator[socket.socket]:
    host, port = server.announcement.http_addr.split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as line:
        yield line


def said(line: socket.socket) -> bytes:
    """All that comes until the server closes the connection; fails if it does not."""
    heard = b""
    with suppress(ConnectionResetError):
        while piece := line.recv(65_536):
            heard += piece
    return heard


def is_open(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return line.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        line.settimeout(DEADLINE_S)


def flood(line: socket.socket) -> int:
    """Sends without an end until something is said to that; returns how much was sent."""
    sent = 0
    while sent < FLOOD and not select.select([line], [], [], 0)[0]:
        with suppress(OSError):
            line.sendall(b"x" * 65_536)
        sent += 65_536
    return sent


def test_a_connection_that_says_nothing_is_closed(bounded: Running) -> None:
    with caller(bounded) as line:
        assert said(line) == b""


@pytest.mark.parametrize("drip", [b"A: x\r\n", b"\r\n"])
def test_a_head_that_does_not_end_in_time_is_refused_however_busily_it_is_sent(bounded: Running, drip: bytes) -> None:
    began = time.monotonic()
    with caller(bounded) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" if drip != b"\r\n" else b"")
        with suppress(OSError):
            while is_open(line) and time.monotonic() < began + DEADLINE_S:
                line.sendall(drip)
                time.sleep(SHORT / 8)
        answer = said(line)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in answer
    assert bounded.stranger.get("/").status_code == 200


def test_an_endless_head_is_refused_at_once_and_nobody_else_waits(bounded: Running) -> None:
    with caller(bounded) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        sent = flood(line)
        assert bounded.stranger.get("/").status_code == 200
        answer = said(line)

    assert sent < FLOOD
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("size", [BOUNDS.head_bytes, 200_000])
def test_a_whole_head_that_is_too_long_is_refused_with_its_code(bounded: Running, size: int) -> None:
    answer = bounded.stranger.get("/", headers={"a": "x" * size})

    assert (answer.status_code, answer.json()["code"]) == (431, "head_too_large")
    assert answer.json()["hint"]


def test_headers_after_a_chunked_body_are_bounded_as_those_before_it(bounded: Running) -> None:
    with caller(bounded) as line:
        line.sendall(b"POST /status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ")
        assert line.recv(65_536).startswith(b"HTTP/1.1 401 ")
        sent = flood(line)

    assert sent < FLOOD


def test_a_body_larger_than_a_head_may_be_is_no_head(bounded: Running) -> None:
    answer = bounded.tcp.post("/control/agents/main/prompt", json={"text": "x" * BOUNDS.head_bytes * 4})

    assert answer.status_code == 202


def test_a_body_that_trickles_is_refused(bounded: Running) -> None:
    with caller(bounded) as line:
        line.sendall(POST + b"Content-Length: 1000\r\n\r\n")
        with suppress(OSError):
            while is_open(line):
                line.sendall(b" ")
                time.sleep(SHORT / 8)
        answer = said(line)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body of the request" in answer


def test_a_refused_caller_does_not_keep_the_line_by_sending_its_body(bounded: Running) -> None:
    began = time.monotonic()
    with caller(bounded) as line:
        line.sendall(b"POST /status HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        with suppress(OSError):
            while time.monotonic() < began + DEADLINE_S:
                line.sendall(b"x" * 1_000)
                time.sleep(SHORT / 8)

    assert time.monotonic() < began + DEADLINE_S / 2


def test_an_idle_connection_is_used_again_and_closed_after_a_while(bounded: Running) -> None:
    with caller(bounded) as line:
        for _ in range(2):
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert line.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert said(line) == b""


def test_a_stream_lasts_longer_than_any_of_these_times(bounded: Running) -> None:
    with caller(bounded) as line:
        line.sendall(b"GET /agents/main/events/stream HTTP/1.1\r\nHost: x\r\n")
        line.sendall(f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        heard = b""
        while b"retry: 1000" not in heard:
            heard += line.recv(65_536)
        time.sleep(SHORT * 3)
        assert is_open(line)


def test_an_answer_that_nobody_reads_is_given_up(home: Path) -> None:
    with running(home, bounds=Bounds(stall_seconds=SHORT)) as server, caller(server) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with suppress(OSError):
            for _ in range(2_000):  # each is answered with a large document; none is read
                line.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: _sending_fails(line))


def _sending_fails(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        line.send(b"G")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def test_where_connections_are_too_many_the_one_that_waited_longest_gives_way(home: Path) -> None:
    with running(home, bounds=Bounds(connections=8)) as server, ExitStack() as lines:
        idle = [lines.enter_context(caller(server)) for _ in range(20)]

        assert server.stranger.get("/").status_code == 200
        assert server.local.get("/status").status_code == 200
        assert not is_open(idle[0])
        assert is_open(idle[-1])


def test_where_all_connections_are_at_work_a_new_one_is_told_to_come_again(home: Path) -> None:
    with running(home, bounds=Bounds(connections=2)) as server, ExitStack() as lines:
        for _ in range(2):
            busy = lines.enter_context(caller(server))
            busy.sendall(POST + b"Content-Length: 1000\r\n\r\n ")
        time.sleep(SHORT)
        refused = lines.enter_context(caller(server))
        answer = said(refused)

        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"too_many_connections"' in answer
        assert b"retry-after: 1" in answer
        assert server.local.get("/status").status_code == 200, "the local socket is not counted"


def test_half_of_the_descriptors_are_kept_from_callers() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert 0 < Bounds().most() == _half_of_the_descriptors() <= soft // 2


#: A server that may have few descriptors.
SERVE = """
import asyncio, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from holon.runtime.host import Host
from holon.runtime.settings import load_settings
from holon.server.serving import serve

async def main():
    async with await Host.open(load_settings(Path(sys.argv[1]), {}, http_port=0)) as host:
        await serve(host, on_ready=lambda said: print(said.http_addr, said.socket_path, flush=True))

with asyncio.Runner(loop_factory=__import__(sys.argv[2]).new_event_loop) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_more_connections_than_descriptors_leave_the_local_socket_open(home: Path, loop: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(home), loop], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address, path = process.stdout.readline().split()
        host, port = address.split(":")
        with ExitStack() as lines:
            for _ in range(400):
                lines.enter_context(socket.create_connection((host, int(port)), timeout=DEADLINE_S))
            transport = httpx.HTTPTransport(uds=path)
            with httpx.Client(transport=transport, base_url="http://holon", timeout=DEADLINE_S) as local:
                assert local.get("/status").status_code == 200
                assert local.post("/control/agents/main/prompt", json={"text": "hello"}).status_code == 202
            assert httpx.get(f"http://{address}/", timeout=DEADLINE_S).status_code == 200, "strangers give way"
    finally:
        process.kill()
        process.wait()
