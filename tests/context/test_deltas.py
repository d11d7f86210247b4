"""Deltas: what changed is said once, at the end, and the model's knowledge follows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holon.context.deltas import MAX_DELTA_TOKENS, find_deltas, known_after
from holon.context.sections import Place, Section, fingerprints
from holon.core.prompts import Stability


def section(name: str, text: str) -> Section:
    return Section(name, Place.AGENT_INSTRUCTIONS, Stability.AGENT_SCOPED, text)


def test_nothing_changed_says_nothing() -> None:
    sections = [section("a", "one"), section("b", "two")]
    assert find_deltas(fingerprints(sections), sections) == []


def test_a_new_a_changed_and_a_removed_section_are_each_announced() -> None:
    known = fingerprints([section("a", "one"), section("b", "two")])
    deltas = find_deltas(known, [section("a", "ONE"), section("c", "three")])
    assert [(delta.section_id, delta.text.splitlines()[0]) for delta in deltas] == [
        ("a", "[context: a changed; this text takes the place of the earlier one]"),
        ("c", "[context: c is new and applies from here on]"),
        ("b", "[context: b no longer applies]"),
    ]


def test_of_a_long_section_only_the_changed_lines_are_sent() -> None:
    lines = [f"line {n} of a long section" for n in range(200)]
    before = "\n".join(lines)
    after = "\n".join([*lines[:50], "a changed line", *lines[51:]])
    (delta,) = find_deltas(fingerprints([section("a", before)]), [section("a", after)], {"a": before})
    assert "+a changed line" in delta.text
    assert "-line 50 of a long section" in delta.text
    assert len(delta.text) < 400


def test_a_huge_change_is_cut_and_says_so() -> None:
    (delta,) = find_deltas({}, [section("a", "x" * 100_000)])
    assert len(delta.text) < MAX_DELTA_TOKENS * 4 + 300
    assert "more characters" in delta.text


@given(
    steps=st.lists(st.dictionaries(st.sampled_from("abcd"), st.text(min_size=1, max_size=5), max_size=4), max_size=8)
)
def test_after_its_deltas_the_model_knows_exactly_what_is_true(steps: list[dict[str, str]]) -> None:
    known: dict[str, str] = {}
    for step in steps:
        sections = [section(name, text) for name, text in step.items()]
        known = known_after(known, find_deltas(known, sections))
        assert known == fingerprints(sections)
        assert find_deltas(known, sections) == []
