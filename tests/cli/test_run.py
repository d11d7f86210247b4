"""`holon run` without a daemon: a process that opens the home itself."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.cli.conftest import DEADLINE_S, Cli, end, line_with, serving, until


def test_a_run_prints_the_answer_on_stdout_and_what_it_does_on_stderr(cli: Cli):
    done = cli("run", "hello there")
    assert (done.code, done.out) == (0, "hello there\n")
    assert "… thinking, round 1: waiting for the model\n" in done.err


def test_the_text_can_come_from_standard_input(cli: Cli):
    assert cli("run", "-", stdin="from a pipe\n").out.strip() == "from a pipe"


def test_tools_are_shown_in_the_words_of_the_shared_presentation(cli: Cli):
    done = cli("run", "use tools")
    assert done.out.splitlines()[-1] == "remember"  # the follow-up that it gave itself is its own turn
    assert "Model requested tools: Enqueue\n" in done.err
    assert "… tool Enqueue\n" in done.err
    assert "Enqueue: queued a follow-up (background)" in done.err
    assert "… thinking, round 2: waiting for the model\n" in done.err


@pytest.mark.spec("RT-462")
def test_a_completed_run_is_one_json_document_without_a_failure(cli: Cli):
    result = cli.json("run", "hello")
    assert result["final_status"] == "completed"
    assert result["final_text"] == result["raw_final_text"] == "hello"
    assert result["model_rounds"] == 1
    assert result["token_usage"]["total_tokens"] == result["input_tokens"] + result["output_tokens"] > 0
    assert [attempt["outcome"] for attempt in result["provider_attempt_timeline"]["attempts"]] == ["succeeded"]
    assert "failure_artifact" not in result


@pytest.mark.spec("RT-462", "RT-463")
def test_a_failed_run_carries_its_failure_at_the_top_and_it_is_the_one_on_disk(cli: Cli):
    done = cli("run", "fail please", "--agent", "ci", "--create-agent", "--json")
    assert (done.code, done.err) == (1, "")
    failure = done.json["failure_artifact"]
    assert done.json["final_status"] == "failed"
    assert (failure["category"], failure["kind"]) == ("transport", "auth_error")
    assert "token_usage" in done.json
    assert [attempt["failure_kind"] for attempt in done.json["provider_attempt_timeline"]["attempts"]] == ["auth_error"]
    with serving(cli):
        kept = cli.json("status", "--agent", "ci")["agent"]["last_runtime_failure"]["failure_artifact"]
    assert kept == failure


def test_a_failed_run_says_why_in_one_line(cli: Cli):
    done = cli("run", "fail please")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].startswith("failed: ")
    assert "the key is wrong" in done.err
    assert "Traceback" not in done.err


def test_a_run_that_rests_until_a_timer_ends_with_code_3(cli: Cli):
    done = cli("run", "rest now", "--json")
    assert (done.code, done.json["final_status"], done.json["waiting_reason"]) == (3, "waiting", "awaiting_timer")
    assert done.json["final_text"] == "good night"


def test_a_run_that_reaches_its_turn_limit_ends_with_code_3(cli: Cli):
    done = cli("run", "again", "--max-turns", "2", "--json")
    assert (done.code, done.json["final_status"]) == (3, "max_turns_exceeded")


def test_the_model_of_one_run_can_be_chosen(cli: Cli):
    assert cli("run", "fail please", "--model", "scripted/echo").out == "fail please\n"


@pytest.mark.spec("RT-059")
def test_a_run_without_an_agent_uses_a_temporary_private_one(cli: Cli):
    agent_id = cli.json("run", "hello")["agent_id"]
    assert agent_id.startswith("tmp_run_")
    with serving(cli):
        assert [entry["identity"]["agent_id"] for entry in cli.json("agent", "list")] == ["main"]
        assert cli("status", "--agent", agent_id).code == 2


@pytest.mark.spec("RT-061")
def test_a_missing_agent_is_made_only_on_request_and_then_used_again(cli: Cli):
    refused = cli("run", "hello", "--agent", "ci")
    assert (refused.code, refused.out) == (2, "")
    assert "add --create-agent" in refused.err
    first = cli.json("run", "one", "--agent", "ci", "--create-agent")
    second = cli.json("run", "two", "--agent", "ci", "--create-agent")
    assert (first["agent_id"], second["agent_id"]) == ("ci", "ci")
    with serving(cli):
        identity = cli.json("agent", "status", "ci")["identity"]
        assert (identity["visibility"], identity["ownership"]) == ("public", "self_owned")
        assert [entry["identity"]["agent_id"] for entry in cli.json("agent", "list")] == ["ci", "main"]


@pytest.mark.spec("RT-060")
def test_a_run_with_an_agent_goes_on_with_what_that_agent_knows(cli: Cli):
    (cli.home / "scripts" / "actor.yaml").write_text(
        "rules: [{when: {turn: 1}, rounds: [{text: first}]}, {when: {turn: 2}, rounds: [{text: second}]}]"
    )
    assert cli("run", "hello", "--agent", "ci", "--create-agent").out == "first\n"
    assert cli("run", "hello", "--agent", "ci").out == "second\n"
    assert cli("run", "hello").out == "first\n"


@pytest.mark.parametrize("name", ["../up", "tmp_mine", ".hidden", "a b"])
def test_a_name_that_no_agent_can_have_is_refused(cli: Cli, name):
    done = cli("run", "hello", "--agent", name, "--create-agent", "--json")
    assert (done.code, done.out, done.problem["code"]) == (2, "", "invalid_input")


@pytest.mark.spec("RT-063")
def test_an_interrupted_run_is_taken_up_again_and_its_agent_stays_private(cli: Cli):
    script = cli.home / "scripts" / "actor.yaml"
    script.write_text("rules: [{rounds: [{text: at last, delay_ms: 600000}]}]")
    process = cli.start("run", "take your time")
    line_with("thinking", process.stderr)
    done = end(process, signal.SIGINT)
    assert (done.code, done.out) == (130, "")
    assert "interrupted: the turn of agent tmp_run_" in done.err
    assert "Traceback" not in done.err
    agent_id = done.err.partition("of agent ")[2].split()[0]
    script.write_text("rules: [{rounds: [{text: at last}]}]")
    with serving(cli):
        folder = cli.home / "agents"
        assert sorted(path.name for path in folder.iterdir()) == ["main", agent_id]
        assert [entry["identity"]["agent_id"] for entry in cli.json("agent", "list")] == ["main"]
        hidden = cli("status", "--agent", agent_id, "--json")
        assert (hidden.code, hidden.problem["status"]) == (2, 404)


def test_an_interrupted_run_of_a_public_agent_ends_where_it_is_taken_up(cli: Cli):
    script = cli.home / "scripts" / "actor.yaml"
    script.write_text("rules: [{rounds: [{text: at last, delay_ms: 600000}]}]")
    process = cli.start("run", "take your time", "--agent", "ci", "--create-agent")
    line_with("thinking", process.stderr)
    end(process, signal.SIGINT)
    script.write_text("rules: [{rounds: [{text: at last}]}]")
    with serving(cli):
        briefs = until(lambda: cli.json("tail", "--agent", "ci"), "the brief")
    assert [brief["body"] for brief in briefs] == ["at last"]


def test_a_run_with_a_paused_agent_is_refused(cli: Cli):
    with serving(cli):
        cli.json("agent", "pause", "main")
    done = cli("run", "hello", "--agent", "main")
    assert (done.code, done.out) == (2, "")
    assert "run 'holon agent resume main'" in done.err


def test_two_runs_cannot_have_the_same_home_at_the_same_time(cli: Cli):
    (cli.home / "scripts" / "actor.yaml").write_text("rules: [{rounds: [{text: done, delay_ms: 600000}]}]")
    first = cli.start("run", "slow")
    try:
        line_with("thinking", first.stderr)
        done = cli("run", "fast", "--json")
        assert (done.code, done.out, done.problem["code"]) == (2, "", "home_busy")
    finally:
        end(first, signal.SIGINT)


def test_a_reader_that_goes_away_is_no_error(cli: Cli):
    process = subprocess.Popen(
        cli.command("config", "list"), env=cli.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (141, "")
