"""JSON as records are stored and sent: snake_case, compact, typed on the way in.

Stored records ignore unknown fields (they may come from a newer version); what a person or a model writes is refused
with the field's name, because those types say `forbid_unknown_fields`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of everything that is stored or sent: immutable, compared by value, defaults left out."""


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of everything that a person or a model writes: an unknown field is an error that names it."""


def dumps(value: Any) -> str:
    return _encoder.encode(value).decode()


def loads(text: str | bytes, type_: type[T]) -> T:
    return _decoder(type_).decode(text)  # type: ignore[no-any-return]


def to_plain(value: Any) -> Any:
    """The value as dicts, lists and scalars, exactly as it would be sent."""
    return msgspec.to_builtins(value)


def from_plain(value: Any, type_: type[T]) -> T:
    return msgspec.convert(value, type_)


#: Built once a type: making a decoder costs more than using it.
_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = lru_cache(maxsize=256)(msgspec.json.Decoder)


#: What `loads` and `from_plain` raise for text that is not JSON, and for JSON of another shape.
InvalidJson = msgspec.DecodeError
InvalidShape = msgspec.ValidationError
