"""What people read of events: one sentence a kind, the same on every surface."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holon.core import event_kinds
from holon.core.codec import dumps, to_plain
from holon.core.events import REGISTRY, Event, EventCategory, EventLevel, EventPayload, event_kind
from holon.core.presentation import DisplayMode, Presentation, Visibility, brief_visibility, present, shown_in
from tests.core.samples import MOMENT, full, smallest


def _event(payload: EventPayload) -> Event:
    """The event as it stands in the log: its payload without defaults."""
    return Event(
        id="evt_1", agent_id="main", event_seq=1, created_at=MOMENT, kind=payload.kind, payload=to_plain(payload)
    )


def _smallest(kind: str) -> EventPayload:
    """As the kind's sentence expects it, where a plain sample is not enough."""
    return smallest(REGISTRY[kind], **_SHAPES.get(kind, {}))


def _largest(kind: str) -> EventPayload:
    return full(REGISTRY[kind], **_SHAPES.get(kind, {}))


#: What stands in payload fields that are dictionaries.
_SHAPES: dict[str, dict[str, Any]] = {
    "message_admitted": {"origin": {"kind": "operator"}},
    "provider_round_completed": {"token_usage": {"total_tokens": 7}},
}


@pytest.mark.spec("RT-431", "RT-432")
@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_every_kind_says_something_of_its_own_in_one_line(kind: str):
    for payload in (_smallest(kind), _largest(kind)):
        shown = present(_event(payload))
        assert shown.source_event_kind == kind
        assert shown.category in EventCategory
        assert shown.visibility in Visibility
        assert shown.title
        assert shown.summary not in ("", kind.replace("_", " "))
        assert "\n" not in shown.summary
        assert len(shown.summary) <= 200


@pytest.mark.spec("RT-431")
def test_a_presentation_has_no_severity_and_no_routing_hint():
    assert set(Presentation.__struct_fields__) == {
        "visibility", "category", "title", "body", "summary", "source_event_kind",
    }  # fmt: skip


@pytest.mark.spec("RT-432")
def test_the_categories_are_the_twelve_of_the_text():
    assert {category.value for category in EventCategory} == {
        "operator_notification", "brief", "message", "work_item", "task", "waiting", "workspace", "runtime",
        "assistant_progress", "tool", "state_sync", "trace",
    }  # fmt: skip


@pytest.mark.spec("RT-433")
def test_visibility_goes_from_what_needs_action_to_what_is_trace():
    assert [visibility.value for visibility in sorted(Visibility, key=lambda visibility: visibility.rank)] == [
        "action_required", "work_done", "turn_result", "progress", "trace",
    ]  # fmt: skip
    assert [visibility.rank for visibility in Visibility] == [1, 2, 3, 4, 5]


@pytest.mark.spec("RT-433")
@pytest.mark.parametrize(
    ("kind", "visibility"),
    [
        ("tool_executed", "trace"),
        ("tool_call_interrupted", "trace"),
        ("provider_round_completed", "trace"),
        ("turn_context_built", "trace"),
        ("closure_decided", "trace"),
        ("scheduler_decision", "trace"),
        ("assistant_round_recorded", "progress"),
    ],
)
def test_tools_and_diagnostics_are_trace_and_previews_are_progress(kind: str, visibility: str):
    assert present(_event(_smallest(kind))).visibility == visibility


@pytest.mark.spec("RT-126")
@pytest.mark.parametrize(
    ("flags", "visibility"),
    [
        ({"awaits_operator": True}, "action_required"),
        ({"awaits_operator": True, "completes_work": True}, "action_required"),
        ({"completes_work": True}, "work_done"),
        ({}, "turn_result"),
    ],
)
@pytest.mark.parametrize("brief_kind", ["ack", "result", "failure"])
def test_a_brief_is_shown_by_what_it_asks_of_the_operator(flags: dict[str, Any], visibility: str, brief_kind: str):
    created = event_kinds.BriefCreated(brief_id="brief_1", brief_kind=brief_kind, text="first\nsecond", **flags)
    shown = present(_event(created))
    assert (shown.visibility, shown.category, shown.body, shown.summary) == (
        visibility, "brief", "first\nsecond", "first second",
    )  # fmt: skip
    assert brief_visibility(**{"awaits_operator": False, "completes_work": False} | flags) == visibility


@pytest.mark.spec("RT-435")
@pytest.mark.parametrize(
    ("round_", "sentence"),
    [
        ({"text_preview": "I look\ninto it"}, "Assistant progress: I look into it"),
        ({"text_preview": "So.", "tool_names": ["Sleep"]}, "Assistant progress: So."),
        ({"tool_names": ["ExecCommand", "Sleep"]}, "Model requested tools: ExecCommand, Sleep"),
        ({"text_preview": " \n", "tool_names": ["Sleep"]}, "Model requested tools: Sleep"),
        ({}, "Round 3 ended without text"),
    ],
)
def test_a_provider_round_is_shown_by_its_text_or_its_tools(round_: dict[str, Any], sentence: str):
    assert present(_event(event_kinds.AssistantRoundRecorded(round=3, **round_))).summary == sentence


@pytest.mark.spec("RT-436")
@pytest.mark.parametrize("mode", DisplayMode)
def test_a_state_change_is_in_raw_views_only(mode: DisplayMode):
    event = _event(event_kinds.AgentStateChanged(before="asleep", after="awake_running", reason="a message"))
    assert not shown_in(event, mode)
    assert present(event).summary == "asleep -> awake_running (a message)"


def test_a_mode_shows_what_the_one_below_it_shows_and_more():
    shown = {mode: {kind for kind in REGISTRY if shown_in(_event(_smallest(kind)), mode)} for mode in DisplayMode}
    assert shown[DisplayMode.INFO] < shown[DisplayMode.VERBOSE] < shown[DisplayMode.DEBUG]
    assert {"brief_created", "runtime_error", "limit_reached"} <= shown[DisplayMode.INFO]
    assert "tool_executed" in shown[DisplayMode.VERBOSE] - shown[DisplayMode.INFO]


@pytest.mark.parametrize(
    ("word", "mode"),
    [("3", "info"), ("4", "verbose"), ("5", "debug"), ("info", "info"), ("verbose", "verbose"), ("debug", "debug")],
)
def test_a_display_mode_has_a_name_and_a_number(word: str, mode: str):
    assert DisplayMode.parse(word) == mode


@pytest.mark.parametrize("word", ["trace", "1", "2", "6", "", "INFO"])
def test_trace_and_other_words_are_no_display_mode(word: str):
    with pytest.raises(ValueError, match="DisplayMode"):
        DisplayMode.parse(word)


def test_an_event_of_another_version_still_gets_a_line():
    unknown = Event(id="e", agent_id="main", event_seq=1, created_at=MOMENT, kind="moon_landed", payload={"at": 1})
    assert present(unknown) == Presentation(
        visibility=Visibility.TRACE,
        category=EventCategory.TRACE,
        title="Moon landed",
        summary="moon landed",
        source_event_kind="moon_landed",
    )
    assert unknown.typed() is None
    assert not any(shown_in(unknown, mode) for mode in DisplayMode)


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_a_payload_without_the_fields_that_a_sentence_needs_still_gets_a_line(kind: str):
    emptied = Event(id="e", agent_id="main", event_seq=1, created_at=MOMENT, kind=kind, payload={})
    assert present(emptied).summary


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_a_payload_comes_back_as_its_type(kind: str):
    for payload in (_smallest(kind), _largest(kind)):
        assert _event(payload).typed() == payload


def test_every_kind_has_a_level_and_a_category_and_knows_its_name():
    for kind, payload in REGISTRY.items():
        assert payload.kind == kind
        assert payload.level in EventLevel
        assert payload.category in EventCategory
        assert "kind" not in to_plain(_smallest(kind))


def test_a_kind_cannot_be_registered_twice():
    with pytest.raises(AssertionError, match="timer_fired"):
        event_kind("timer_fired", EventLevel.DEBUG, EventCategory.TRACE)(event_kinds.TimerFired)


def test_a_surface_that_knows_only_the_presentation_shows_the_same():
    event = _event(event_kinds.BriefCreated(brief_id="b", brief_kind="result", text="done"))
    program = (
        "import sys, msgspec\n"
        "from holon.core.presentation import DisplayMode, present, shown_in\n"
        "from holon.core.codec import dumps, loads\n"
        "from holon.core.events import Event\n"
        "event = loads(sys.argv[1], Event)\n"
        "print(shown_in(event, DisplayMode.INFO), dumps(present(event)))"
    )
    found = subprocess.run([sys.executable, "-c", program, dumps(event)], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == f"True {dumps(present(event))}"
