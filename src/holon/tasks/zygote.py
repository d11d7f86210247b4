"""The zygote: forks runners for one daemon, so that no command pays for the start of an interpreter, and watches them.

It keeps spare runners that wait on the daemon's channel. An order is one byte with a socket attached: one spare takes
it, says so, and reads the order from that socket; the zygote forks the next spare. When the daemon ends, so do the
spares. The runners that have an order do not, and the zygote stays until the last of them is gone: where one is killed,
the zygote ends what it owned.

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

SPARES = 2
#: How long it lets a command begin before it replaces the spare that took it, if there is another one.
REST_S = 0.02
#: Before it forks again, if it cannot, or if a spare died unused.
PAUSE_S = 0.1
#: A runner's process and its command's.
_TAKEN = struct.Struct("II")
#: How long it tries to end what a killed runner left.
ENDING_S = 1.0


def main() -> None:
    """The daemon's channel is standard input; the argument is a folder for spares, on the disk of the commands'."""
    restore_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    processes.set_name("holon-zygote")
    processes.boot_id()
    gc.freeze()  # collected pages would be written to, and so copied, in every runner
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Zygote(channel, Path(sys.argv[-1])).run()


class Zygote:
    def __init__(self, channel: socket.socket, folder: Path) -> None:
        self._channel, self._folder = channel, folder
        self._spares: set[int] = set()
        self._runners: dict[int, int] = {}  # with an order -> their command's process
        self._orphaned = False  # there is no daemon any more
        self._taken, self._take = os.pipe()
        self._heard, told = os.pipe()
        for descriptor in (self._heard, told, self._taken):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._channel, 0)  # spares read it; the zygote only hears when it is closed
        poll.register(self._taken, select.POLLIN)
        poll.register(self._heard, select.POLLIN)
        while not self._orphaned or self._spares or self._runners:
            if not self._spares:
                self._fill()
            # With one spare left there is time: the command that was just started needs the processor more.
            waits = not self._orphaned and len(self._spares) < SPARES
            ready = {descriptor for descriptor, _ in poll.poll(REST_S * 1000 if waits else None)}
            if not ready:
                self._fill()
            if not self._orphaned and self._channel.fileno() in ready:
                self._orphaned = True
                poll.unregister(self._channel)
            self._note_taken()
            if self._heard in ready:
                self._reap()

    def _fill(self) -> None:
        while not self._orphaned and len(self._spares) < SPARES:
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

    def _note_taken(self) -> None:
        with suppress(BlockingIOError):
            while taken := os.read(self._taken, _TAKEN.size):
                runner, command = _TAKEN.unpack(taken)
                self._spares.discard(runner)
                self._runners[runner] = command

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._heard, 512)
        with suppress(ChildProcessError):
            # As long as it is not reaped, its number is its own.
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._note_taken()  # it may have been taken and ended since
                pid, command = ended.si_pid, self._runners.pop(ended.si_pid, 0)
                if ended.si_code != os.CLD_EXITED:
                    processes.end_sessions({pid, command} - {0}, ENDING_S)
                os.waitpid(pid, 0)
                if pid in self._spares and not self._orphaned:
                    time.sleep(PAUSE_S)
                self._spares.discard(pid)


def wait_and_run(channel: socket.socket, take: int, spares: Path) -> None:
    """The life of a runner."""
    os.setsid()
    processes.set_name("holon-runner")
    processes.adopt_orphans()
    nest = Nest(spares / str(os.getpid()))
    runner = Runner(nest)
    runner.rehearse()
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not descriptors:  # the daemon is gone
        nest.remove()
        return
    link = socket.socket(fileno=descriptors[0])
    link.set_inheritable(False)  # `recv_fds` does not, and the command would have it
    channel.close()
    order, rest = _read_line(link)
    if not order:
        nest.remove()
        return
    runner.run(order, link, rest, begun=lambda pid: _tell(take, pid))


def _tell(take: int, command: int) -> None:
    with suppress(OSError):  # the zygote may be gone: the command does not need it
        os.write(take, _TAKEN.pack(os.getpid(), command))
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


def restore_signals() -> None:
    """Every signal does what it does in a fresh process, whatever the daemon was started with."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
