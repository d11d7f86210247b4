"""Where a command is that this process did not start, or lost sight of: with its runner, ended, or lost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holon.core.clock import SystemClock
from holon.core.values import Value
from holon.tasks import folder as folders
from holon.tasks import processes
from holon.tasks.failures import CommandUnreachable, FolderTaken
from holon.tasks.links import Link, connect
from holon.tasks.protocol import CommandStatus, Outcome, Refused, Started

#: Until a runner that hung up is really gone.
LETTING_GO_S = 1.0
#: Until what it left is.
ENDING_S = 5.0


class Ended(Value, frozen=True):
    """A command that ended while nobody watched."""

    folder: Path
    status: CommandStatus


class Lost(Value, frozen=True):
    """A command that has no runner and no status. `end_lost` ends what may be left of it."""

    folder: Path
    #: None: it was never started, and never will be.
    started: Started | None


async def find(folder: Path, patience_s: float, known: Started | None) -> tuple[Started, Link] | Ended | Lost:
    """Where a command is. Raises `CommandUnreachable` if a runner lives there and does not say a word for so long."""
    deadline = time.monotonic() + patience_s
    while (left := deadline - time.monotonic()) > 0:
        if status := folders.status_of(folder):
            return Ended(folder, status)
        if link := await connect(folder, left):
            try:
                first = await first_word(link, left)
            except asyncio.CancelledError:
                link.close()
                raise
            if isinstance(first, Started):
                return first, link
            link.close()
        elif known is not None and not folders.is_taken(folder):
            return Lost(folder, known)  # its folder was removed: nobody can reach it any more
        elif folders.give_up(folder):
            status = folders.status_of(folder)  # it may just have ended
            return Ended(folder, status) if status else Lost(folder, folders.started_of(folder) or known)
        await asyncio.sleep(0.01)  # it has a runner that is about to listen, or about to end
    raise unreachable(folder)


async def first_word(link: Link, patience_s: float) -> Started | Refused | None:
    await asyncio.wait([link.first], timeout=patience_s)
    return link.first.result() if link.first.done() else None


def unreachable(folder: Path) -> CommandUnreachable:
    return CommandUnreachable(
        f"the runner of '{folder}' lives, but does not answer",
        hint="it is tried again by itself; see whether the disk is full or the process suspended, or stop it by force",
    )


def end_lost(folder: Path, known: Started | None = None) -> CommandStatus:
    """Ends what is left of a command without a runner, and writes down that it is lost. If it has a status, that
    stands. `known` is who it was: where its folder is gone, its runner may live, and ends with it."""
    if status := folders.status_of(folder):
        return status
    removed = known is not None and not folders.is_taken(folder)
    if not removed and not _give_up(folder):
        raise FolderTaken(f"the command in '{folder}' has a runner", hint="attach to it")
    started = folders.started_of(folder) or known
    left = _end_all(started) if started else 0
    status = folders.status_of(folder) or CommandStatus(
        outcome=Outcome.LOST if started else Outcome.NOT_STARTED,
        started_at_ms=started.started_at_ms if started else None,
        ended_at_ms=SystemClock().now_ms(),
        leftovers=left,
        detail=_how_lost(removed=removed, started=started is not None),
    )
    if folder.is_dir() and not removed:
        folders.write_status(folder, status)
    return status


def _how_lost(*, removed: bool, started: bool) -> str:
    if removed:
        return "its folder was removed while nobody watched: how it ended is not known, and what still ran was ended"
    return "its runner is gone and left no status" if started else "no runner took it"


def _end_all(started: Started) -> int:
    """A runner that lives is asked first: it gives its command the time to end well."""
    processes.ask_runner(started)
    deadline = time.monotonic() + ENDING_S
    while (lives := processes.lives(started)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = processes.end_runner(started, ENDING_S) if lives else 0
    return left + processes.end_lost_sessions(started, ENDING_S)


def _give_up(folder: Path) -> bool:
    """A process that was killed lets go of one thing after the other."""
    deadline = time.monotonic() + LETTING_GO_S
    while not (given_up := folders.give_up(folder)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return given_up
