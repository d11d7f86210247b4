"""The drift check: silent while the prompt only grows, exact about the first block that differs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holon.context.drift import Breach, Chain, Drift, find_breach, find_drift

BLOCKS = st.lists(st.tuples(st.sampled_from(["policy", "tools", "inputs"]), st.text(max_size=8)), max_size=40)


def chain_of(blocks: list[tuple[str, str]]) -> Chain:
    chain = Chain()
    for source, text in blocks:
        chain.add(source, text, len(text))
    return chain


@given(before=BLOCKS, added=BLOCKS)
def test_a_request_that_extends_the_last_one_has_not_drifted(
    before: list[tuple[str, str]], added: list[tuple[str, str]]
) -> None:
    assert find_drift(chain_of(before), chain_of(before + added)) is None


@given(blocks=BLOCKS.filter(bool), data=st.data())
def test_the_first_changed_block_is_named_with_its_source_and_what_is_lost(
    blocks: list[tuple[str, str]], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(blocks) - 1))
    changed = [*blocks]
    changed[position] = ("memory", blocks[position][1] + "!")
    lost = sum(len(text) for _, text in blocks[position:])
    expected = Drift(position, "memory", blocks[position][0], lost)
    assert find_drift(chain_of(blocks), chain_of(changed)) == expected


def test_a_request_that_became_shorter_has_drifted_at_its_end() -> None:
    blocks = [("policy", "a"), ("inputs", "bb")]
    assert find_drift(chain_of(blocks), chain_of(blocks[:1])) == Drift(1, "(end)", "inputs", 2)


def test_tokens_are_summed_by_source_in_the_order_of_the_prompt() -> None:
    chain = chain_of([("tools", "abc"), ("policy", "ab"), ("inputs", "a"), ("policy", "a")])
    assert chain.tokens == {"tools": 3, "policy": 3, "inputs": 1}
    assert list(chain.tokens) == ["tools", "policy", "inputs"]


@given(blocks=BLOCKS.filter(bool), data=st.data())
def test_what_the_books_know_of_earlier_requests_holds_the_first_difference_between_two_of_them(
    blocks: list[tuple[str, str]], data: st.DataObject
) -> None:
    lengths = sorted(data.draw(st.sets(st.integers(1, len(blocks)), min_size=1)))
    known = [(length, chain_of(blocks[:length]).head) for length in lengths]
    assert find_breach(chain_of(blocks), known) is None
    position = data.draw(st.integers(0, len(blocks) - 1))
    changed = [*blocks]
    changed[position] = ("memory", blocks[position][1] + "!")
    expected = None
    if position < lengths[-1]:
        first = max((length for length in lengths if length <= position), default=0)
        expected = Breach(first, min(length for length in lengths if length > position) - 1)
    assert find_breach(chain_of(changed), known) == expected


def test_a_prompt_that_is_shorter_than_it_was_sent_is_broken_at_its_end() -> None:
    blocks = [("policy", "a"), ("inputs", "b"), ("answers", "c")]
    known = [(2, chain_of(blocks[:2]).head), (3, chain_of(blocks).head)]
    assert find_breach(chain_of(blocks[:2]), known) == Breach(2, 2)
