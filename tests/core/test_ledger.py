"""The ledger's arithmetic: exact money, and shares that add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holon.core.ledger import by_section, cost_of
from holon.core.models import Prices
from holon.core.usage import InputBuckets

TOKENS = st.integers(0, 9_999)
HAIKU = Prices(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)


def test_each_bucket_has_its_own_price() -> None:
    buckets = InputBuckets(fresh=1_000, read=10_000, written=2_000)
    assert cost_of(HAIKU, buckets, 400) == round((1_000 * 1.0 + 10_000 * 0.1 + 2_000 * 1.25 + 400 * 5.0) * 1_000)
    assert cost_of(HAIKU, InputBuckets(fresh=1_000_000), 0) == 1_000_000_000, "a million tokens cost a dollar"


def test_the_front_of_a_prompt_is_what_was_read() -> None:
    shares = by_section({"tools": 100, "policy": 100, "inputs": 200}, InputBuckets(read=200, written=150, fresh=50))
    assert shares == {
        "tools": InputBuckets(read=100),
        "policy": InputBuckets(read=100),
        "inputs": InputBuckets(written=150, fresh=50),
    }


@given(
    sections=st.dictionaries(st.text(max_size=5), st.integers(0, 10_000), max_size=8),
    buckets=st.builds(
        InputBuckets, fresh=st.integers(0, 9_999), read=st.integers(0, 9_999), written=st.integers(0, 9_999)
    ),
)
def test_the_parts_always_add_up_to_the_whole(sections: dict[str, int], buckets: InputBuckets) -> None:
    shares = by_section(sections, buckets)
    if sum(sections.values()):
        assert sum(shares.values(), InputBuckets()) == buckets
    else:
        assert shares == {}
