"""Connections: an official SDK's client for one provider, made on first use, and attempts over it.

The SDKs take a second to import and read certificates when a client is made; both happen in a thread, so that other
agents go on meanwhile. What goes wrong during an attempt leaves it as a `ProviderFailure`, without the key.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from holon.core.usage import TokenUsage
from holon.providers.catalog import ProviderEntry
from holon.providers.evidence import Stage, failure_from

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


class _Client(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Client)
T = TypeVar("T")

#: Sent by SDKs that insist on a key to services that want none.
NO_KEY = "none"


@dataclass(slots=True)
class Attempt:
    """How far one attempt has come; the transport moves it on."""

    stage: Stage = Stage.REQUEST
    #: What the service has told of its usage, should the attempt fail.
    usage: TokenUsage | None = None


class Connection(Generic[C]):
    def __init__(self, entry: ProviderEntry, path: str, make: Callable[[ProviderEntry], C]) -> None:
        self._entry, self._make = entry, make
        self._url = entry.base_url.rstrip("/") + path
        self._client: C | None = None
        self._making = asyncio.Lock()

    async def client(self) -> C:
        if self._client is None:
            async with self._making:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._make, self._entry)
        return self._client

    async def attempt(self, exchange: Callable[[C, Attempt], Awaitable[T]]) -> T:
        """One exchange with the service; whatever it raises, as the failure of an attempt."""
        attempt = Attempt()
        try:
            return await exchange(await self.client(), attempt)
        except Exception as error:
            failure = failure_from(
                error,
                stage=attempt.stage,
                usage=attempt.usage,
                url=self._url,
                secrets=self._entry.secrets,
                now_ms=time.time_ns() // 1_000_000,
            )
        raise failure  # outside the handler: the SDK's exception, which may quote the request, stays behind

    def timeout(self, *, streaming: bool) -> httpx2.Timeout:
        import httpx2

        options = self._entry.options
        read_ms = options.stream_idle_timeout_ms if streaming else options.read_timeout_ms
        return httpx2.Timeout(read_ms / 1000, connect=options.connect_timeout_ms / 1000)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def anthropic_client(entry: ProviderEntry) -> AsyncAnthropic:
    import anthropic

    return anthropic.AsyncAnthropic(
        api_key=_key(entry),
        base_url=entry.base_url,
        max_retries=0,
        default_headers=_headers(entry, anthropic.Omit(), "ANTHROPIC_CUSTOM_HEADERS"),
    )


def openai_client(entry: ProviderEntry) -> AsyncOpenAI:
    import openai

    return openai.AsyncOpenAI(
        api_key=_key(entry),
        base_url=entry.base_url,
        max_retries=0,
        default_headers=_headers(
            entry, openai.Omit(), "OPENAI_CUSTOM_HEADERS", "OpenAI-Organization", "OpenAI-Project"
        ),
    )


def as_it_stands(body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Arguments with which OpenAI's SDK sends a body as it is.

    Given by name, each field would be walked through with its types first: 0.8 s for a conversation of 300 rounds, on
    the event loop.
    """
    whole = {**body, **extra}
    return {"extra_body": whole, **({"stream": True} if whole.get("stream") else {})}


def _key(entry: ProviderEntry) -> str:
    return entry.key.reveal() if entry.key else NO_KEY


def _headers(entry: ProviderEntry, omit: Any, ambient: str, *more: str) -> Any:
    """The entry's headers. An SDK adds its own variables' to every client: they are for its maker's service only."""
    names = [line.partition(":")[0].strip() for line in os.environ.get(ambient, "").split("\n") if ":" in line]
    foreign = {} if entry.native else dict.fromkeys((*more, *names), omit)
    bearer = {name: f"Bearer {_key(entry)}" for name in foreign if name.lower() == "authorization"}
    secret = {name: value.reveal() for name, value in entry.secret_headers.items()}
    return {**foreign, **bearer, **entry.options.headers, **secret}
