"""The machine's processes: who belongs to a command, and how to end them all.

A runner leads a session, to which its command belongs; a command with a terminal leads one of its own. The runner is a
subreaper: whatever the command starts, and whatever that starts, stays below the runner however often it forks, so that
nothing hides from a stop. Where the machine has no such thing (it is not Linux) the process group has to do.

Standard library only: daemon and runner both use it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from holon.tasks.protocol import Started

_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
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


def left_of(started: Started) -> list[Process]:
    """The sessions of a command whose runner is gone, as far as their numbers still mean the same processes."""
    if started.boot_id != boot_id():
        return []
    leaders = {started.runner_pid: started.runner_started_at}
    if started.tty and started.pid:
        leaders[started.pid] = started.pid_started_at
    ours = {pid for pid, began in leaders.items() if started_at(pid) in (0, began)}
    return [process for process in listing() if process.session in ours and process.pid != started.runner_pid]


def lives(started: Started) -> bool:
    """Whether the runner is still the process that it was. Where the machine does not say: no."""
    began = started.runner_started_at
    return bool(began) and started.boot_id == boot_id() and started_at(started.runner_pid) == began


def send(processes: list[Process], number: signal.Signals) -> None:
    for process in processes:
        _send_one(process.pid, number)


def send_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_lost_sessions(started: Started, patience_s: float) -> int:
    """Kills what is left of a command without a runner; how many processes that were."""
    return _end(lambda: left_of(started), patience_s)


def end_sessions(leaders: set[int], patience_s: float) -> int:
    """The same for who has just seen the runner die, so that its numbers cannot mean anybody else."""
    return _end(lambda: [process for process in listing() if process.session in leaders], patience_s)


def ask_runner(started: Started) -> None:
    """To end its command and then itself, as a machine does that shuts down: for who cannot reach it otherwise."""
    if lives(started):
        _send_one(started.runner_pid, signal.SIGTERM)


def end_runner(started: Started, patience_s: float) -> int:
    """Kills a runner and everything below it, the runner last: it holds them together. How many that were."""
    ended = _end(lambda: descendants(started.runner_pid) if lives(started) else [], patience_s)
    if lives(started):
        _send_one(started.runner_pid, signal.SIGKILL)
    return ended


def _end(find: Callable[[], list[Process]], patience_s: float) -> int:
    ended: set[int] = set()
    deadline = time.monotonic() + patience_s
    while (left := find()) and time.monotonic() < deadline:
        ended |= {process.pid for process in left}
        send(left, signal.SIGKILL)
        time.sleep(0.005)
    return len(ended)


def _send_one(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


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
