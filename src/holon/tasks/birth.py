"""Birth: how a runner starts its command.

The kernel's own way to start a program (`posix_spawn`) does not copy the runner first, which would take longer than
all the rest. What it cannot do (a working directory, control groups, limits) the runner does to itself: for a moment,
or for good where it can live with it.

Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import struct
import termios
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from holon.tasks.protocol import Order, Refused

#: The steps, as `Refused` names them.
FOLDER, TERMINAL, WORKDIR, LIMITS, GROUPS, EXEC = "folder", "terminal", "workdir", "limits", "groups", "exec"

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
            _limit(order.limits)
            step = GROUPS
            with _joined(order.groups):
                step = EXEC
                return os.posix_spawn(
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


def _limit(limits: Mapping[str, int]) -> None:
    """Before the birth and not after it: what the command starts at once is held to them, too."""
    for name, value in limits.items():
        which = getattr(resource, name)
        most = resource.getrlimit(which)[1]
        allowed = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(which, (allowed, allowed))


@contextmanager
def _joined(groups: Iterable[tuple[str, str]]) -> Iterator[None]:
    """In these groups for as long as it takes; the command stays. 0 is the writer itself: where a thread may join alone
    that spares the kernel a wait of some 10 ms."""
    left = []
    try:
        for enter, leave in groups:
            _write(enter, b"0")
            left.append(leave)
        yield
    finally:
        for leave in left:
            with suppress(OSError):  # it then shares the command's limits
                _write(leave, b"0")


def _write(file: str, text: bytes) -> None:
    door = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(door, text)
    finally:
        os.close(door)
