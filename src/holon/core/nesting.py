"""Nesting: how deep JSON from outside may be. Deeper JSON could be stored and not be read again."""

from __future__ import annotations

from typing import Any

#: Lists and objects inside each other. Stored messages are read again from deeper in the program than this.
NESTING = 64


def is_flat_enough(value: Any) -> bool:
    """Walks without recursion: what is too deep must not hurt here either."""
    level: list[Any] = [value]
    for _ in range(NESTING):
        level = [child for item in level for child in _children(item)]
        if not level:
            return True
    return not any(isinstance(item, dict | list) for item in level)


def _children(item: Any) -> list[Any]:
    return list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
