"""The lexical engine ranks, is forgiving, and is kept up document by document."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.recall.fusion import mix
from holon.recall.lexical import Field, LexicalIndex
from holon.recall.packing import Candidate, Packed, pack
from holon.recall.variants import edits

FIELDS = (Field("name", 3.0, 3, is_title=True), Field("text", 1.0, 20))
DOCUMENTS = {
    "pdf-forms": "Fill in forms and extract text from documents.",
    "deploy-app": "Roll out an application to the cluster.",
    "kubernetes-debug": "Find out why a pod does not start.",
    "release-notes": "Write the notes of a release from its commits.",
    "数据库迁移": "数据库迁移和备份",
}


@pytest.fixture
def index() -> LexicalIndex:
    made = LexicalIndex(FIELDS)
    for key, text in DOCUMENTS.items():
        made.add(key, {"name": key, "text": text})
    return made


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("fill out this pdf form", "pdf-forms"),
        ("deploying", "deploy-app"),
        ("rollout of the app", "deploy-app"),
        ("kuberntes pod", "kubernetes-debug"),  # a typo
        ("kubern", "kubernetes-debug"),  # a beginning
        ("releasenotes", "release-notes"),  # a compound
        ("备份数据库", "数据库迁移"),
    ],
)
def test_what_is_meant_comes_first(index: LexicalIndex, query: str, first: str) -> None:
    assert index.search(query)[0].key == first


def test_each_part_of_a_long_request_gets_its_own(index: LexicalIndex) -> None:
    found = index.search(
        "Fill in the pdf form named 'cluster release pod'. Then write release notes. Finally deploy.", 3
    )

    assert {hit.key for hit in found} == {"pdf-forms", "release-notes", "deploy-app"}


def test_what_matches_nothing_is_not_returned(index: LexicalIndex) -> None:
    assert index.search("xylophone") == [] and index.search("") == [] and index.search("!!!") == []


def test_a_removed_document_is_gone_and_a_changed_one_is_found_by_its_new_words(index: LexicalIndex) -> None:
    index.add("pdf-forms", {"name": "pdf-forms", "text": "Nothing but watermarks."})
    index.remove("deploy-app")

    assert [hit.key for hit in index.search("watermarks")] == ["pdf-forms"]
    assert "deploy-app" not in {hit.key for hit in index.search("deploy app cluster")}
    assert len(index) == len(DOCUMENTS) - 1


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_query_is_answered_and_twice_the_same(query: str) -> None:
    index = LexicalIndex(FIELDS)
    for key, text in DOCUMENTS.items():
        index.add(key, {"name": key, "text": text})

    assert index.search(query) == index.search(query)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["x y", "y z", "z", "w x"])), max_size=12))
def test_an_index_kept_up_ranks_like_one_made_anew(changes: list[tuple[str, str]]) -> None:
    kept, last = LexicalIndex(FIELDS), dict[str, str]()
    for key, text in changes:
        kept.add(key, {"text": text})
        last[key] = text
    fresh = LexicalIndex(FIELDS)
    for key, text in last.items():
        fresh.add(key, {"text": text})

    assert kept.search("x z w") == fresh.search("x z w")


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [("deploy", "deploy", 0), ("deploy", "depoly", 1), ("deploy", "deplo", 1), ("deploy", "employ", 2)],
)
def test_edits_are_counted_and_a_swap_is_one(left: str, right: str, distance: int) -> None:
    assert edits(left, right, 3) == distance


def test_mixed_rankings_keep_the_stronger_rankers_order() -> None:
    assert list(mix([({"a": 10.0, "b": 9.0}, 0.85), ({"b": 2.0, "c": 1.0}, 0.15)])) == ["b", "a", "c"]
    assert mix([({}, 1.0)]) == {}


def test_packing_is_whole_or_absent_and_prefers_what_says_something_else() -> None:
    same = frozenset("xy")
    found = pack(
        [
            Candidate("best", 10, 400, same),
            Candidate("again", 9, 400, same),
            Candidate("other", 8, 400, frozenset("z")),
            Candidate("huge", 7, 5_000),
        ],
        1_000,
    )

    assert found == Packed(("best", "other"), ("again", "huge"), 800)
