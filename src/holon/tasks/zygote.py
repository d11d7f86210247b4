"""The zygote: forks runners for one daemon, so that no command pays for the start of an interpreter.

It keeps spare runners that wait on the daemon's channel. An order is one byte with a socket attached: one spare takes
it, says so, and reads the order from that socket; the zygote forks the next spare. It ends when the daemon does. The
runners that have an order do not.

Standard library only. Started without site packages, with an empty environment.
"""

from __future__ import annotations

import array  # noqa: F401 - `recv_fds` imports it when it is called: once here, not once in each runner
import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

from holon.tasks import processes
from holon.tasks.folder import Nest
from holon.tasks.runner import Runner
from holon.tasks.stem import plant, restore_signals

SPARES = 2
#: How long it lets a command begin before it replaces the spare that took it, if there is another one.
REST_S = 0.02
#: Before it forks again, if it cannot, or if a spare died unused.
PAUSE_S = 0.1
_PID = struct.Struct("I")


def main() -> None:
    """The daemon's channel is standard input; the argument is a folder for spares, on the disk of the commands'."""
    restore_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    processes.set_name("holon-zygote")
    processes.boot_id()
    gc.freeze()  # collected pages would be written to, and so copied, in every runner
    Zygote(socket.socket(fileno=0), Path(sys.argv[-1])).run()


class Zygote:
    def __init__(self, channel: socket.socket, folder: Path) -> None:
        self._channel, self._folder = channel, folder
        self._spares: set[int] = set()
        self._taken, self._take = os.pipe()
        self._heard, told = os.pipe()
        for descriptor in (self._heard, told):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._channel, 0)  # spares read it; the zygote only hears when it is closed
        poll.register(self._taken, select.POLLIN)
        poll.register(self._heard, select.POLLIN)
        while True:
            if not self._spares:
                self._fill()
            # With one spare left there is time: the command that was just started needs the processor more.
            ready = {descriptor for descriptor, _ in poll.poll(REST_S * 1000 if len(self._spares) < SPARES else None)}
            if not ready:
                self._fill()
            if self._channel.fileno() in ready:
                return
            if self._taken in ready:
                (pid,) = _PID.unpack(os.read(self._taken, _PID.size))
                self._spares.discard(pid)
            if self._heard in ready:
                self._reap()

    def _fill(self) -> None:
        while len(self._spares) < SPARES:
            try:
                pid = os.fork()
            except OSError:
                time.sleep(PAUSE_S)
                continue
            if pid == 0:
                try:
                    wait_and_run(self._channel, self._take, self._folder)
                except BaseException:
                    sys.excepthook(*sys.exc_info())  # to the zygote's log
                finally:
                    os._exit(0)
            self._spares.add(pid)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._heard, 512)
        with suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if pid in self._spares:
                    self._spares.discard(pid)
                    time.sleep(PAUSE_S)


def wait_and_run(channel: socket.socket, take: int, spares: Path) -> None:
    """The life of a runner."""
    os.setsid()
    processes.set_name("holon-runner")
    processes.adopt_orphans()
    stem = plant()  # before there is a nest: it must not share the lock
    nest = Nest(spares / str(os.getpid()))
    runner = Runner(nest, stem)
    runner.rehearse()
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    if not descriptors:  # the daemon is gone
        nest.remove()
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    link = socket.socket(fileno=descriptors[0])
    order, rest = _read_line(link)
    if not order:
        nest.remove()
        return
    runner.run(order, link, rest, begun=lambda: _tell(take))


def _tell(take: int) -> None:
    os.write(take, _PID.pack(os.getpid()))
    os.close(take)


def _read_line(link: socket.socket) -> tuple[bytes, bytes]:
    """The first line, and what came with it; nothing if there is no whole line."""
    heard = bytearray()
    while chunk := link.recv(1_048_576):
        heard += chunk
        if b"\n" in chunk:
            line, _, rest = bytes(heard).partition(b"\n")
            return line + b"\n", rest
    return b"", b""
