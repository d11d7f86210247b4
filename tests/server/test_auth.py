"""The door: the local socket asks nobody, TCP asks everybody, except where it is open on purpose."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from holon.core.errors import InvalidSettings
from holon.server import auth, tokens
from tests.server.harness import TOKEN, Running, running

OPEN = {
    ("GET", "/"),
    ("GET", "/handshake"),
    ("GET", "/openapi.json"),
    ("POST", "/callbacks/wake/{token}"),
    ("POST", "/callbacks/enqueue/{token}"),
}


def every_route(server: Running) -> list[tuple[str, str]]:
    document = server.local.get("/openapi.json").json()
    documented = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    return [*documented, ("GET", "/openapi.json")]


def test_over_tcp_exactly_the_open_routes_answer_without_a_token(server: Running) -> None:
    refused = set()
    for method, path in every_route(server):
        answer = server.stranger.request(method, path.replace("{agent_id}", "main"))
        if answer.status_code == 401:
            refused.add((method, path))

    assert refused == set(every_route(server)) - OPEN


@pytest.mark.parametrize("path", ["/nowhere", "/openapi.json/openapi.json", "/handshake/x", "/callbacks/wake"])
def test_a_stranger_learns_nothing_about_other_paths(server: Running, path: str) -> None:
    assert server.stranger.get(path).status_code == 401


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Basic dGVzdA==", TOKEN, f"Bearer {TOKEN}x", f"Token {TOKEN}"]
)
def test_a_wrong_token_is_refused_and_the_problem_says_how_to_get_one(server: Running, header: str) -> None:
    answer = server.stranger.get("/status", headers={"authorization": header})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "unauthorized"
    assert "holon config token new" in problem["hint"]


def test_the_control_token_and_issued_tokens_open_the_door_and_a_revoked_one_does_not(server: Running) -> None:
    issued = tokens.issue(server.settings.home, "laptop")

    def status(token: str) -> int:
        return server.stranger.get("/status", headers={"authorization": f"bearer {token}"}).status_code

    assert (status(TOKEN), status(issued)) == (200, 200)
    tokens.revoke(server.settings.home, "laptop")
    assert (status(TOKEN), status(issued)) == (200, 401)


@pytest.mark.parametrize("occasion", ["heartbeat", "event"])
def test_a_revoked_token_ends_its_open_streams_with_a_word_and_no_other(home: Path, occasion: str) -> None:
    with running(home, event_heartbeat_ms=100 if occasion == "heartbeat" else 600_000) as server, ExitStack() as open_:
        issued = tokens.issue(home, "laptop")
        kept = open_.enter_context(server.tcp.stream("GET", "/agents/main/events/stream"))
        kept_lines = kept.iter_lines()
        stream = open_.enter_context(
            server.stranger.stream("GET", "/agents/main/events/stream", headers={"authorization": f"Bearer {issued}"})
        )
        lines = stream.iter_lines()
        assert next(lines) == next(kept_lines) == "retry: 1000"
        tokens.revoke(home, "laptop")
        if occasion == "event":
            server.prompt("a secret")

        rest = list(lines)

        assert rest[-2:] == [": the token was revoked, so this stream ends", ""]
        assert not any("message_admitted" in line for line in rest)
        server.prompt("for the others")
        assert any("event: message_admitted" in line for line in kept_lines)


def test_a_revoked_token_ends_the_stream_of_its_run_and_not_the_run(home: Path) -> None:
    with running(home, event_heartbeat_ms=100) as server:
        headers = {"authorization": f"Bearer {tokens.issue(home, 'laptop')}"}
        body = {"text": "slow one", "agent_id": "main"}
        with server.stranger.stream("POST", "/control/runs", json=body, headers=headers) as stream:
            server.until_status("awake_running")
            tokens.revoke(home, "laptop")

            assert list(stream.iter_lines())[-2:] == [": the token was revoked, so this stream ends", ""]
        assert server.status_of() == "awake_running"


def test_a_file_of_tokens_that_cannot_be_read_closes_the_door_to_all_but_the_control_token(server: Running) -> None:
    issued = tokens.issue(server.settings.home, "laptop")
    (server.settings.home / "tokens.json").write_text("not json")

    refused = server.stranger.get("/status", headers={"authorization": f"Bearer {issued}"})

    assert (refused.status_code, server.tcp.get("/status").status_code) == (401, 200)
    assert str(server.settings.home) not in refused.text


def test_an_empty_control_token_is_no_token(home: Path) -> None:
    with running(home, control_token="") as server:
        for header in ("Bearer", "bearer x"):
            assert server.stranger.get("/status", headers={"authorization": header}).status_code == 401


def test_a_bad_token_does_not_close_the_open_routes(server: Running) -> None:
    assert server.stranger.get("/", headers={"authorization": "Bearer wrong"}).status_code == 200


def test_the_handshake_tells_each_caller_how_to_prove_itself_and_strangers_nothing_of_the_disk(
    server: Running,
) -> None:
    local, token, stranger = (c.get("/handshake").json() for c in (server.local, server.tcp, server.stranger))

    assert local["auth"] == {"mode": "local", "required": False}
    assert token["auth"] == stranger["auth"] == {"mode": "bearer", "required": True}
    assert local["protocol"] == {"name": "holon-control", "version": 1}
    assert local["runtime"]["home_dir"] == token["runtime"]["home_dir"] == str(server.settings.home)
    assert "home_dir" not in stranger["runtime"]


def test_without_authentication_programs_on_this_machine_are_answered_and_web_pages_are_not(home: Path) -> None:
    with running(home, control_auth_mode="disabled") as server:
        port = server.announcement.http_addr.rpartition(":")[2]

        def status(**headers: str) -> int:
            return server.stranger.get("/status", headers=headers).status_code

        assert status() == 200
        assert status(host=f"localhost:{port}") == 200
        assert status(origin=f"http://127.0.0.1:{port}") == 200
        assert status(host=f"evil.example:{port}") == 403
        assert status(origin="https://evil.example") == 403
        assert status(origin="null") == 403
        assert status(host="[::1") == 403


def test_without_authentication_the_server_binds_to_this_machine_only(home: Path) -> None:
    with (
        pytest.raises(InvalidSettings, match=r"bind to 127\.0\.0\.1"),
        running(home, control_auth_mode="disabled", http_host="0.0.0.0"),
    ):
        pass


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    assert auth.is_loopback(host) is loopback


async def test_an_app_without_a_door_serves_nobody(server: Running) -> None:
    from holon.server.app import create_app

    transport = httpx.ASGITransport(create_app(server.host))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://holon") as client:
        answer = await client.get("/status")

    assert answer.status_code == 401
