"""A real server for tests: a host and its listeners in a thread of their own, clients on the socket and over TCP."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvloop

from holon.core.clock import Clock
from holon.providers.selection import Providers
from holon.runtime.host import Host
from holon.runtime.settings import Settings, load_settings
from holon.server.connections import Bounds
from holon.server.serving import Announcement, serve

T = TypeVar("T")

TOKEN = "test-token-that-nobody-else-has"
DEADLINE_S = 10.0

#: A model that answers at once, and one whose answers to "slow …" never come.
SCRIPTS = {"patient": "rules:\n  - when: {pattern: '^slow'}\n    rounds: [{text: at last, delay_ms: 600000}]\n"}


class Running:
    """A server that runs, and the three ways to talk to it."""

    def __init__(self, host: Host, announcement: Announcement, loop: asyncio.AbstractEventLoop) -> None:
        self.host, self.announcement, self._loop = host, announcement, loop
        self.url = f"http://{announcement.http_addr}"
        self.socket_path = announcement.socket_path
        self.local = self.local_client()
        self.tcp = httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=DEADLINE_S)
        self.stranger = httpx.Client(base_url=self.url, timeout=DEADLINE_S)

    @property
    def settings(self) -> Settings:
        return self.host.settings

    def local_client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=self.socket_path)
        return httpx.Client(transport=transport, base_url="http://holon", timeout=DEADLINE_S)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs something on the server's own loop, beside its requests."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def prompt(self, text: str, agent_id: str = "main") -> str:
        answer = self.local.post(f"/control/agents/{agent_id}/prompt", json={"text": text})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["message_id"])

    def settled(self, message_id: str, agent_id: str = "main") -> dict[str, Any]:
        """The message's status, once its queue entry has a final one."""

        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.local.get(f"/control/agents/{agent_id}/messages/{message_id}").json()
            return found if found["queue"]["status"] not in ("queued", "dequeued") else None

        return until(look)

    def status_of(self, agent_id: str = "main") -> str:
        return str(self.local.get(f"/agents/{agent_id}/status").json()["agent"].get("status", "booting"))

    def until_status(self, wanted: str, agent_id: str = "main") -> None:
        until(lambda: self.status_of(agent_id) == wanted)

    def events(self, agent_id: str = "main", **query: Any) -> list[dict[str, Any]]:
        page = self.local.get(f"/agents/{agent_id}/events", params={"limit": 512, **query})
        assert page.status_code == 200, page.text
        return list(page.json()["events"])

    def newest_seq(self, agent_id: str = "main") -> int:
        return int(self.local.get(f"/agents/{agent_id}/status").json()["newest_event_seq"])

    def close_clients(self) -> None:
        for client in (self.local, self.tcp, self.stranger):
            client.close()


def until(look: Callable[[], T | None], deadline_s: float = DEADLINE_S) -> T:
    """Asks again and again until the answer is neither false nor nothing."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {deadline_s:.0f} s")


@contextmanager
def short_home() -> Iterator[Path]:
    """A home with a short path: the name of a local socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="holon-") as folder:
        yield Path(folder)


@contextmanager
def running(
    home: Path, *, clock: Clock | None = None, bounds: Bounds | None = None, **overrides: Any
) -> Iterator[Running]:
    """Serves the home until the block ends, then ends gracefully."""
    given = {"http_port": 0, "control_token": TOKEN, "model_default": "scripted/patient", **overrides}
    settings = load_settings(home, {}, **given)
    ready: list[Running] = []
    failed: list[BaseException] = []
    done = threading.Event()

    async def main() -> None:
        providers = Providers.builtin(home=home, scripts=SCRIPTS)
        loop = asyncio.get_running_loop()
        async with await Host.open(settings, purpose="test", clock=clock, providers=providers) as host:
            await serve(host, on_ready=lambda said: ready.append(Running(host, said, loop)), bounds=bounds)

    def in_thread() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=in_thread, daemon=True)
    thread.start()
    try:
        until(lambda: ready or done.is_set())
        if failed:
            raise failed[0]
        yield ready[0]
    finally:
        if ready:
            ready[0].close_clients()
            if not done.is_set():
                ready[0]._loop.call_soon_threadsafe(ready[0].host.shutdown_requested.set)
        thread.join(DEADLINE_S)
    assert not thread.is_alive(), "the server did not end"
    if failed:
        raise failed[0]
