"""The commands that talk to a running Holon, over its socket and over TCP."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import holon.core.event_kinds
from holon.core.codec import from_plain, to_plain
from holon.core.events import Event, EventEnvelope
from holon.core.presentation import DisplayMode, present, shown_in
from tests.cli.conftest import Cli, Done, a_home, end, line_with, serving, until

_NUMBERS = itertools.count(1)


@pytest.fixture
def agent(daemon: Cli) -> str:
    """An agent of the test's own on the shared daemon."""
    name = f"agent-{next(_NUMBERS)}"
    daemon.json("agent", "create", name)
    return name


def envelopes(cli: Cli, agent: str) -> list[EventEnvelope]:
    return from_plain(cli.json("events", "--agent", agent, "--limit", "500")["events"], list[EventEnvelope])


@pytest.mark.spec("RT-055", "RT-056")
def test_a_prompt_without_an_agent_goes_to_main_and_its_answer_is_printed(daemon: Cli):
    done = daemon("prompt", "good morning")
    assert (done.code, done.out) == (0, "good morning\n")
    assert "… thinking, round 1" in done.err
    last = daemon.json("transcript", "--agent", "main", "--limit", "1")
    assert last[0]["data"]["blocks"] == [{"type": "text", "text": "good morning"}]


@pytest.mark.spec("RT-056")
def test_the_default_agent_can_be_another_one():
    with a_home() as cli, serving(cli, HOLON_AGENT_ID="boss"):
        assert cli.json("status")["identity"]["agent_id"] == "boss"
        assert cli.json("prompt", "hello")["agent_id"] == "boss"


@pytest.mark.spec("RT-057")
def test_talking_to_an_agent_that_is_not_there_makes_none(daemon: Cli):
    done = daemon("prompt", "hello", "--agent", "nobody", "--json")
    assert (done.code, done.out, done.problem["code"], done.problem["status"]) == (2, "", "unknown_agent", 404)
    listed = [entry["identity"]["agent_id"] for entry in daemon.json("agent", "list")]
    assert "nobody" not in listed


@pytest.mark.spec("RT-058")
def test_an_agent_that_was_created_can_be_listed_and_talked_to(daemon: Cli):
    assert "agent reviewer is there" in daemon("agent", "create", "reviewer").out
    assert daemon("prompt", "hi", "--agent", "reviewer").out == "hi\n"
    lines = daemon("agent", "list").out.splitlines()
    assert lines[0].split() == ["agent", "status", "because", "queued", "run", "model"]
    assert any(line.split()[0] == "reviewer" for line in lines)
    again = daemon("agent", "create", "reviewer", "--json")
    assert (again.code, again.problem["code"]) == (2, "agent_exists")


def test_a_prompt_for_programs_is_one_document_with_the_brief(daemon: Cli, agent: str):
    outcome = daemon.json("prompt", "hello", "--agent", agent)
    assert outcome["final_status"] == "completed"
    assert outcome["text"] == outcome["brief"]["text"] == "hello"
    assert outcome["brief"]["related_message_id"] == outcome["message_id"]


def test_a_prompt_that_nobody_waits_for_is_admitted_and_worked_on(daemon: Cli, agent: str):
    admitted = daemon.json("prompt", "later", "--agent", agent, "--no-wait")
    assert admitted["message_id"].startswith("msg_")
    briefs = until(lambda: daemon.json("tail", "--agent", agent), "the brief")
    assert briefs[0]["body"] == "later"


def test_a_failed_prompt_ends_with_code_1_and_says_why(daemon: Cli, agent: str):
    done = daemon("prompt", "fail now", "--agent", agent)
    assert done.code == 1
    assert "the key is wrong" in done.out
    status = daemon("status", "--agent", agent).out
    assert "last failure" in status
    assert f"holon transcript --agent {agent}" in status


def test_an_interrupted_wait_leaves_the_message_to_the_agent(daemon: Cli):
    with a_home() as cli:
        script = cli.home / "scripts" / "actor.yaml"
        script.write_text("rules: [{rounds: [{text: done, delay_ms: 600000}]}]")
        with serving(cli):
            waiting = cli.start("prompt", "slow")
            line_with("thinking", waiting.stderr)
            done = end(waiting, signal.SIGINT)
            assert (done.code, done.out) == (130, "")
            assert "left: agent main goes on with msg_" in done.err
            assert cli.json("status")["agent"]["status"] == "awake_running"
            aborted = cli.json("agent", "abort", "main")
            assert aborted["aborted"] is True
            brief = until(lambda: [b for b in cli.json("tail") if b["title"] == "Failed"], "the end of the turn")
            assert "abort" in brief[0]["body"]


def test_what_a_model_says_cannot_steer_the_terminal(daemon: Cli, agent: str):
    for done in (daemon("prompt", "\x1b[2Jgone\x07\x9b1m", "--agent", agent), daemon("tail", "--agent", agent)):
        assert "gone" in done.out
        assert not set("\x1b\x07\x9b") & set(done.out + done.err)


def test_a_day_in_other_words_is_answered_with_how_to_write_one(daemon: Cli):
    done = daemon("cost", "--since", "yesterday")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: 'yesterday' is not a day: write it like 2026-03-01 (UTC)\n"


@pytest.mark.spec("RT-464", "RT-434")
def test_tail_shows_briefs_and_events_in_the_shared_words(daemon: Cli, agent: str):
    daemon("prompt", "first", "--agent", agent)
    daemon("prompt", "fail it", "--agent", agent)
    stored = [
        Event(id=e.id, agent_id=e.agent_id, event_seq=e.event_seq, created_at=e.ts, kind=e.type, payload=e.payload)
        for e in envelopes(daemon, agent)
    ]
    expected = [
        {"event_seq": event.event_seq, "ts": to_plain(event.created_at), **to_plain(present(event))}
        for event in stored
        if shown_in(event, DisplayMode.INFO)
    ]
    lines = daemon.json("tail", "--agent", agent)
    assert lines == expected
    assert [line["title"] for line in lines] == ["Result", "Runtime error", "Failed"]
    assert daemon.json("tail", "--agent", agent, "--limit", "1") == expected[-1:]
    shown = daemon("tail", "--agent", agent).out
    assert all(line["body"] in shown for line in lines if "body" in line)
    assert len(daemon.json("tail", "--agent", agent, "--verbose")) > len(lines)


@pytest.mark.spec("RT-464")
def test_the_transcript_keeps_the_history_of_retries(daemon: Cli, agent: str):
    assert daemon("prompt", "flaky", "--agent", agent).out == "better now\n"
    shown = daemon("transcript", "--agent", agent).out
    assert "operator_prompt, operator_instruction" in shown
    assert "attempt 1/3 on scripted/actor: retrying (server_error)" in shown
    assert "attempt 2/3 on scripted/actor: succeeded" in shown
    kinds = [entry["kind"] for entry in daemon.json("transcript", "--agent", agent)]
    assert kinds == ["incoming_message", "assistant_round"]


@pytest.mark.spec("RT-464")
def test_status_shows_one_agent(daemon: Cli, agent: str):
    daemon("prompt", "hello", "--agent", agent)
    fields = dict(line.split(maxsplit=1) for line in daemon("status", "--agent", agent).out.splitlines()[1:])
    assert fields["kind"] == "named, public"
    assert fields["model"] == "scripted/actor"
    assert fields["queue"] == "0 waiting"
    assert daemon.json("agent", "status", agent) == daemon.json("status", "--agent", agent)


def test_events_are_paged_by_their_number(daemon: Cli, agent: str):
    daemon("prompt", "hello", "--agent", agent)
    every = envelopes(daemon, agent)
    assert [event.event_seq for event in every] == list(range(1, len(every) + 1))
    page = daemon.json("events", "--agent", agent, "--after-seq", "3", "--limit", "2")
    assert [event["event_seq"] for event in page["events"]] == [4, 5]
    newest = daemon.json("events", "--agent", agent, "--limit", "2")
    assert [event["event_seq"] for event in newest["events"]] == [len(every) - 1, len(every)]
    beyond = daemon("events", "--agent", agent, "--after-seq", "999", "--json")
    assert (beyond.code, beyond.problem["code"]) == (2, "cursor_too_old")


@pytest.mark.spec("RT-465")
def test_latency_is_computed_from_the_events_of_the_turn(daemon: Cli, agent: str):
    daemon("prompt", "use tools", "--agent", agent, "--no-wait")
    turns = until(
        lambda: [t for t in daemon.json("debug", "latency", "--agent", agent) if t["rounds"] == 2], "the turn"
    )
    of_turn = [event for event in envelopes(daemon, agent) if event.turn_id == turns[0]["turn_id"]]

    def total(kind: str, field: str) -> float:
        return round(sum(float(event.payload[field]) for event in of_turn if event.type == kind), 3)

    message_id = of_turn[0].provenance.message_id
    times = {e.type: e.ts for e in envelopes(daemon, agent) if e.provenance.message_id == message_id}
    waited = times["message_processing_started"] - times["message_admitted"]
    turn = turns[0]
    assert turn["queue_wait_ms"] == waited.total_seconds() * 1000
    assert turn["provider_ms"] == total("provider_round_completed", "provider_round_ms")
    assert turn["tool_ms"] == total("tool_executed", "duration_ms")
    assert turn["total_ms"] == total("turn_terminal", "duration_ms")
    # Neither the wait in the queue nor the building of the context is taken off what is left.
    assert turn["cleanup_ms"] == pytest.approx(max(0.0, turn["total_ms"] - turn["provider_ms"] - turn["tool_ms"]))
    heading = daemon("debug", "latency", "--agent", agent).out.splitlines()[0].split()
    assert heading == ["turn", "queue", "context", "model", "tools", "cleanup", "total"]


def test_a_paused_agent_keeps_messages_until_it_is_resumed(daemon: Cli, agent: str):
    assert daemon("agent", "pause", agent).out == f"agent {agent} is paused\n"
    assert daemon("agent", "pause", agent).out == f"agent {agent} was paused already\n"
    waiting = daemon("prompt", "hello", "--agent", agent)
    assert waiting.code == 3
    assert f"holon agent resume {agent}" in waiting.out
    assert daemon.json("agent", "resume", agent)["changed"] is True
    bodies = until(lambda: [b["body"] for b in daemon.json("tail", "--agent", agent) if b["title"] == "Result"], "it")
    assert bodies == ["hello"]


def test_a_stopped_agent_takes_nothing_until_it_is_resumed(daemon: Cli, agent: str):
    assert daemon("agent", "stop", agent).out == f"agent {agent} is stopped\n"
    for command in (["prompt", "hello"], ["wake"]):
        done = daemon(*command, "--agent", agent)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"error: agent '{agent}' is stopped: run 'holon agent resume {agent}'\n"
    assert daemon("agent", "resume", agent).code == 0
    assert daemon("prompt", "hello", "--agent", agent).code == 0


def test_there_must_be_a_run_to_abort(daemon: Cli, agent: str):
    done = daemon("agent", "abort", agent, "--json")
    assert (done.code, done.problem["code"]) == (2, "no_current_run")


def test_a_wake_reaches_the_agent_with_its_reason(daemon: Cli, agent: str):
    outcome = daemon.json("wake", "--agent", agent, "--reason", "the build is green")
    assert outcome == {"agent_id": agent, "disposition": "triggered"}
    reasons = [event.payload["reason"] for event in envelopes(daemon, agent) if event.type == "wake_requested"]
    assert reasons == ["the build is green"]


def test_a_timer_is_set_fires_and_can_be_cancelled(daemon: Cli, agent: str):
    daemon.json("timer", "create", "--agent", agent, "--after", "20ms", "--summary", "soon")
    later = daemon.json("timer", "create", "--agent", agent, "--after", "1h30m", "--every-ms", "60000")
    assert (later["duration_ms"], later["interval_ms"]) == (5_400_000, 60_000)
    fired = until(
        lambda: [t for t in daemon.json("timer", "list", "--agent", agent) if t["status"] == "completed"], "the fire"
    )
    assert fired[0]["summary"] == "soon"
    assert daemon("timer", "cancel", later["id"], "--agent", agent).out == f"{later['id']} is cancelled\n"
    table = daemon("timer", "list", "--agent", agent).out
    assert "cancelled" in table
    assert "1 min 0 s" in table
    unknown = daemon("timer", "cancel", "timer_none", "--agent", agent, "--json")
    assert (unknown.code, unknown.problem["code"]) == (2, "not_found")


def test_the_trigger_url_is_shown_on_request_only(daemon: Cli, agent: str):
    url = daemon("trigger", "reveal", "--agent", agent).out.strip()
    assert url.startswith("http://127.0.0.1:")
    assert daemon("trigger", "reveal", "--agent", agent).out.strip() == url
    shown = daemon("trigger", "show", "--agent", agent).out + daemon("trigger", "show", "--agent", agent, "--json").out
    assert "active" in shown
    assert url.rpartition("/")[2] not in shown
    assert daemon("trigger", "rotate", "--agent", agent, "--ttl", "7d").out.strip() != url
    assert "revoked" in daemon("trigger", "revoke", "--agent", agent).out


def test_retention_says_what_would_go_and_removes_it_on_request(daemon: Cli):
    assert daemon.json("debug", "retention") == {**daemon.json("debug", "retention", "--dry-run"), "dry_run": True}
    assert daemon("debug", "retention").out == "nothing is old enough to go\n"
    assert daemon.json("debug", "retention", "--apply")["dry_run"] is False


# Following


def test_following_goes_on_over_a_restart_without_a_gap_and_without_repeating():
    with a_home() as cli:
        with serving(cli):
            cli("prompt", "before")
            watching = cli.start("events", "--json", "--follow", "--after-seq", "0")
            assert watching.stdout is not None
            seen = [json.loads(watching.stdout.readline())["event_seq"] for _ in range(5)]
        with serving(cli):
            cli("prompt", "after")
            newest = cli.json("status")["newest_event_seq"]
            while seen[-1] < newest:
                seen.append(json.loads(watching.stdout.readline())["event_seq"])
            done = end(watching, signal.SIGINT)
    assert seen == list(range(1, newest + 1))
    assert (done.code, done.err) == (130, "")


def test_a_followed_tail_shows_briefs_as_they_come(daemon: Cli, agent: str):
    watching = daemon.start("tail", "--follow", "--json", "--agent", agent)
    try:
        daemon("prompt", "news", "--agent", agent)
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["body"] == "news"
    finally:
        end(watching, signal.SIGINT)


# Who may have the home


def test_a_second_holon_on_the_same_home_is_refused(daemon: Cli):
    done = daemon("serve", "--listen", "127.0.0.1:0", "--json")
    assert (done.code, done.out, done.problem["code"]) == (2, "", "home_busy")


@pytest.mark.spec("RT-060")
def test_a_run_goes_through_the_holon_that_has_the_home(daemon: Cli, agent: str):
    daemon("prompt", "hello", "--agent", agent)
    result = daemon.json("run", "use tools", "--agent", agent)
    # The follow-up that it gave itself is a turn of its own, and part of the run, as without a daemon.
    assert (result["agent_id"], result["final_status"], result["final_text"]) == (agent, "completed", "remember")
    assert (result["model_rounds"], result["tool_calls"], result["message_count"]) == (3, 1, 2)
    usage = daemon.json("status", "--agent", agent)["token_usage"]["total"]
    assert 0 < result["token_usage"]["total_tokens"] < usage["total_tokens"]
    failed = daemon("run", "fail it", "--agent", agent, "--json")
    assert (failed.code, failed.json["failure_artifact"]["kind"]) == (1, "auth_error")


@pytest.mark.spec("RT-059")
def test_a_run_through_a_daemon_has_a_private_agent_its_own_model_and_its_own_bound(daemon: Cli):
    result = daemon.json("run", "fail please", "--model", "scripted/echo")
    assert result["agent_id"].startswith("tmp_run_")
    assert (result["final_status"], result["final_text"], result["tool_calls"]) == ("completed", "fail please", 0)
    assert daemon("status", "--agent", result["agent_id"]).code == 2
    bounded = daemon("run", "again", "--max-turns", "2", "--json")
    assert (bounded.code, bounded.json["final_status"]) == (3, "max_turns_exceeded")
    assert bounded.json["message_count"] == 2


def test_a_bounded_run_leaves_a_named_agent_at_work_for_others(daemon: Cli, agent: str):
    done = daemon("run", "again", "--max-turns", "1", "--agent", agent)
    assert done.code == 3
    assert "what it queued for itself (1) waits" in done.err
    status = daemon.json("status", "--agent", agent)
    assert (status["agent"]["status"], status["agent"]["pending"]) == ("asleep", 1)
    assert daemon("prompt", "hello", "--agent", agent).out == "hello\n"


def test_a_run_is_followed_over_a_restart_of_the_daemon():
    with a_home() as cli:
        script = cli.home / "scripts" / "actor.yaml"
        script.write_text("rules: [{rounds: [{text: at last, delay_ms: 600000}]}]")
        with serving(cli):
            running = cli.start("run", "slow", "--json")
            until(lambda: (cli.home / "agents").is_dir() and len(list((cli.home / "agents").iterdir())) == 2, "the run")
            until(lambda: "turn_context_built" in _kinds_of_the_run(cli), "its turn")
        script.write_text("rules: [{rounds: [{text: at last}]}]")
        with serving(cli):
            out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (0, "")
    assert json.loads(out)["final_text"] == "at last"


def _kinds_of_the_run(cli: Cli) -> set[str]:
    """What the log says of agents that no surface shows."""
    import sqlite3

    with sqlite3.connect(f"file:{cli.home}/state/holon.sqlite3?mode=ro", uri=True) as connection:
        return {kind for (kind,) in connection.execute("SELECT kind FROM events WHERE agent_id LIKE 'tmp_run_%'")}


def test_a_run_with_a_paused_agent_is_refused_and_admits_nothing(daemon: Cli, agent: str):
    daemon("agent", "pause", agent)
    done = daemon("run", "hello", "--agent", agent)
    assert (done.code, done.out) == (2, "")
    assert f"holon agent resume {agent}" in done.err
    kinds = [e.payload["message_kind"] for e in envelopes(daemon, agent) if e.type == "message_admitted"]
    assert kinds == ["control"]


def test_a_run_through_a_daemon_makes_a_missing_agent_only_on_request(daemon: Cli):
    refused = daemon("run", "hello", "--agent", "fresh", "--json")
    assert (refused.code, refused.problem["code"]) == (2, "unknown_agent")
    assert "--create-agent" in refused.problem["hint"]
    assert daemon("run", "hello", "--agent", "fresh", "--create-agent").out == "hello\n"


def test_serve_ends_in_order_on_a_signal_and_on_shutdown():
    with a_home() as cli:
        process = cli.start("serve", "--listen", "127.0.0.1:0")
        assert line_with("", process.stdout) == f"Holon {holon.__version__} serves {cli.home}\n"
        line_with("Ctrl-C", process.stdout)
        done = end(process, signal.SIGINT)
        assert (done.code, done.err) == (0, "")
        assert "open turns are taken up again" in done.out
        process = cli.start("serve", "--listen", "127.0.0.1:0", "--json")
        assert json.loads(line_with("", process.stdout))["event"] == "ready"
        assert cli("shutdown").out == "Holon has ended\n"
        assert cli("run", "the home is free").code == 0
        assert end(process).code == 0


# Over TCP


@pytest.fixture(scope="module")
def tcp() -> Iterator[tuple[Cli, str]]:
    with a_home() as cli, serving(cli) as ready:
        yield cli, f"http://{ready['http_addr']}"


def test_over_tcp_a_token_is_needed_and_a_revoked_one_stops_working(tcp: tuple[Cli, str]):
    cli, url = tcp
    without = cli("status", "--url", url, "--json")
    assert (without.code, without.problem["code"]) == (2, "unauthorized")
    token_file = cli.home / "laptop.token"
    token_file.write_text(cli("config", "token", "new", "laptop").out)
    elsewhere = Cli(cli.home / "elsewhere")
    assert elsewhere("prompt", "hello", "--url", url, "--token-file", str(token_file)).out == "hello\n"
    by_variable = elsewhere("status", "--json", HOLON_URL=url, HOLON_CONTROL_TOKEN=token_file.read_text().strip())
    assert by_variable.json["identity"]["agent_id"] == "main"
    assert cli("config", "token", "revoke", "laptop").code == 0
    assert elsewhere("status", "--url", url, "--token-file", str(token_file)).code == 2


def test_a_run_with_a_url_never_falls_back_to_this_home(cli: Cli):
    done = cli("run", "hello", "--agent", "main", "--url", "http://127.0.0.1:9", "--json")
    assert (done.code, done.problem["code"]) == (2, "daemon_unreachable")
    assert not (cli.home / "state").exists()


def test_what_is_not_a_holon_is_said_to_be_none(cli: Cli):
    with _other_server() as url:
        done = cli("status", "--url", url)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: what answers at {url} is not a Holon: check --url and --home\n"


def test_a_token_file_that_is_not_there_is_named(cli: Cli):
    done = cli("status", "--url", "http://127.0.0.1:9", "--token-file", "/nowhere")
    assert done == Done(
        2,
        "",
        "error: cannot read the token file /nowhere (No such file or directory):"
        " make a token with 'holon config token new NAME'\n",
    )


class _other_server:
    """Some other web server."""

    def __enter__(self) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<h1>It works!</h1>")

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
