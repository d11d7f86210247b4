"""Durations as people write them: `10s`, `5m`, `1h30m`, `250ms`."""

from __future__ import annotations

import re

from holon.core.errors import InvalidInput

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str) -> int:
    """The duration in milliseconds."""
    flat = "".join(text.lower().split())
    parts = _PART.findall(flat)
    if not parts or "".join(number + unit for number, unit in parts) != flat:
        raise InvalidInput(f"{text!r} is not a duration", hint="write it like 10s, 5m, 1h30m or 250ms")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
