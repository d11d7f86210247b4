"""Runs over HTTP: one prompt, its events, and its result, over one stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.server.harness import Running, running, short_home, until

RUNS = "/control/runs"


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with short_home() as home, running(home, event_heartbeat_ms=50) as server:
        yield server


def frames(text: str) -> list[tuple[str, dict[str, Any]]]:
    """(event, data) of each frame; comments and `retry` are passed over."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def run(client: httpx.Client, body: dict[str, Any], key: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    answer = client.post(RUNS, json=body, headers={"Idempotency-Key": key} if key else {})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return frames(answer.text)


@pytest.mark.spec("RT-059")
def test_a_run_without_an_agent_has_a_private_one_and_ends_with_its_result(live: Running) -> None:
    *events, (last, result) = run(live.local, {"text": "hello"})
    assert last == "run_result"
    assert (result["final_status"], result["final_text"]) == ("completed", "hello")
    assert (result["model_rounds"], result["tool_calls"], result["message_count"]) == (1, 0, 1)
    assert result["agent_id"].startswith("tmp_run_")
    kinds = [kind for kind, _ in events]
    assert kinds[0] == "message_admitted"
    assert "turn_terminal" in kinds
    assert {data["agent_id"] for _, data in events} == {result["agent_id"]}
    numbers = [data["event_seq"] for _, data in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert live.local.get(f"/agents/{result['agent_id']}/status").status_code == 404
    assert [entry["identity"]["agent_id"] for entry in live.local.get("/agents/list").json()] == ["main"]


def test_a_run_uses_a_named_agent_another_model_and_knows_who_asked(live: Running) -> None:
    events = run(live.tcp, {"text": "slow is for patient models", "agent_id": "main", "model": "scripted/echo"})
    assert events[-1][1]["final_text"] == "slow is for patient models"
    admitted = events[0][1]["provenance"]
    assert (admitted["delivery_surface"], admitted["admission_context"]) == ("run_once", "control_authenticated")
    assert live.local.get("/agents/main/status").json()["model"]["effective_model"] == "scripted/patient"


def test_an_agent_is_made_only_on_request(live: Running) -> None:
    missing = live.local.post(RUNS, json={"text": "hello", "agent_id": "fresh"})
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_agent")
    assert "--create-agent" in missing.json()["hint"]
    made = run(live.local, {"text": "hello", "agent_id": "fresh", "create_agent": True})
    assert made[-1][1]["agent_id"] == "fresh"


@pytest.mark.parametrize("word", ["pause", "stop"])
def test_an_agent_that_is_held_is_refused_before_a_stream_begins(live: Running, word: str) -> None:
    name = f"held-{word}"
    live.local.post(f"/control/agents/{name}/create")
    live.local.post(f"/control/agents/{name}/{word}")
    answer = live.local.post(RUNS, json={"text": "hello", "agent_id": name})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["hint"] == f"run 'holon agent resume {name}'"


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "text"), ({"text": "x", "max_turns": 0}, "max_turns"), ({"text": "x", "turns": 1}, "turns")],
)
def test_a_malformed_run_is_refused(live: Running, body: dict[str, Any], field: str) -> None:
    answer = live.local.post(RUNS, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_a_run_that_is_sent_again_under_its_key_is_the_same_run(live: Running) -> None:
    first = run(live.local, {"text": "once"}, key="r1")
    answer = live.local.post(RUNS, json={"text": "once"}, headers={"Idempotency-Key": "r1"})
    assert answer.headers["idempotency-replayed"] == "true"
    assert frames(answer.text) == [first[-1]], "it has ended, so only its result is told"
    other = live.local.post(RUNS, json={"text": "twice"}, headers={"Idempotency-Key": "r1"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_broken_stream_does_not_end_the_run_and_the_key_leads_back_to_it(live: Running) -> None:
    live.local.post("/control/agents/patient/create")
    body, headers = {"text": "slow work", "agent_id": "patient"}, {"Idempotency-Key": "r2"}
    with live.local_client() as client, client.stream("POST", RUNS, json=body, headers=headers) as broken:
        next(broken.iter_lines())
        until(lambda: live.status_of("patient") == "awake_running")
    assert live.status_of("patient") == "awake_running"
    results: list[Any] = []
    again = threading.Thread(target=lambda: results.append(run(live.local_client(), body, key="r2")))
    again.start()
    live.local.post("/control/agents/patient/current-run/abort")
    again.join(10)
    (events,) = results
    assert events[0][0] == "message_admitted"
    assert events[-1][1]["final_status"] == "failed"
    admitted = [event for event in live.events("patient") if event["type"] == "message_admitted"]
    assert len(admitted) == 1


def test_a_silent_run_sends_signs_of_life_and_ends_with_the_server() -> None:
    with (
        short_home() as home,
        running(home, event_heartbeat_ms=20) as server,
        server.local_client() as client,
        client.stream("POST", RUNS, json={"text": "slow work"}) as stream,
    ):
        lines = stream.iter_lines()
        assert any(line == ": heartbeat" for line in lines)
        server.local.post("/control/runtime/shutdown")
        rest = list(lines)
    assert ": the runtime shuts down" in rest
    assert not any(line.startswith("event: run_result") for line in rest)


def test_nobody_runs_anything_without_a_token(live: Running) -> None:
    assert live.stranger.post(RUNS, json={"text": "hello"}).status_code == 401
