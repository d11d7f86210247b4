"""What clients read about agents: lists, status, snapshots."""

from __future__ import annotations

import pytest

from tests.server.harness import Running

#: What a line in the list must not carry: it is for choosing an agent, not for showing one.
HEAVY = {
    "skills",
    "active_children",
    "waiting_intents",
    "active_external_triggers",
    "external_triggers",
    "operator_notifications",
    "events",
    "agents_md",
    "worktree_session",
}


@pytest.mark.spec("RT-417")
def test_the_list_has_one_light_line_for_each_public_agent(server: Running) -> None:
    server.local.post("/control/agents/other/create")

    listed = server.local.get("/agents/list").json()

    assert [line["identity"]["agent_id"] for line in listed] == ["main", "other"]
    for line in listed:
        assert {"identity", "status", "scheduling_posture", "lifecycle", "pending", "model"} <= set(line)
        assert not HEAVY & set(line)


@pytest.mark.spec("RT-063")
def test_a_private_agent_is_in_no_list_and_no_public_route_shows_it(server: Running) -> None:
    private = server.do(server.host.agents.create_temporary(surface="run_once")).agent_id

    assert private not in server.local.get("/agents/list").text
    for view in ("status", "state", "briefs", "transcript", "tasks", "timers", "latency", "events", "events/stream"):
        answer = server.local.get(f"/agents/{private}/{view}")
        assert (answer.status_code, answer.json()["code"]) == (404, "private_agent"), view


@pytest.mark.spec("RT-419", "RT-421", "RT-422")
def test_status_is_one_summary_and_the_same_as_in_the_state(server: Running) -> None:
    server.settled(server.prompt("hello"))
    server.until_status("asleep")

    status = server.local.get("/agents/main/status").json()
    state = server.local.get("/agents/main/state").json()

    assert status["identity"]["agent_id"] == "main"
    assert state["agent"] == status
    assert server.local.get("/status").json() == status
    assert server.local.get("/state").json() == state


@pytest.mark.spec("RT-055")
def test_a_request_that_names_no_agent_is_about_the_default_agent(server: Running) -> None:
    message_id = server.local.post("/enqueue", json={"text": "for whoever is there"}).json()["message_id"]

    assert server.settled(message_id, "main")["envelope"]["agent_id"] == "main"
    for view in ("briefs", "transcript"):
        assert server.local.get(f"/{view}").json() == server.local.get(f"/agents/main/{view}").json() != []


@pytest.mark.spec("RT-420")
def test_one_snapshot_holds_what_a_client_shows_before_it_follows(server: Running) -> None:
    server.local.post("/control/agents/main/timers", json={"duration_ms": 3_600_000, "summary": "later"})
    server.settled(server.prompt("hello"))
    server.until_status("asleep")

    state = server.local.get("/state").json()

    assert state["session"]["last_turn"]["kind"] == "completed"
    assert state["session"]["pending_count"] == 0
    assert [timer["summary"] for timer in state["timers"]] == ["later"]
    assert [brief["text"] for brief in state["briefs"]] == ["hello"]
    assert [entry["kind"] for entry in state["transcript"]] == ["incoming_message", "assistant_round"]
    assert state["newest_event_seq"] == server.newest_seq()
    assert (
        server.local.get("/agents/main/events", params={"after_seq": state["newest_event_seq"]}).json()["events"] == []
    )


@pytest.mark.spec("RT-082")
def test_the_status_of_a_stopped_agent_says_that_resume_is_needed_and_wake_does_not_help(server: Running) -> None:
    server.local.post("/control/agents/main/stop")

    hint = server.local.get("/status").json()["lifecycle"]

    assert (hint["resume_required"], hint["wake_requires_resume"]) == (True, True)
    assert "resume is required before new prompts" in hint["operator_hint"]
    assert "wake does not override" in hint["operator_hint"]
    assert server.local.post(hint["resume_control_path"]).json()["status"] == "awake_idle"


def test_limits_cut_the_newest_and_the_transcript_pages_backwards(server: Running) -> None:
    for text in ("one", "two", "three"):
        server.settled(server.prompt(text))

    assert [brief["text"] for brief in server.local.get("/briefs?limit=2").json()][-1] == "three"
    newest = server.local.get("/transcript?limit=2").json()
    older = server.local.get("/transcript", params={"limit": 2, "before_seq": newest[0]["seq"]}).json()
    assert [entry["seq"] for entry in older + newest] == [3, 4, 5, 6]


def test_latency_says_where_the_time_of_a_turn_went(server: Running) -> None:
    server.settled(server.prompt("hello"))

    (turn,) = server.local.get("/agents/main/latency").json()

    assert turn["rounds"] == 1
    assert {"queue_wait_ms", "context_build_ms", "provider_ms", "tool_ms", "cleanup_ms", "total_ms"} <= set(turn)


def test_tasks_and_timers_are_listed(server: Running) -> None:
    made = server.local.post("/control/agents/main/timers", json={"duration_ms": 60_000}).json()

    assert server.local.get("/agents/main/timers").json() == [made]
    assert server.local.get("/agents/main/tasks").json() == []
