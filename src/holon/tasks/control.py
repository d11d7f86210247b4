"""The runner's ear: the connection that its order came by, and a socket in the command's folder for everyone later.

Whoever connects is told that the command started, and at its end how it ended; in between it may ask. Standard library
only.
"""

from __future__ import annotations

import os
import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from holon.tasks.folder import CONTROL
from holon.tasks.protocol import InputReply, Started, StopReply, decode, encode

#: A longer line is nonsense: its sender is dropped.
LINE_BYTES = 8 * 1_048_576
_BACKLOG = 64

Watch = Callable[[int, int, Callable[[int], None]], None]
Unwatch = Callable[[int], None]


class Requests(ABC):
    """What a connection may ask for."""

    @abstractmethod
    def send_input(self, text: str, end: bool) -> InputReply: ...

    @abstractmethod
    def stop(self, force: bool) -> StopReply: ...


class Control:
    def __init__(self, requests: Requests, watch: Watch, unwatch: Unwatch) -> None:
        self._requests, self._watch, self._unwatch = requests, watch, unwatch
        self._links: dict[int, tuple[socket.socket, bytearray]] = {}
        self._started: Started | None = None

    def add(self, link: socket.socket, heard: bytes = b"") -> None:
        link.setblocking(False)
        self._links[link.fileno()] = (link, bytearray(heard))
        self._watch(link.fileno(), select.POLLIN, self._hear)

    def listen(self) -> None:
        """In the current directory: a socket's address has at most 107 bytes, so it is made, and found, from inside."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(CONTROL)
        os.chmod(CONTROL, 0o600)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._watch(self._listener.fileno(), select.POLLIN, self._accept)

    def welcome(self, started: Started) -> None:
        self._started = started
        self.tell("started", started)

    def tell(self, kind: str, body: NamedTuple) -> None:
        line = encode(kind, body)
        for descriptor in list(self._links):
            self._send(descriptor, line)

    def answer(self) -> None:
        """What was asked before the loop began."""
        for descriptor in list(self._links):
            self._answer(descriptor)

    def drop(self, descriptor: int) -> None:
        self._unwatch(descriptor)
        self._links.pop(descriptor)[0].close()

    def _accept(self, _: int) -> None:
        with suppress(BlockingIOError, ConnectionError):
            link, _address = self._listener.accept()
            self.add(link)
            if self._started:
                self._send(link.fileno(), encode("started", self._started))

    def _hear(self, descriptor: int) -> None:
        link, heard = self._links[descriptor]
        try:
            chunk = link.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        heard += chunk
        self._answer(descriptor)
        if (not chunk or len(heard) > LINE_BYTES) and descriptor in self._links:
            self.drop(descriptor)

    def _answer(self, descriptor: int) -> None:
        heard = self._links[descriptor][1]
        *lines, rest = bytes(heard).split(b"\n")
        heard[:] = rest
        for line in lines:
            try:
                reply = self._do(*decode(line))
            except (ValueError, KeyError, TypeError):
                self.drop(descriptor)
                return
            self._send(descriptor, encode("reply", reply))

    def _do(self, kind: str, asked: dict[str, Any]) -> NamedTuple:
        match kind:
            case "input":
                return self._requests.send_input(str(asked["text"]), bool(asked["end"]))
            case "stop":
                return self._requests.stop(bool(asked["force"]))
            case _:
                raise ValueError(f"a runner does not know '{kind}'")

    def _send(self, descriptor: int, line: bytes) -> None:
        """Lines are short: who does not take one at once has stopped reading. Who hung up may have said something
        before, which is still to be read."""
        if descriptor not in self._links:
            return
        try:
            taken = self._links[descriptor][0].send(line)
        except BlockingIOError:
            taken = 0
        except OSError:
            return
        if taken < len(line):
            self.drop(descriptor)
