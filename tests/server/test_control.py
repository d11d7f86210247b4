"""Control: the operator's prompts and commands, with the way they came in on record."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.harness import Running, until


def stored(server: Running, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    return dict(server.settled(answer.json()["message_id"])["envelope"])


def test_a_prompt_is_the_operators_word_and_interjects(server: Running) -> None:
    answer = server.tcp.post(
        "/control/agents/main/prompt",
        json={"text": "hello", "actor_id": "ada", "metadata": {"a": 1}, "correlation_id": "c", "causation_id": "k"},
    )

    envelope = stored(server, answer)
    assert answer.json() == {"ok": True, "agent_id": "main", "message_id": envelope["id"]}
    assert (envelope["kind"], envelope["origin"]) == ("operator_prompt", {"kind": "operator", "actor_id": "ada"})
    assert (envelope["authority_class"], envelope["priority"]) == ("operator_instruction", "interject")
    assert (envelope["metadata"], envelope["correlation_id"], envelope["causation_id"]) == ({"a": 1}, "c", "k")


@pytest.mark.parametrize(
    ("client", "surface", "recorded"),
    [
        ("tcp", None, ("http_control_prompt", "control_authenticated")),
        ("tcp", "cli_prompt", ("http_control_prompt", "control_authenticated")),
        ("local", None, ("http_control_prompt", "local_process")),
        ("local", "cli_prompt", ("cli_prompt", "local_process")),
        ("local", "runtime_system", ("http_control_prompt", "local_process")),
    ],
)
def test_only_a_local_client_says_what_it_is_and_only_that_it_is_the_command_line(
    server: Running, client: str, surface: str | None, recorded: tuple[str, str]
) -> None:
    headers = {"X-Holon-Surface": surface} if surface else {}

    envelope = stored(
        server, getattr(server, client).post("/control/agents/main/prompt", json={"text": "x"}, headers=headers)
    )

    assert (envelope["delivery_surface"], envelope["admission_context"]) == recorded


def test_a_message_can_be_followed_from_the_queue_to_its_turn(server: Running) -> None:
    message_id = server.prompt("hello")

    status = server.settled(message_id)

    assert status["envelope"]["body"] == {"type": "text", "text": "hello"}
    assert status["queue"]["status"] == "processed"
    assert status["turn"]["message_id"] == message_id


@pytest.mark.spec("RT-058")
def test_an_agent_is_made_by_command_and_can_then_be_listed_and_spoken_to(server: Running) -> None:
    made = server.tcp.post("/control/agents/scout/create")

    assert made.status_code == 201
    assert (made.json()["agent_id"], made.json()["visibility"]) == ("scout", "public")
    assert "scout" in [line["identity"]["agent_id"] for line in server.local.get("/agents/list").json()]
    assert server.settled(server.prompt("hello", "scout"), "scout")["queue"]["status"] == "processed"


@pytest.mark.spec("RT-080")
def test_a_prompt_to_a_stopped_agent_is_refused_with_the_way_out_and_nothing_is_queued(server: Running) -> None:
    server.local.post("/control/agents/main/stop")
    before = server.newest_seq()

    answer = server.local.post("/control/agents/main/prompt", json={"text": "hello"})

    assert (answer.status_code, answer.json()["code"]) == (409, "agent_stopped")
    assert "holon agent resume main" in answer.json()["hint"]
    assert server.newest_seq() == before
    assert server.local.get("/state").json()["session"]["pending_count"] == 0


@pytest.mark.spec("RT-079")
def test_a_stopped_agent_is_not_woken_and_the_answer_says_to_resume_it(server: Running) -> None:
    server.local.post("/control/agents/main/stop")

    answer = server.local.post("/control/agents/main/wake", json={"reason": "look"})

    assert (answer.status_code, answer.json()["code"]) == (409, "agent_stopped")
    assert "resume" in answer.json()["hint"]
    assert server.status_of() == "stopped"


def test_an_agent_at_rest_is_woken(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")

    outcome = server.tcp.post("/control/agents/main/wake", json={"reason": "look", "source": "me"}).json()

    assert outcome == {"agent_id": "main", "disposition": "triggered"}
    (event,) = [e for e in server.events() if e["type"] == "wake_requested"]
    assert event["payload"] == {"reason": "look", "surface": "http_control", "disposition": "triggered"}


def test_a_paused_agent_keeps_its_messages_until_it_is_resumed(server: Running) -> None:
    paused = server.local.post("/control/agents/main/pause").json()
    message_id = server.prompt("hello")
    waits = server.local.get(f"/control/agents/main/messages/{message_id}").json()["queue"]["status"]
    again = server.local.post("/control/agents/main/pause").json()
    resumed = server.local.post("/control/agents/main/resume").json()

    assert (paused["status"], paused["changed"], waits, again["changed"]) == ("paused", True, "queued", False)
    assert resumed["action"] == "resume"
    assert server.settled(message_id)["queue"]["status"] == "processed"


@pytest.mark.parametrize(
    ("action", "status"), [("pause", "paused"), ("stop", "stopped"), ("resume", "awake_idle"), ("start", "awake_idle")]
)
def test_actions_can_be_asked_for_by_name(server: Running, action: str, status: str) -> None:
    if status == "awake_idle":
        server.local.post("/control/agents/main/control", json={"action": "stop"})

    outcome = server.local.post("/control/agents/main/control", json={"action": action}).json()

    assert (outcome["status"], outcome["changed"]) == (status, True)


def test_the_current_run_is_ended_and_only_that_one(server: Running) -> None:
    message_id = server.prompt("slow one")
    server.until_status("awake_running")
    run_id = until(lambda: server.local.get("/status").json()["agent"].get("current_run_id"))
    path = "/control/agents/main/current-run/abort"

    stale = server.local.post(path, json={"run_id": "run_x"})
    ended = server.local.post(path, json={"run_id": run_id})

    assert (stale.status_code, stale.json()["code"]) == (409, "stale_run_id")
    assert ended.json() == {"agent_id": "main", "run_id": run_id, "aborted": True, "mode": "abort"}
    assert server.settled(message_id)["turn"]["terminal"]["kind"] == "aborted"


def test_a_run_can_be_ended_together_with_its_agent(server: Running) -> None:
    server.prompt("slow one")
    until(lambda: server.local.get("/status").json()["agent"].get("current_turn_id"))

    ended = server.local.post("/control/agents/main/current-run/abort", json={"mode": "stop_after_abort"}).json()

    assert ended["mode"] == "stop_after_abort"
    server.until_status("stopped")


def test_a_timer_fires_into_the_agents_queue_and_can_be_cancelled(server: Running) -> None:
    once = server.local.post("/control/agents/main/timers", json={"duration_ms": 1, "summary": "tick"})
    later = server.local.post("/control/agents/main/timers", json={"duration_ms": 60_000, "interval_ms": 1_000}).json()
    cancel = f"/control/agents/main/timers/{later['id']}/cancel"

    assert once.status_code == 201
    until(lambda: [brief for brief in server.local.get("/briefs").json() if "tick" in brief["text"]] or None)
    assert server.local.post(cancel).json()["status"] == "cancelled"
    assert server.local.post(cancel).json()["status"] == "cancelled"
    until(lambda: server.local.get("/agents/main/timers").json()[0].get("status") != "active")


def test_commands_are_on_record_with_the_surface_they_came_through(server: Running) -> None:
    server.local.post("/control/agents/main/pause", headers={"X-Holon-Surface": "cli_prompt"})
    server.local.post("/control/agents/main/resume")
    server.tcp.post("/control/agents/main/pause", headers={"X-Holon-Surface": "cli_prompt"})

    surfaces = [event["payload"]["surface"] for event in server.events() if event["type"] == "control_applied"]
    assert surfaces == ["cli", "local_socket", "http_control"]
