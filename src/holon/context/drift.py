"""Drift: whether a request is the one before plus what is new, byte for byte. If not, where it first differs.

Each block of a request has a fingerprint; a chain over them names any prefix with one value, so that a request of
thousands of blocks is compared by looking at what is new and at one number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from holon.core.values import Value


def fingerprint(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Link(Value, frozen=True):
    """One block of a request: what it is, and the chain up to and including it."""

    source: str
    tokens: int
    chain: str


@dataclass(slots=True)
class Chain:
    """The blocks of a request in order. It grows at its end only."""

    links: list[Link] = field(default_factory=list)
    #: Tokens by source, in the order in which sources first appear.
    tokens: dict[str, int] = field(default_factory=dict)

    def add(self, source: str, text: str, tokens: int) -> None:
        before = self.links[-1].chain if self.links else ""
        self.links.append(Link(source, tokens, fingerprint(before + fingerprint(text))))
        self.tokens[source] = self.tokens.get(source, 0) + tokens

    @property
    def head(self) -> str:
        """One value for the whole request."""
        return self.links[-1].chain if self.links else ""

    def names(self, length: int) -> str | None:
        """The value of the prefix of that many blocks, or `None` if the request is shorter."""
        if length == 0:
            return ""
        return self.links[length - 1].chain if length <= len(self.links) else None


class Drift(Value, frozen=True):
    """The first block that differs, where it came from, and the tokens that are no longer read from the cache."""

    position: int
    source: str
    was_source: str
    lost_tokens: int


def find_drift(before: Chain, now: Chain) -> Drift | None:
    """`None` if `now` begins with all of `before`."""
    length = len(before.links)
    if now.names(length) == before.head:
        return None
    position = _first_difference(before, now)
    was = before.links[position].source if position < length else "(end)"
    source = now.links[position].source if position < len(now.links) else "(end)"
    return Drift(position, source, was, sum(link.tokens for link in before.links[position:]))


class Breach(Value, frozen=True):
    """Where a prompt is no longer what was sent: its first difference is one of the blocks `first` to `last`."""

    first: int
    last: int


def find_breach(now: Chain, known: Iterable[tuple[int, str]]) -> Breach | None:
    """Compares with what the books say of earlier requests, shortest first: (blocks, chain) of each.

    Only whole requests are on the books, so a difference is found as closely as two of them stand together.
    """
    intact = 0
    for blocks, chain in known:
        if now.names(blocks) != chain:
            return Breach(min(intact, blocks - 1), blocks - 1)
        intact = blocks
    return None


def _first_difference(before: Chain, now: Chain) -> int:
    """Chains agree up to the first difference and never after it, so it can be found by halving."""
    low, high = 0, min(len(before.links), len(now.links))
    while low < high:
        middle = (low + high) // 2
        if before.links[middle].chain == now.links[middle].chain:
            low = middle + 1
        else:
            high = middle
    return low
