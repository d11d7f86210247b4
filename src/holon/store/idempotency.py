"""Idempotency keys: a request that is sent again gets the first answer; another one under the same key is refused."""

from __future__ import annotations

import hashlib
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from holon.core.errors import IdempotencyMismatch, InvalidInput
from holon.store.transaction import Tx

T = TypeVar("T")

KEY_CHARS = 255


class Answer(NamedTuple, Generic[T]):
    """What a request led to, and whether that was before: known from its transaction, never from a clock."""

    value: T
    replayed: bool = False


def check_key(key: str | None) -> None:
    if key is not None and not 0 < len(key) <= KEY_CHARS:
        raise InvalidInput(
            f"an idempotency key has 1 to {KEY_CHARS} characters",
            hint="take a short key of your own for each request, or leave it out",
            field="Idempotency-Key",
        )


def fingerprint(request: Any) -> str:
    """The same for the same content, in whatever order its fields were written."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()[:32]


def seen(tx: Tx, scope: str, key: str, request_fingerprint: str) -> str | None:
    """The first answer under this key, if there was one."""
    row = tx.one("SELECT fingerprint, result FROM idempotency WHERE scope = ? AND key = ?", scope, key)
    if row is None:
        return None
    if row[0] != request_fingerprint:
        raise IdempotencyMismatch(
            f"the idempotency key {key!r} was used for another request",
            hint="send the first request again unchanged, or take a new key",
        )
    return str(row[1])


def remember(tx: Tx, scope: str, key: str, request_fingerprint: str, result: str) -> None:
    tx.run(
        "INSERT INTO idempotency (scope, key, fingerprint, result, created_at) VALUES (?, ?, ?, ?, ?)",
        scope,
        key,
        request_fingerprint,
        result,
        tx.now_ms,
    )
