"""The bills, worked out by hand from the list prices."""

from decimal import Decimal

import pytest

from twins.billing import Bill, Caching, PriceList, bill_of
from twins.cache import CacheUse

PRICES = PriceList()


@pytest.mark.parametrize(
    ("model", "read", "written", "written_1h", "fresh", "output", "dollars"),
    [
        # Haiku 4.5: 1 and 5 dollars a million; a five-minute write 1.25, an hour's 2, a read 0.1.
        ("claude-haiku-4-5", 0, 0, 0, 1_000_000, 0, "1"),
        ("claude-haiku-4-5", 0, 1_000_000, 0, 0, 0, "1.25"),
        ("claude-haiku-4-5", 0, 1_000_000, 1_000_000, 0, 0, "2"),
        ("claude-haiku-4-5", 1_000_000, 0, 0, 0, 0, "0.1"),
        ("claude-haiku-4-5", 0, 0, 0, 0, 1_000_000, "5"),
        ("claude-haiku-4-5-20251001", 4957, 0, 0, 100, 20, "0.0006957"),
        ("claude-sonnet-4-5", 10_000, 2_000, 1_000, 500, 300, "0.01875"),
        ("claude-opus-4-7", 10_000, 0, 0, 0, 1_000, "0.03"),
        ("gpt-5", 1_920, 0, 0, 86, 300, "0.0033475"),
        ("gpt-5-mini", 1_000_000, 0, 0, 0, 0, "0.025"),
        ("gpt-4.1", 1_000_000, 0, 0, 0, 0, "0.5"),
        ("gpt-4o", 1_000_000, 0, 0, 0, 0, "1.25"),
        ("gpt-5.6-sol", 0, 1_000_000, 0, 0, 0, "6.25"),
    ],
)
def test_a_call_costs_what_the_price_list_says(model, read, written, written_1h, fresh, output, dollars):
    found = PRICES.find(model)
    assert found is not None
    bill = bill_of(found, CacheUse(read, written, written_1h, fresh), output)
    assert bill.dollars == Decimal(dollars)
    assert bill.input == read + written + fresh


@pytest.mark.parametrize(
    ("model", "floor", "caching"),
    [
        ("claude-haiku-4-5", 4096, Caching.MARKS),
        ("claude-sonnet-4-5-20250929", 1024, Caching.MARKS),
        ("claude-opus-5", 512, Caching.MARKS),
        ("gpt-5-2025-08-07", 1024, Caching.AUTOMATIC),
        ("gpt-5.6-luna", 1024, Caching.BREAKPOINTS),
    ],
)
def test_a_model_has_its_own_floor_and_its_own_kind_of_cache(model, floor, caching):
    found = PRICES.find(model)
    assert found is not None
    assert (found.floor, found.caching) == (floor, caching)


def test_a_name_that_only_begins_like_a_model_is_no_model():
    assert PRICES.find("claude-haiku-4-5-turbo") is None


def test_bills_add_up():
    one = Bill(fresh=1, read=2, written=3, written_1h=1, output=4, dollars=Decimal("0.5"))
    assert one + one == Bill(fresh=2, read=4, written=6, written_1h=2, output=8, dollars=Decimal(1))
