"""Continuations: what a service remembers of the last request, so that the next may send only what is new.

In memory only, and never needed: where anything is missing, different or in doubt, the whole request is sent.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

from holon.core.codec import dumps
from holon.core.values import Value
from holon.providers.contract import ProviderRequest

#: A service that refuses so many narrowed requests in a row stores nothing, whatever it was asked.
MOST_REFUSALS = 3
#: Scopes that are remembered; the one that was not used for longest is forgotten first.
KEPT = 256

Wire = dict[str, Any]
#: Agent, cache key, model.
Scope = tuple[str, str, str]


class Snapshot(Value, frozen=True):
    """The last exchange of a scope: how the request was shaped, and which items the service now knows."""

    response_id: str
    shape: str
    items: int
    digest: str


class Continuations:
    def __init__(self) -> None:
        self._known: OrderedDict[Scope, Snapshot] = OrderedDict()
        self._refusals = 0

    def narrowed(self, scope: Scope | None, body: Wire) -> Wire | None:
        """The body with only the new items, if it is the last exchange and more; else `None`."""
        known = self._known.get(scope) if scope and self._refusals < MOST_REFUSALS else None
        if known is None:
            return None
        items = body["input"]
        extends = (
            len(items) > known.items and _shape(body) == known.shape and _digest(items[: known.items]) == known.digest
        )
        if not extends:
            return None
        return {**body, "previous_response_id": known.response_id, "input": items[known.items :]}

    def remember(self, scope: Scope | None, body: Wire, answer: list[Wire], response_id: str | None) -> None:
        """What the service knows after it has answered the whole of this body."""
        if scope is None or not response_id:
            return self.forget(scope)
        items = [*body["input"], *answer]
        self._known[scope] = Snapshot(response_id, _shape(body), len(items), _digest(items))
        self._known.move_to_end(scope)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return None

    def taken(self, was_taken: bool) -> None:
        """Whether the service took a narrowed request."""
        self._refusals = 0 if was_taken else self._refusals + 1

    def forget(self, scope: Scope | None) -> None:
        if scope:
            self._known.pop(scope, None)


def scope_of(request: ProviderRequest) -> Scope | None:
    cache = request.frame.cache
    return (cache.agent_id, cache.prompt_cache_key, request.model) if cache else None


def _shape(body: Wire) -> str:
    """Everything but the conversation and the limit of the answer."""
    return _digest({key: value for key, value in body.items() if key not in ("input", "max_output_tokens")})


def _digest(value: Any) -> str:
    return hashlib.sha256(dumps(value).encode()).hexdigest()
