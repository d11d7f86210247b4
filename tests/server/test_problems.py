"""Problem details: every mistake of a caller has a code, names the field, and says what to do. None is a 500."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from holon.core.errors import DeveloperError
from holon.core.nesting import NESTING
from holon.server import problems
from tests.server.harness import TOKEN, Running, running, short_home

PROMPT = "/control/agents/main/prompt"
ENQUEUE = "/agents/main/enqueue"


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """One server for the whole table: nothing here changes it."""
    with short_home() as home, running(home) as server:
        yield server


def nested(levels: int) -> bytes:
    return b'{"text": "x", "metadata": {"deep": ' + b"[" * levels + b"]" * levels + b"}}"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "field"),
    [
        ("GET", "/agents/nobody/status", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/state", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/briefs", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/transcript", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/tasks", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/timers", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/latency", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/events", None, 404, "unknown_agent", None),
        ("GET", "/agents/nobody/events/stream", None, 404, "unknown_agent", None),
        ("POST", "/agents/nobody/enqueue", b'{"text": "x"}', 404, "unknown_agent", None),
        ("POST", "/webhooks/generic/nobody", b"{}", 404, "unknown_agent", None),
        ("POST", "/control/agents/nobody/prompt", b'{"text": "x"}', 404, "unknown_agent", None),
        ("POST", "/control/agents/nobody/wake", b'{"reason": "x"}', 404, "unknown_agent", None),
        ("POST", "/control/agents/nobody/stop", None, 404, "unknown_agent", None),
        ("POST", "/control/agents/nobody/current-run/abort", None, 404, "unknown_agent", None),
        ("POST", "/control/agents/nobody/timers", b'{"duration_ms": 1}', 404, "unknown_agent", None),
        ("POST", "/control/agents/nobody/trigger/reveal", None, 404, "unknown_agent", None),
        ("GET", "/control/agents/main/messages/msg_x", None, 404, "not_found", None),
        ("POST", "/control/agents/main/timers/timer_x/cancel", None, 404, "not_found", None),
        ("POST", "/control/agents/main/current-run/abort", None, 409, "no_current_run", None),
        ("POST", "/control/agents/main/create", None, 409, "agent_exists", None),
        ("POST", "/control/agents/tmp_x/create", None, 400, "invalid_input", "agent_id"),
        ("GET", "/nowhere", None, 404, "not_found", None),
        ("GET", "/control/agents/main/wake", None, 405, "method_not_allowed", None),
        ("DELETE", "/status", None, 405, "method_not_allowed", None),
        ("POST", PROMPT, None, 400, "invalid_input", None),
        ("POST", PROMPT, b'{"text": "x"', 400, "invalid_input", None),
        ("POST", PROMPT, b'{"text": "\xff"}', 400, "invalid_input", None),
        ("POST", PROMPT, b'"text"', 400, "invalid_input", None),
        ("POST", PROMPT, b"{}", 400, "invalid_input", "text"),
        ("POST", PROMPT, b'{"text": 5}', 400, "invalid_input", "text"),
        ("POST", PROMPT, b'{"text": "x", "colour": "red"}', 400, "invalid_input", "colour"),
        ("POST", PROMPT, b'{"text": "x", "priority": "now"}', 400, "invalid_input", "priority"),
        ("POST", PROMPT, nested(NESTING), 400, "invalid_input", None),
        ("POST", PROMPT, nested(100_000), 400, "invalid_input", None),
        ("POST", ENQUEUE, b'{"text": "x", "kind": "operator_prompt"}', 400, "invalid_input", "kind"),
        ("POST", ENQUEUE, b'{"text": "x", "kind": "nonsense"}', 400, "invalid_input", "kind"),
        ("POST", ENQUEUE, b'{"text": "x", "priority": "interject"}', 400, "invalid_input", "priority"),
        ("POST", ENQUEUE, b'{"text": "x", "origin": {"kind": "operator"}}', 400, "invalid_input", "origin.kind"),
        ("POST", ENQUEUE, b'{"text": "x", "origin": {"kind": "channel"}}', 400, "invalid_input", "origin.channel_id"),
        (
            "POST",
            ENQUEUE,
            b'{"text": "x", "kind": "webhook_event", "origin": {"kind": "channel", "channel_id": "c"}}',
            400,
            "invalid_input",
            "origin",
        ),
        ("POST", ENQUEUE, b"{}", 400, "invalid_input", "body"),
        ("POST", ENQUEUE, b'{"text": "x", "json": 1}', 400, "invalid_input", "body"),
        ("POST", ENQUEUE, b'{"text": "x", "delivery_surface": "cli_prompt"}', 400, "invalid_input", "delivery_surface"),
        ("POST", "/control/agents/main/control", b'{"action": "dance"}', 400, "invalid_input", "action"),
        ("POST", "/control/agents/main/pause", b'{"reason": "x"}', 400, "invalid_input", "reason"),
        ("POST", "/control/agents/main/timers", b'{"duration_ms": 0}', 400, "invalid_input", "duration_ms"),
        ("POST", "/control/agents/main/timers", b'{"duration_ms": "5"}', 400, "invalid_input", "duration_ms"),
        ("POST", "/control/agents/main/trigger/rotate", b'{"ttl_ms": 1e30}', 400, "invalid_input", "ttl_ms"),
        ("GET", "/analytics/cost?since=yesterday", None, 400, "invalid_input", "since"),
        ("GET", "/analytics/cost?until=", None, 400, "invalid_input", "until"),
        ("GET", "/briefs?limit=0", None, 400, "invalid_input", "limit"),
        ("GET", "/briefs?limit=1000000", None, 400, "invalid_input", "limit"),
        ("GET", "/agents/main/events?order=sideways", None, 400, "invalid_input", "order"),
        ("GET", f"/agents/main/events?before_seq={2**63}", None, 400, "invalid_input", "before_seq"),
        ("GET", "/agents/main/events?after_seq=-1", None, 400, "invalid_input", "after_seq"),
        ("GET", "/agents/main/events?after_seq=999999", None, 410, "cursor_too_old", None),
    ],
)
def test_a_mistake_is_answered_with_its_problem(
    live: Running, method: str, path: str, body: bytes | None, status: int, code: str, field: str | None
) -> None:
    answer = live.tcp.request(method, path, content=body)

    problem = answer.json()
    assert (answer.status_code, problem["code"], problem.get("field")) == (status, code, field), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= set(problem) <= set(problems.Problem.__struct_fields__)
    assert problem["status"] == status
    assert problem["type"] == f"urn:holon:problem:{code}"
    assert problem["hint"], "what to do next"


def test_a_refused_choice_is_answered_with_the_choices(live: Running) -> None:
    answer = live.tcp.post(ENQUEUE, json={"text": "x", "kind": "operator_prompt"})

    assert answer.json()["hint"] == "allowed are channel_event, webhook_event"


@pytest.mark.parametrize("header", ["Idempotency-Key", "X-Holon-Source"])
def test_a_refused_header_is_called_as_the_caller_knows_it(live: Running, header: str) -> None:
    problem = live.tcp.post("/webhooks/generic/main", json={}, headers={header: "x" * 300}).json()

    assert (problem["code"], problem["field"]) == ("invalid_input", header)
    assert problem["detail"].startswith(f"{header}: ")
    assert problem["hint"]


def test_a_wrong_method_is_answered_with_the_right_ones(live: Running) -> None:
    assert live.tcp.get("/control/agents/main/wake").headers["allow"] == "POST, OPTIONS"


def test_a_body_at_the_limit_of_nesting_is_taken(live: Running) -> None:
    assert live.tcp.post(PROMPT, content=nested(NESTING - 2)).status_code == 202


@pytest.mark.parametrize("path", [PROMPT, ENQUEUE, "/webhooks/generic/main", "/callbacks/wake/cb_x"])
def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(live: Running, path: str) -> None:
    size = live.settings.limits.message_bytes
    whole = b'{"text": "' + b"x" * size + b'"}'

    announced = live.tcp.post(path, content=whole)
    streamed = live.tcp.post(path, content=(whole[at : at + 65_536] for at in range(0, len(whole), 65_536)))

    assert "content-length" not in streamed.request.headers
    assert [(answer.status_code, answer.json()["code"]) for answer in (announced, streamed)] == [
        (413, "body_too_large"),
        (413, "body_too_large"),
    ]


def test_a_caller_who_lies_about_the_length_and_leaves_harms_nobody(live: Running) -> None:
    host, port = live.announcement.http_addr.split(":")
    caller = HTTPConnection(host, int(port))
    caller.putrequest("POST", PROMPT)
    caller.putheader("authorization", f"Bearer {TOKEN}")
    caller.putheader("content-length", "1000")
    caller.endheaders(b'{"text"')
    caller.close()

    assert live.tcp.get("/").status_code == 200


@pytest.mark.parametrize("accident", [ZeroDivisionError, DeveloperError])
def test_an_accident_is_answered_with_an_id_that_the_log_knows_and_no_trace(
    live: Running, caplog: pytest.LogCaptureFixture, accident: type[Exception]
) -> None:
    class Broken:
        async def briefs(self, *_: Any) -> None:
            raise accident("the secret of the house")

    views, live.host.views = live.host.views, Broken()  # type: ignore[assignment]
    try:
        with caplog.at_level(logging.ERROR, logger="holon.server"):
            answer = live.tcp.get("/briefs")
    finally:
        live.host.views = views

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert problem["error_id"] in caplog.text
    assert "standard error" in problem["hint"], "there is no command that shows the log"
    assert "the secret of the house" in caplog.text


def test_a_full_queue_asks_to_come_again() -> None:
    with short_home() as home:
        (home / "config.json").write_text(json.dumps({"limits.queue_length": 1}))
        with running(home) as server:
            server.local.post("/control/agents/main/pause")
            first = server.local.post(PROMPT, json={"text": "one"})
            second = server.local.post(PROMPT, json={"text": "two"})

    assert first.status_code == 202
    assert (second.status_code, second.json()["code"], second.headers["retry-after"]) == (429, "queue_full", "1")
