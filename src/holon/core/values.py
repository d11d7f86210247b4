"""Values: small immutable things that stay inside the process. What is stored or sent is a `Record` (`codec`)."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True):
    """Compared by its fields. A struct rather than a dataclass: every start defines all of them, and waits for it."""
