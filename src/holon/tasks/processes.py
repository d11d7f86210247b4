"""The machine's processes: who belongs to a command, and how to end them all.

A command leads a session of its own. Its runner is a subreaper: whatever the command starts, and whatever that starts,
stays below the runner however often it forks, so that nothing hides from a stop. Where the machine has no such thing
(it is not Linux) the process group has to do.

Standard library only: daemon and runner both use it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from holon.tasks.protocol import Started

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None) if _LINUX else None


class Process(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    started_at: int


def adopt_orphans() -> None:
    """Descendants of this process that lose their parent become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent_pid: int) -> None:
    """Ends this process, when its parent does, without a word."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def set_name(name: str) -> None:
    """As `ps` and `top` show it; at most 15 characters."""
    if _libc is not None:
        _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


@cache
def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def started_at(pid: int) -> int:
    """When a process began, in ticks since boot: with its number it says who it is. 0: there is none."""
    found = _read(pid)
    return found.started_at if found else 0


def listing() -> list[Process]:
    """Every process that is not yet dead."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [found for name in names if name.isdigit() and (found := _read(int(name)))]


def descendants(pid: int) -> list[Process]:
    below, found = {pid}, []
    rest = sorted(listing(), key=lambda process: process.started_at)
    while more := [process for process in rest if process.parent in below and process.pid not in below]:
        below |= {process.pid for process in more}
        found += more
    return found


def still_ours(started: Started) -> list[Process]:
    """The session of a command whose runner is gone; empty if its numbers mean other processes by now."""
    if started.boot_id != boot_id():
        return []
    leader = started_at(started.pid)
    if leader and leader != started.pid_started_at:
        return []
    return [process for process in listing() if process.session == started.pid]


def send(processes: list[Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def send_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_session(started: Started, patience_s: float = 5.0) -> int:
    """Kills what is left of a command without a runner; how many processes that were."""
    ended: set[int] = set()
    deadline = time.monotonic() + patience_s
    while (left := still_ours(started)) and time.monotonic() < deadline:
        ended |= {process.pid for process in left}
        send(left, signal.SIGKILL)
        time.sleep(0.005)
    return len(ended)


def _prctl(option: int, value: int) -> None:
    if _libc is not None:
        _libc.prctl(option, value, 0, 0, 0)


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # a process's name may hold anything, also spaces and brackets
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))
