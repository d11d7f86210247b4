"""The index: one line a skill, within a budget, and nothing hidden silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.skills import SkillScope
from holon.core.tokens import estimate
from holon.skills.descriptors import SkillDescriptor
from holon.skills.index import GUIDE, render_index


def made(count: int, chars: int = 60) -> list[SkillDescriptor]:
    return [
        SkillDescriptor(f"skill-{number:04}", ("word " * chars)[:chars].strip(), SkillScope.AGENT, Path("/x"))
        for number in range(count)
    ]


@pytest.mark.spec("CA-047", "CA-048", "CA-049")
def test_a_line_for_each_skill_and_a_mark_for_those_that_stand_in_the_prompt() -> None:
    skills = [
        SkillDescriptor("a", "Does\n a thing.", SkillScope.AGENT, Path("/x")),
        SkillDescriptor("b", "Other.", SkillScope.USER, Path("/y")),
    ]

    assert render_index(skills, {"b"}, 4_000) == f"{GUIDE}\n- a: Does a thing.\n- b [preloaded]: Other."
    assert render_index([], (), 4_000) == ""


@pytest.mark.spec("CA-050")
def test_a_skill_takes_around_a_hundred_tokens_or_less() -> None:
    one, eleven = (estimate(render_index(made(count, 300), (), 100_000)) for count in (1, 11))

    assert (eleven - one) / 10 <= 100


def test_long_descriptions_are_shortened_first_and_that_is_said() -> None:
    text = render_index(made(50, 600), (), 4_000)

    assert estimate(text) <= 4_000
    assert text.count("\n- skill-") == 50
    assert "[descriptions are shortened to fit: skill_search shows them whole]" in text


def test_what_is_not_described_is_named_and_counted_with_the_way_to_find_it() -> None:
    text = render_index(made(200, 600), (), 4_000)
    described = text.count("\n- skill-")

    assert estimate(text) <= 4_000
    assert f"[{200 - described} of 200 skills are not described here" in text
    assert all(f"skill-{number:04}" in text for number in range(200))
    assert "skill_search(query)" in text.splitlines()[-1]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3_000), st.integers(1, 1_000), st.integers(600, 6_000))
def test_the_budget_holds_and_every_skill_is_accounted_for(count: int, chars: int, budget: int) -> None:
    text = render_index(made(count, chars), (), budget)

    assert estimate(text) <= budget
    described = text.count("\n- skill-")
    if described < count:
        note = text.splitlines()[-1]
        more = int(note.split(" and ")[1].split(" more")[0]) if " more" in note else 0
        assert note.count("skill-") + more + described == count
