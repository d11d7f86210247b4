"""Characters: whole ones, out of what services send.

JSON writes a character beyond the first 65,536 as two escapes, and a service that cuts its text by tokens may put them
into two pieces, or send one half only. An answer was paid for: halves that belong together are joined, others become
U+FFFD, and the rest is kept. No text with half a character can be stored or sent.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def whole(text: str) -> str:
    """The text with its halves joined or replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def all_whole(value: Any) -> Any:
    """A plain value in which every text is whole."""
    match value:
        case str():
            return whole(value)
        case dict():
            return {all_whole(key): all_whole(item) for key, item in value.items()}
        case list():
            return [all_whole(item) for item in value]
        case _:
            return value


def decode(data: bytes | str, type_: type[T]) -> T:
    """JSON of this type. The fast reader refuses half a character; then the patient one reads it."""
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        try:
            plain = all_whole(json.loads(data))
        except (ValueError, RecursionError):
            raise error from None  # it is no JSON at all
        return msgspec.convert(plain, type_)
