"""Callbacks: the trigger's URL is a capability, a delivery is a wake hint, and whatever is wrong is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holon.core.clock import ManualClock
from tests.server.harness import Running, running

TRIGGER = "/control/agents/main/trigger"


def reveal(server: Running, agent_id: str = "main") -> str:
    return str(server.local.post(f"/control/agents/{agent_id}/trigger/reveal").json()["trigger_url"])


def delivered(server: Running) -> list[dict[str, Any]]:
    return [event for event in server.events() if event["type"] == "callback_delivered"]


@pytest.mark.spec("RT-144", "RT-145", "RT-146")
def test_an_agent_has_one_trigger_without_anybody_having_made_it(server: Running) -> None:
    server.local.post("/control/agents/fresh/create")

    summary = server.local.get("/control/agents/fresh/trigger").json()
    first = server.local.post("/control/agents/fresh/trigger/reveal").json()
    again = server.local.post("/control/agents/fresh/trigger/reveal").json()

    assert first == again
    assert first == {
        "external_trigger_id": summary["external_trigger_id"],
        "trigger_url": first["trigger_url"],
        "target_agent_id": "fresh",
        "delivery_mode": "wake_hint",
        "status": "active",
    }
    assert first["trigger_url"].startswith(f"{server.url}/callbacks/wake/")


def test_the_url_stands_in_no_status_and_the_asking_for_it_is_on_record(server: Running) -> None:
    token = reveal(server).rpartition("/")[2]

    shown = [server.local.get(path).text for path in (TRIGGER, "/status", "/state", "/agents/main/events?limit=512")]

    assert not any(token in text for text in shown)
    assert [e["payload"]["surface"] for e in server.events() if e["type"] == "external_trigger_revealed"] == [
        "local_socket"
    ]


def test_an_advertised_base_is_the_beginning_of_trigger_urls(home: Path) -> None:
    with running(home, advertise_url="https://agents.example/holon/") as server:
        assert reveal(server).startswith("https://agents.example/holon/callbacks/wake/")


@pytest.mark.spec("RT-152", "RT-154", "RT-156")
def test_a_delivery_without_a_token_in_its_header_is_a_wake_hint_and_is_counted(server: Running) -> None:
    server.local.post("/control/agents/main/pause")  # the hint waits where it can be seen

    answer = server.stranger.post(reveal(server), json={"ref": "main"})

    assert answer.status_code == 200
    outcome = answer.json()
    assert (outcome["ok"], outcome["agent_id"], outcome["delivery_mode"]) == (True, "main", "wake_hint")
    state = server.local.get("/state").json()
    assert (state["session"]["pending_count"], state["queue"]) == (0, [])
    assert state["agent"]["agent"]["pending_wake_hints"] == 1
    summary = server.local.get(TRIGGER).json()
    assert (summary["delivery_count"], summary["last_delivered_at"] is not None) == (1, True)


def test_a_delivery_to_an_agent_at_rest_wakes_it_by_a_tick_and_never_by_a_message_of_its_own(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")

    assert server.stranger.post(reveal(server), json={"ref": "main"}).json()["disposition"] == "triggered"

    kinds = [e["payload"]["message_kind"] for e in server.events() if e["type"] == "message_admitted"]
    assert kinds == ["operator_prompt", "system_tick"]


@pytest.mark.spec("RT-153")
def test_the_old_enqueue_url_is_a_wake_hint_that_is_marked_as_deprecated(server: Running) -> None:
    server.local.post("/control/agents/main/pause")

    answer = server.stranger.post(reveal(server).replace("/wake/", "/enqueue/"), content="do this", headers={})

    assert (answer.status_code, answer.json()["delivery_mode"]) == (200, "wake_hint")
    (event,) = delivered(server)
    assert (event["payload"]["descriptor_mode"], event["payload"]["deprecated"]) == ("enqueue_message", True)
    assert server.local.get("/state").json()["queue"] == []


@pytest.mark.spec("RT-155", "RT-158")
def test_labels_of_a_delivery_go_on_record_and_one_url_serves_all_sources(server: Running) -> None:
    url = reveal(server)
    labels = {"X-Holon-Resource": "repo/holon", "X-Correlation-Id": "c1", "X-Causation-Id": "k1"}

    for source in ("github", "ci"):
        assert server.stranger.post(url, json={}, headers={"X-Holon-Source": source, **labels}).status_code == 200

    first, second = delivered(server)
    assert (first["agent_id"], second["agent_id"]) == ("main", "main")
    assert [event["payload"]["source"] for event in (first, second)] == ["github", "ci"]
    assert first["payload"]["external_trigger_id"] == second["payload"]["external_trigger_id"]
    payload = first["payload"]
    assert (payload["delivery_mode"], payload["resource"]) == ("wake_hint", "repo/holon")
    assert (payload["correlation_id"], payload["causation_id"]) == ("c1", "k1")
    assert "descriptor_mode" not in payload


@pytest.mark.spec("RT-151")
def test_whatever_is_wrong_with_a_trigger_url_it_is_refused(home: Path) -> None:
    clock = ManualClock()
    with running(home, clock=clock) as server:

        def status(url: str) -> tuple[int, str]:
            answer = server.stranger.post(url, json={})
            return answer.status_code, str(answer.json().get("code"))

        url = reveal(server)
        assert status(url)[0] == 200
        wrong = url[:-1] + ("0" if url[-1] != "0" else "1")
        for garbage in (
            wrong,
            url + "0",
            url[:-10],
            f"{server.url}/callbacks/wake/x",
            url.upper().replace("HTTP", "http"),
        ):
            assert status(urlsplit(garbage).path)[0] in (401, 403), garbage
        assert status(wrong) == (403, "trigger_refused")

        expiring = server.local.post(f"{TRIGGER}/rotate", json={"ttl_ms": 60_000}).json()["trigger_url"]
        assert status(url) == (403, "trigger_refused"), "rotated"
        assert status(expiring)[0] == 200
        clock.move(60_001)
        assert status(expiring) == (403, "trigger_refused"), "expired"

        server.local.post("/control/agents/gone/create")
        orphan = reveal(server, "gone")
        server.do(server.host.agents.archive("gone", "no longer needed"))
        assert status(orphan) == (403, "trigger_refused"), "archived"
        assert delivered(server)[-1]["payload"]["delivery_count"] == 1


@pytest.mark.spec("RT-159")
def test_a_revoked_url_is_refused_and_its_record_remains(server: Running) -> None:
    url = reveal(server)
    server.stranger.post(url, json={})

    revoked = server.local.post(f"{TRIGGER}/revoke").json()

    assert (revoked["status"], revoked["delivery_count"]) == ("revoked", 1)
    refused = server.stranger.post(url, json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "trigger_refused")
    kinds = [event["type"] for event in server.events()]
    assert {"external_trigger_created", "callback_delivered", "external_trigger_revoked"} <= set(kinds)
    assert server.local.post(f"{TRIGGER}/revoke").status_code == 404


def test_a_payload_above_its_limit_is_refused(server: Running) -> None:
    answer = server.stranger.post(reveal(server), content=b"x" * (server.settings.limits.trigger_bytes + 1))

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("payload", [b"", b"not json", b'{"a"', b'"\xff"', b"[" * 3_000, b"\x00\xff"])
def test_a_payload_that_is_not_what_it_promises_wakes_all_the_same(server: Running, payload: bytes) -> None:
    answer = server.stranger.post(reveal(server), content=payload, headers={"content-type": "application/json"})

    assert answer.status_code == 200, answer.text
