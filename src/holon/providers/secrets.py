"""Secrets: keys that are sent to a service and shown to nobody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SHOWN = "[secret]"
#: What is shorter is a placeholder, and would be found in every other word.
_SHORTEST = 4


class Secret:
    """A key. It prints as `[secret]`; only `reveal` says it, to the one who sends it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return SHOWN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def redacted(value: Any, secrets: Iterable[Secret]) -> Any:
    """The value with each secret in its texts made unreadable: services quote in errors what they were sent."""
    values = [secret.reveal() for secret in secrets if len(secret.reveal()) >= _SHORTEST]
    hidden = list(dict.fromkeys([*values, *(repr(value)[1:-1] for value in values)]))  # also where it is escaped
    return _redacted(value, hidden) if hidden else value


def _redacted(value: Any, hidden: list[str]) -> Any:
    match value:
        case str():
            for secret in hidden:
                value = value.replace(secret, SHOWN)
            return value
        case dict():
            return {_redacted(key, hidden): _redacted(inner, hidden) for key, inner in value.items()}
        case list() | tuple():
            return [_redacted(inner, hidden) for inner in value]
        case _:
            return value
