"""The ledger of calls: for each answered round, what it was made of and what it cost.

Money is counted in whole nanodollars: sums are exact, and a token of the cheapest model is not rounded away.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from holon.core.codec import Record
from holon.core.models import Prices
from holon.core.usage import InputBuckets

#: The section under which the output of a model is booked.
OUTPUT = "output"
#: The section under which all of a call is booked, beside its parts.
TOTAL = ""


class CallRecord(Record, frozen=True, kw_only=True):
    agent_id: str
    seq: int
    created_at: datetime
    turn_id: str
    model_ref: str
    epoch: int
    #: The newest transcript entry that the request held.
    upto_seq: int
    #: The chain over all blocks of the request (see `context.drift`), and how many there were.
    chain: str
    blocks: int
    buckets: InputBuckets
    output: int
    nanodollars: int
    #: Input tokens by section, in the order of the prompt.
    sections: dict[str, int] = msgspec.field(default_factory=dict)


class CostLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of `holon cost`."""

    key: str
    calls: int
    fresh: int
    read: int
    written: int
    output: int
    dollars: float

    @property
    def input(self) -> int:
        return self.fresh + self.read + self.written


class CacheLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How well the cache served one model. `hit_coverage` is read over all input, which `hit_rate` also names."""

    model: str
    call_count: int
    uncached_input_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    hit_rate: float | None
    cache_write_share: float | None


def cost_of(prices: Prices, buckets: InputBuckets, output: int) -> int:
    """Nanodollars: each bucket at its own price."""
    dollars_per_million = (
        buckets.fresh * prices.input
        + buckets.read * prices.cache_read
        + buckets.written * prices.cache_write
        + output * prices.output
    )
    return round(dollars_per_million * 1_000)


def by_section(sections: dict[str, int], buckets: InputBuckets) -> dict[str, InputBuckets]:
    """The buckets of a call shared out over its sections: the front of a prompt is what was read from the cache.

    `sections` are estimates; they are scaled to what the provider counted. The parts add up exactly.
    """
    estimated = sum(sections.values())
    if not estimated:
        return {}
    shares: dict[str, InputBuckets] = {}
    read_end, total = buckets.read, buckets.total
    written_end = read_end + buckets.written
    passed = position = 0
    read = cached = 0  # how much of what came before was read from the cache, and how much was read or written
    for name, tokens in sections.items():
        passed += tokens
        end = total * passed // estimated
        now_read, now_cached = min(end, read_end), min(end, written_end)
        shares[name] = InputBuckets(
            read=now_read - read,
            written=(now_cached - now_read) - (cached - read),
            fresh=(end - now_cached) - (position - cached),
        )
        position, read, cached = end, now_read, now_cached
    return shares
