"""Text becomes terms: names apart, endings off, CJK in pairs."""

from __future__ import annotations

import pytest

from holon.recall.stems import stem
from holon.recall.synonyms import synonyms
from holon.recall.words import query_terms, terms, words

# Pairs from Porter's published vocabulary.
STEMS = {
    "caresses": "caress", "ponies": "poni", "cats": "cat", "agreed": "agre", "plastered": "plaster",
    "motoring": "motor",
    "conflated": "conflat", "hopping": "hop", "falling": "fall", "hissing": "hiss", "failing": "fail", "filing": "file",
    "happy": "happi", "sky": "sky", "relational": "relat", "conditional": "condit", "digitizer": "digit",
    "operator": "oper", "decisiveness": "decis", "hopefulness": "hope", "formalize": "formal", "goodness": "good",
    "replacement": "replac", "adjustment": "adjust", "adoption": "adopt", "activate": "activ", "probate": "probat",
    "controlling": "control", "rolling": "roll", "generalizations": "gener",
}  # fmt: skip


@pytest.mark.parametrize(("word", "expected"), STEMS.items())
def test_a_word_has_the_stem_of_porters_list(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("pdf-processing_v2", ["pdf", "processing", "v2", "v", "2"]),
        ("Ｋｕｂｅ", ["kube"]),
        ("部署应用", ["部署", "署应", "应用"]),
        ("字", ["字"]),
        ("", []),
    ],
)
def test_names_are_taken_apart_and_cjk_text_becomes_pairs(text: str, expected: list[str]) -> None:
    assert list(words(text)) == expected


def test_words_that_say_nothing_are_left_out_unless_there_are_no_others() -> None:
    assert terms("please deploy the apps for me") == ["deploi", "app"]
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]


def test_a_synonym_works_both_ways() -> None:
    assert "rollout" in synonyms(stem("deploy")) and stem("deploy") in synonyms(stem("rollout"))
