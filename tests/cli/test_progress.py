"""What people see while a turn runs, and how the CLI writes to terminals and pipes."""

from __future__ import annotations

import os
import pty
import subprocess
from datetime import UTC, datetime

import pytest

from holon.cli.durations import parse_duration
from holon.cli.output import printable, span
from holon.cli.progress import Activity, advance
from holon.core.errors import InvalidInput
from holon.core.events import EventEnvelope, EventProvenance
from tests.cli.conftest import DEADLINE_S, Cli


def event(kind: str, **payload: object) -> EventEnvelope:
    return EventEnvelope(
        id="evt_1",
        event_seq=1,
        ts=datetime(2025, 1, 1, tzinfo=UTC),
        agent_id="main",
        type=kind,
        provenance=EventProvenance(),
        payload=payload,
    )


def test_the_activity_follows_a_turn_through_its_rounds_and_tools():
    story = [
        (event("message_admitted"), "waiting in the queue", 0),
        (event("message_processing_started"), "starting the turn", 0),
        (event("turn_context_built", round=1), "thinking, round 1: waiting for the model", 0),
        (
            event("provider_round_completed", token_usage={"total_tokens": 1200}),
            "thinking, round 1: waiting for the model",
            1200,
        ),
        (event("assistant_round_recorded", tool_names=["Read", "Write"]), "tool Read", 1200),
        (event("tool_executed", tool_name="Read", round=1), "tool Write", 1200),
        (event("tool_executed", tool_name="Write", round=1), "thinking, round 2: waiting for the model", 1200),
        (
            event("operator_interjection_admitted", round=2),
            "thinking, round 3: waiting for the model",
            1200,
        ),
        (
            event("provider_round_completed", token_usage={"total_tokens": 34}),
            "thinking, round 3: waiting for the model",
            1234,
        ),
        (event("assistant_round_recorded", text_preview="done"), "settling the turn", 1234),
        (event("turn_terminal"), "done", 1234),
    ]
    activity = Activity(since=0.0)
    for now, (happened, doing, tokens) in enumerate(story):
        activity = advance(activity, happened, float(now))
        assert (activity.doing, activity.tokens) == (doing, tokens), happened.type


def test_the_activity_says_since_when_and_what_was_used():
    thinking = advance(Activity(since=0.0, tokens=12_345), event("turn_context_built", round=2), 10.0)
    same = advance(thinking, event("provider_round_completed", token_usage={"total_tokens": 5}), 14.0)
    assert same.line(75.5) == "thinking, round 2: waiting for the model · 1 min 6 s · 12,350 tokens"


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h 0 min")],
)
def test_spans_are_short(milliseconds, words):
    assert span(milliseconds) == words


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("2 d", 172_800_000)],
)
def test_durations_are_read_as_people_write_them(text, milliseconds):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "10", "s", "10 parsecs", "-5s", "5s!"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InvalidInput, match="is not a duration"):
        parse_duration(text)


def test_text_loses_what_steers_a_terminal_and_keeps_its_lines():
    assert printable("a\x1b[31mb\r\n\tc\x00\x9b\x7f") == "a�[31mb\n\tc���"
    assert printable("Grüße, 世界 🙂") == "Grüße, 世界 🙂"


def on_a_terminal(cli: Cli, *arguments: str, **env: str) -> str:
    """Everything that the command writes when both of its outputs are a terminal."""
    ours, theirs = pty.openpty()
    environ = cli.environ(TERM="xterm-256color", COLUMNS="100", **env)
    process = subprocess.Popen(
        cli.command(*arguments), env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65_536):
            written += piece
    except OSError:
        pass  # the last writer has closed it
    finally:
        os.close(ours)
    assert process.wait(DEADLINE_S) == 0
    return written.decode()


def test_on_a_terminal_a_run_shows_a_live_line_and_then_the_answer(cli: Cli):
    (cli.home / "scripts" / "actor.yaml").write_text("rules: [{rounds: [{text: all done, delay_ms: 600}]}]")
    shown = on_a_terminal(cli, "run", "hello")
    assert "… thinking, round 1: waiting for the model · " in shown
    assert shown.splitlines()[-1].endswith("all done")


def test_colours_are_for_terminals_only_and_can_be_turned_off(cli: Cli):
    assert "\x1b[1m" in on_a_terminal(cli, "config", "list")
    assert "\x1b" not in on_a_terminal(cli, "config", "list", NO_COLOR="1")
    assert "\x1b" not in cli("config", "list").out
