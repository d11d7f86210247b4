"""Birth: how a runner starts its command.

The kernel's own way to start a program (`posix_spawn`) does not copy the runner first, which would take longer than
all the rest. What it cannot do, set limits and a working directory, the runner does to itself for a moment.

Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from holon.tasks.protocol import Order, Refused

#: The steps, as `Refused` names them.
FOLDER, TERMINAL, WORKDIR, LIMITS, EXEC = "folder", "terminal", "workdir", "limits", "exec"

#: What a runner ignores, and a command does not.
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE)


class Streams(NamedTuple):
    """The pipes between runner and command, before there is a command. Ours and its ends of each."""

    stdin: tuple[int, int]
    stdout: tuple[int, int]
    stderr: tuple[int, int]

    @classmethod
    def open(cls) -> Streams:
        (to, typed), (out, said), (err, cried) = os.pipe(), os.pipe(), os.pipe()
        return cls((typed, to), (out, said), (err, cried))

    def close_theirs(self) -> None:
        """When the command has them: what nobody holds any more has ended."""
        for _, theirs in self:
            os.close(theirs)


def open_terminal(rows: int, columns: int) -> tuple[int, int]:
    """The runner's side of a new terminal, and the command's."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return ours, theirs


def bear(order: Order, streams: Streams, terminal: str | None) -> int | Refused:
    """The command's process, or why there is none. With a terminal it leads a session, otherwise a group."""
    step = WORKDIR
    try:
        with _at(order.cwd):
            step = LIMITS
            with _limited(order.limits):
                step = EXEC
                pid = os.posix_spawn(
                    order.argv[0],
                    order.argv,
                    order.env,
                    file_actions=_wiring(order, streams, terminal),
                    setsigmask=(),
                    setsigdef=_IGNORED,
                    **({"setsid": True} if terminal else {"setpgroup": 0}),
                )
    except OSError as error:
        return Refused(step, error.errno or 0, str(error))
    except ValueError as error:
        return Refused(step, 0, str(error))
    for name, value in order.limits.items():  # for good: it cannot raise them again
        with suppress(ProcessLookupError):
            which = getattr(resource, name)
            resource.prlimit(pid, which, (_allowed(which, value),) * 2)
    return pid


def _wiring(
    order: Order, streams: Streams, terminal: str | None
) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
    if terminal:  # the first one that the leader of a session opens becomes the one that controls it
        return [
            (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
    stdin = (os.POSIX_SPAWN_DUP2, streams.stdin[1], 0)
    return [
        stdin if order.accepts_input else (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, streams.stdout[1], 1),
        (os.POSIX_SPAWN_DUP2, streams.stderr[1], 2),
    ]


@contextmanager
def _at(place: str) -> Iterator[None]:
    home = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(place)
        yield
    finally:
        os.fchdir(home)
        os.close(home)


@contextmanager
def _limited(limits: dict[str, int]) -> Iterator[None]:
    """Only the soft limits, which can be taken back; and not the number of processes, which would stop the birth."""
    before = {}
    try:
        for name in limits.keys() - {"RLIMIT_NPROC"}:
            which = getattr(resource, name)
            before[which] = resource.getrlimit(which)
            resource.setrlimit(which, (_allowed(which, limits[name]), before[which][1]))
        yield
    finally:
        for which, pair in before.items():
            resource.setrlimit(which, pair)


def _allowed(which: int, value: int) -> int:
    most = resource.getrlimit(which)[1]
    return value if most == resource.RLIM_INFINITY else min(value, most)
