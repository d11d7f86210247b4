"""The client's manners: what it does when a line breaks, and what it makes of a refusal."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holon.cli.client import Client, LineBroke, TcpAddress, refusal
from holon.cli.outcome import await_outcome
from holon.cli.seat import Seat
from holon.core.errors import OperatorError, UnknownAgent
from tests.cli.conftest import Cli

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"ok":true}'


@contextmanager
def server_that_breaks(times: int) -> Iterator[tuple[Client, list[bytes]]]:
    """Reads each request, but hangs up on the first ones without an answer."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                requests.append(whole_request(connection))
                if len(requests) > times:
                    connection.sendall(ANSWER)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield Client(TcpAddress(url=f"http://127.0.0.1:{listener.getsockname()[1]}", token="secret")), requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def whole_request(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as file:
        head = b"".join(iter(file.readline, b"\r\n"))
        length = next((int(line[15:]) for line in head.splitlines() if line.startswith(b"Content-Length:")), 0)
        return head + file.read(length)


def keys(requests: list[bytes]) -> list[str]:
    lines = b"".join(requests).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Idempotency-Key")]


def test_a_command_with_a_key_is_sent_once_more_under_the_same_key():
    with server_that_breaks(times=1) as (client, requests):
        assert client.post("/anything", {"text": "hi"}, idempotency_key="k1") == {"ok": True}
    assert keys(requests) == ["k1", "k1"]


def test_a_command_without_a_key_is_never_sent_twice():
    broke = pytest.raises(LineBroke, match="gave no answer: the connection broke")
    with server_that_breaks(times=1) as (client, requests), broke:
        client.post("/anything")
    assert len(requests) == 1


def test_a_line_that_breaks_twice_is_given_up():
    with server_that_breaks(times=2) as (client, requests), pytest.raises(LineBroke):
        client.post("/anything", idempotency_key="k1")
    assert len(requests) == 2


def test_the_token_is_sent_as_a_bearer():
    with server_that_breaks(times=0) as (client, requests):
        client.get("/status", limit=3, before=None)
    assert requests[0].startswith(b"GET /status?limit=3 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in requests[0]


def test_a_refusal_is_the_error_that_the_server_raised():
    error = refusal(404, b'{"status":404,"code":"unknown_agent","detail":"there is no agent","hint":"make one"}')
    assert isinstance(error, UnknownAgent)
    assert str(error) == "there is no agent: make one"


def test_a_refusal_of_a_newer_server_keeps_its_code_and_words():
    error = refusal(418, b'{"status":418,"code":"teapot","detail":"I am one"}')
    assert isinstance(error, OperatorError)
    assert (error.code, error.status, str(error)) == ("teapot", 418, "I am one")


def test_a_refusal_without_problem_details_is_named_by_its_status():
    error = refusal(502, b"<html>Bad Gateway</html>")
    assert (error.code, error.status, error.message) == ("http_502", 502, "Bad Gateway")


def test_a_message_that_was_taken_into_a_running_turn_is_answered_by_that_turn(daemon: Cli):
    daemon.json("agent", "create", "host")
    daemon.json("agent", "pause", "host")
    first = daemon.json("prompt", "one", "--agent", "host", "--no-wait")["message_id"]
    second = daemon.json("prompt", "two", "--agent", "host", "--no-wait")["message_id"]
    daemon.json("agent", "resume", "host")
    client = Seat(home=daemon.home).client()
    outcomes = [
        await_outcome(client, "host", message_id, after_seq=0, on_event=lambda _: None)
        for message_id in (first, second)
    ]
    assert outcomes[0].turn_id == outcomes[1].turn_id
    assert [outcome.final_status for outcome in outcomes] == ["completed", "completed"]
    assert outcomes[0].brief == outcomes[1].brief
    assert outcomes[1].text == "two"
