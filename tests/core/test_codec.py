"""What people and models write is refused with the name of what is wrong; what is stored is read leniently."""

from __future__ import annotations

import pytest

from holon.core.briefs import Brief, BriefKind
from holon.core.codec import InvalidJson, InvalidShape, dumps, from_plain, loads, to_plain
from holon.core.limits import Limits
from holon.core.retention import RetentionPolicy
from tests.core.samples import MOMENT

BRIEF = Brief(id="brief_1", agent_id="main", kind=BriefKind.RESULT, created_at=MOMENT, text="dönë ✓")


def test_an_unknown_field_of_an_input_is_refused_by_name():
    with pytest.raises(InvalidShape, match="rounds_per_trun"):
        from_plain({"rounds_per_trun": 5}, Limits)
    with pytest.raises(InvalidShape, match="event_days"):
        loads('{"event_days": 3}', RetentionPolicy)


def test_an_unknown_field_of_a_record_is_ignored():
    stored = to_plain(BRIEF) | {"from_a_newer_version": {"x": 1}}
    assert from_plain(stored, Brief) == BRIEF


def test_a_value_of_the_wrong_type_is_refused_by_field():
    with pytest.raises(InvalidShape, match="rounds_per_turn"):
        from_plain({"rounds_per_turn": "many"}, Limits)


def test_text_that_is_not_json_is_refused():
    with pytest.raises(InvalidJson):
        loads("{", Limits)


def test_a_record_comes_back_equal_and_leaves_its_defaults_out():
    text = dumps(BRIEF)
    assert loads(text, Brief) == BRIEF
    assert set(to_plain(BRIEF)) == {"id", "agent_id", "kind", "created_at", "text"}


def test_records_are_immutable():
    with pytest.raises(AttributeError):
        BRIEF.text = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "value"),
    [("events_days", 0), ("briefs_days", -1), ("messages_days", 100_000), ("max_bytes", -1), ("enabled", "yes")],
)
def test_a_retention_policy_that_makes_no_sense_is_refused(field: str, value: object):
    with pytest.raises(InvalidShape, match=field):
        from_plain({field: value}, RetentionPolicy)
