"""Ids: prefixed, sortable by the time they were made, unique across processes.

An id is `<prefix>_` + 10 characters of milliseconds + 4 of a counter + 8 random ones (40 bits). The counter begins at a
random place in each process and rises with every id, so that ids of one millisecond, and of one transaction, sort in
the order in which they were made; but for the one place in a million where it begins again. Capability secrets are not
ids: they come from `secrets`, with at least 128 random bits.
"""

from __future__ import annotations

import os
import random
import time
from functools import lru_cache
from itertools import count

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: sorts like the number it encodes
_TIME_CHARS = 10
_RANDOM_BITS, _COUNTER_MASK = 40, (1 << 20) - 1
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]  # ten bits a look-up
_random = random.Random()  # begins with the system's randomness, in each process anew
os.register_at_fork(after_in_child=_random.seed)
#: From the lower half: it does not begin again soon. `next` on it is atomic: no lock is needed.
_counter = count(int.from_bytes(os.urandom(3), "big") & _COUNTER_MASK >> 1)


def new_id(prefix: str, now_ms: int | None = None) -> str:
    """A fresh id such as `msg_01k9x0c7vqz3…`; `now_ms` is the caller's clock where it has one."""
    moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    number, chance = next(_counter) & _COUNTER_MASK, _random.getrandbits(_RANDOM_BITS)
    order = _PAIRS[number >> 10] + _PAIRS[number & 1023]
    head, tail = _PAIRS[chance >> 30] + _PAIRS[chance >> 20 & 1023], _PAIRS[chance >> 10 & 1023] + _PAIRS[chance & 1023]
    return f"{prefix}_{_time(moment)}{order}{head}{tail}"


def first_id(prefix: str, now_ms: int) -> str:
    """Sorts at or before every id of this moment or later, and after every earlier one: the edge of a range."""
    return f"{prefix}_{_encode(max(0, now_ms), _TIME_CHARS)}"


@lru_cache(maxsize=16)  # ids of one transaction share their time
def _time(moment: int) -> str:
    return _encode(moment, _TIME_CHARS)


def _encode(number: int, width: int) -> str:
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range((width - 2) * 5, -1, -10)])
