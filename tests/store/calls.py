"""A record family's function in a transaction of its own: `write(store, queue.settle, message_id, status)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from holon.store import Store, Tx

P = ParamSpec("P")
T = TypeVar("T")


def write(store: Store, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    return store.write_now(lambda tx: fn(tx, *args, **kwargs))


def read(store: Store, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    return store.read_now(lambda tx: fn(tx, *args, **kwargs))


def write_all(store: Store, fn: Callable[[Tx, Any], object], values: list[Any]) -> None:
    """One after the other, in one transaction."""

    def run(tx: Tx) -> None:
        for value in values:
            fn(tx, value)

    store.write_now(run)
