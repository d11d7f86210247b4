"""Serving: one app behind two doors, the local socket and TCP, from readiness to a graceful end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import uvicorn

import holon
from holon.core.codec import InvalidJson, Record, dumps, loads
from holon.core.errors import HolonError
from holon.runtime.host import Host
from holon.runtime.settings import Settings
from holon.server import auth, listeners
from holon.server.app import create_app
from holon.server.connections import BACKLOG, Bounds, Crowd, protocol

log = logging.getLogger("holon.server")

#: How long requests that are under way may take once the end has been asked for.
DRAIN_SECONDS = 5


class Announcement(Record, frozen=True, kw_only=True):
    """Where a running server is found: `run/daemon.json` in its home, for as long as it serves."""

    pid: int
    http_addr: str
    socket_path: str
    started_at: datetime
    version: str


async def serve(
    host: Host, *, on_ready: Callable[[Announcement], None] | None = None, bounds: Bounds | None = None
) -> None:
    """Serves until somebody asks for the end: by signal, by the shutdown route, or through the host."""
    settings = host.settings
    auth.check_settings(settings)
    bounds = bounds or Bounds()
    local, tcp = _listen(settings)
    door = listeners.identity(settings.socket_path)
    try:
        host.http_addr = listeners.address_of(tcp)
        app = create_app(host)
        servers = [
            _server(auth.Door(app, auth.Way.LOCAL_SOCKET, settings), local, bounds, Crowd(None)),
            _server(auth.Door(app, auth.Way.TCP, settings), tcp, bounds, Crowd(bounds.most())),
        ]
        running = [asyncio.create_task(server.serve(sockets=[server.listener])) for server in servers]
        with _signals(host, servers):
            try:
                await _all_started(servers, running)
                with _announced(host) as announcement:
                    if on_ready is not None:
                        on_ready(announcement)
                    await _until_end(host, running)
            finally:
                for server in servers:
                    server.stop()
                await asyncio.gather(*running)
    finally:
        local.close()
        tcp.close()
        listeners.remove(settings.socket_path, door)


def read_announcement(home: Path) -> Announcement | None:
    """What the last server of this home announced and did not take back. Its process may be dead."""
    try:
        return loads(_announcement_path(home).read_bytes(), Announcement)
    except (OSError, InvalidJson):
        return None


class _Server(uvicorn.Server):
    """Ends when it is told to, instead of looking ten times a second; signals are the business of `serve`."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self.listener = listener
        self.listens = asyncio.Event()
        self._end = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._end.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.listens.set()
        while not self._end.is_set():
            await self.on_tick(0)  # the Date header
            with suppress(TimeoutError):
                async with asyncio.timeout(1):  # not `wait_for`, which on 3.11 may swallow a cancellation
                    await self._end.wait()


def _server(app: auth.Door, listener: socket.socket, bounds: Bounds, crowd: Crowd) -> _Server:
    config = uvicorn.Config(
        app,
        http=protocol(bounds, crowd),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return _Server(config, listener)


def _listen(settings: Settings) -> tuple[socket.socket, socket.socket]:
    tcp = listeners.tcp_socket(settings.http_host, settings.http_port)
    try:
        return listeners.local_socket(settings.socket_path), tcp
    except BaseException:
        tcp.close()
        raise


async def _all_started(servers: list[_Server], running: list[asyncio.Task[None]]) -> None:
    for server, task in zip(servers, running, strict=True):
        listens: asyncio.Task[Any] = asyncio.create_task(server.listens.wait())
        await asyncio.wait([listens, task], return_when=asyncio.FIRST_COMPLETED)
        if not listens.done():
            listens.cancel()
            task.result()  # raises what ended it


async def _until_end(host: Host, running: list[asyncio.Task[None]]) -> None:
    asked: asyncio.Task[Any] = asyncio.create_task(host.shutdown_requested.wait())
    try:
        await asyncio.wait([asked, *running], return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()


@contextmanager
def _signals(host: Host, servers: list[_Server]) -> Iterator[None]:
    """The first signal asks for a graceful end, the second for an immediate one."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread only
        return
    loop, asking = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def on_signal(number: signal.Signals) -> None:
        if asking:
            for server in servers:
                server.force_exit = True
        asking.add(loop.create_task(_ask_for_end(host, f"signal_{number.name.lower()}")))

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _ask_for_end(host: Host, surface: str) -> None:
    try:
        await host.request_shutdown(surface)
    except HolonError as error:  # a disk that takes no audit line must not keep the process alive
        log.warning("the end could not be put on record: %s", error)
        host.shutdown_requested.set()


@contextmanager
def _announced(host: Host) -> Iterator[Announcement]:
    announcement = Announcement(
        pid=os.getpid(),
        http_addr=host.http_addr,
        socket_path=str(host.settings.socket_path),
        started_at=host.started_at,
        version=holon.__version__,
    )
    path = _announcement_path(host.settings.home)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".json.new")
    beside.write_text(dumps(announcement))
    beside.chmod(0o600)
    os.replace(beside, path)
    try:
        yield announcement
    finally:
        # A successor that took the home over has written its own.
        if read_announcement(host.settings.home) == announcement:
            path.unlink(missing_ok=True)


def _announcement_path(home: Path) -> Path:
    return home / "run" / "daemon.json"
