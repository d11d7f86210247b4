"""The stem: a process that waits for an order and then becomes the command.

It is forked before there is an order, so that starting a command costs no more than its exec. Until then it is bound
to its runner: where the runner dies, the kernel ends the stem, and later the command that it became.

Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import termios
from typing import NamedTuple

from holon.tasks import processes
from holon.tasks.protocol import SAMPLE, Order, Refused, decode, encode

#: The steps of becoming a command, as `Refused` names them.
FOLDER, TERMINAL, WORKDIR, LIMITS, EXEC = "folder", "terminal", "workdir", "limits", "exec"


class Stem(NamedTuple):
    """The runner's side of it."""

    pid: int
    started_at: int
    #: Its ends of the command's three streams.
    stdin: int
    stdout: int
    stderr: int
    go: int
    fate: int

    def prepare(self, order: bytes) -> None:
        """Lets it read the order, as the line came, while the runner does its own part."""
        data = memoryview(order)
        while data:
            data = data[os.write(self.go, data) :]

    def become(self, terminal: str) -> None:
        """Lets it become the command."""
        os.write(self.go, terminal.encode() + b"\n")
        os.close(self.go)

    def refusal(self) -> Refused | None:
        """Waits until it has, or could not."""
        line = os.read(self.fate, 65_536)  # ends with the exec, which closes the other side
        os.close(self.fate)
        return Refused(**decode(line)[1]) if line else None


def plant() -> Stem:
    """Forks a stem. The caller is single-threaded and will read the streams."""
    stdin, stdout, stderr, go, fate = os.pipe(), os.pipe(), os.pipe(), os.pipe(), os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            processes.die_with(parent)
            os.setsid()
            for number in (stdin[1], stdout[0], stderr[0], go[1], fate[0]):
                os.close(number)
            _grow(stdin[0], stdout[1], stderr[1], go[0], fate[1])
        finally:
            os._exit(127)
    for number in (stdin[0], stdout[1], stderr[1], go[0], fate[1]):
        os.close(number)
    return Stem(pid, processes.started_at(pid), stdin[1], stdout[0], stderr[0], go[1], fate[0])


def restore_signals() -> None:
    """Every signal does what it does in a fresh process."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _grow(stdin: int, stdout: int, stderr: int, go: int, fate: int) -> None:
    restore_signals()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    Order(**decode(encode("order", SAMPLE))[1])  # a rehearsal, see `Runner.rehearse`
    with open(go, "rb") as file:
        if not (line := file.readline()):
            return  # the runner has no use for it
        order = Order(**decode(line)[1])
        if not (terminal := file.readline()):
            return
    step = WORKDIR
    try:
        os.chdir(order.cwd)
        step = TERMINAL
        if order.tty:
            _take_terminal(terminal.decode().strip())
        elif order.accepts_input:
            os.dup2(stdin, 0)
        step = LIMITS
        for name, value in order.limits.items():
            _limit(getattr(resource, name), value)
        step = EXEC
        os.execve(order.argv[0], order.argv, order.env)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        os.write(fate, encode("refused", Refused(step, number, str(error))))


def _take_terminal(name: str) -> None:
    line = os.open(name, os.O_RDWR)
    fcntl.ioctl(line, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(line, number)


def _limit(which: int, value: int) -> None:
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(which, (value, value))
