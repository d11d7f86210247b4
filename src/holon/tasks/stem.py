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
from holon.tasks.protocol import Order, Refused, decode, encode

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

    def become(self, order: bytes, terminal: str | None) -> Refused | None:
        """Lets it become the command. `order` is the line as it came."""
        os.set_blocking(self.go, True)
        with open(self.go, "wb", closefd=True) as go:
            go.write((terminal or "").encode() + b"\n" + order)
        with open(self.fate, "rb", closefd=True) as fate:
            line = fate.read()  # ends with the exec, which closes the other side
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
    with open(go, "rb") as file:
        terminal, _, line = file.read().partition(b"\n")
    if not line:
        return  # the runner has no use for it
    order = Order(**decode(line)[1])
    step = WORKDIR
    try:
        os.chdir(order.cwd)
        step = TERMINAL
        _connect(order, terminal.decode(), stdin, stdout, stderr)
        step = LIMITS
        for name, value in order.limits.items():
            _limit(getattr(resource, name), value)
        step = EXEC
        os.execve(order.argv[0], order.argv, order.env)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        os.write(fate, encode("refused", Refused(step, number, str(error))))


def _connect(order: Order, terminal: str, stdin: int, stdout: int, stderr: int) -> None:
    if terminal:
        line = os.open(terminal, os.O_RDWR)
        fcntl.ioctl(line, termios.TIOCSCTTY, 0)
        stdin = stdout = stderr = line
    elif not order.accepts_input:
        stdin = os.open(os.devnull, os.O_RDONLY)
    for number, end in enumerate((stdin, stdout, stderr)):
        os.dup2(end, number)


def _limit(which: int, value: int) -> None:
    _, most = resource.getrlimit(which)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(which, (value, value))
