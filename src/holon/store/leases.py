"""Leases: one process owns a home at a time, and whoever lost it can no longer write.

A file lock keeps a second process off while the first lives, and vanishes with it however it dies. The number in the
database rises with every owner; each commit checks it (the fence), so that not even a process that believes itself the
owner can write after another took over.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from pathlib import Path
from typing import IO

from holon.core.errors import HomeBusy, HomeUnusable
from holon.store.homes import make_home
from holon.store.transaction import Tx

HOME = "home"
#: How long a lock is waited for whose owner is dead.
NEWBORN_S = 5.0


class HomeLock:
    """The file lock `run/holon.lock`. It holds the owner's process id, for the message that others get."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def acquire(self, purpose: str) -> None:
        """Takes the lock, or says who has it.

        A process that was killed while it started another one leaves the lock with the newborn until that one has
        begun its own program: an instant, which is waited for.
        """
        deadline = time.monotonic() + NEWBORN_S
        try:
            make_home(self.path.parent.parent)
            self.path.parent.mkdir(exist_ok=True)
            file = open(self.path, "a+", encoding="utf-8", errors="replace")  # noqa: SIM115 - held until release
        except OSError as error:
            raise HomeUnusable(
                f"{self.path} cannot be opened ({error.strerror})",
                hint="check the permissions of HOLON_HOME, or point HOLON_HOME at a folder that you may write",
            ) from error
        while not _locked(file):
            file.seek(0)
            owner = file.read().strip() or "another process"
            if _is_dead(owner) and time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            file.close()
            raise HomeBusy(
                f"{self.path.parent.parent} is in use by {owner}",
                hint="talk to it with 'holon prompt', end it with 'holon shutdown', or set another HOLON_HOME",
            )
        file.truncate(0)
        file.write(f"{purpose} (pid {os.getpid()})")
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_dead(owner: str) -> bool:
    """Whether the process that left these words is gone."""
    found = re.search(r"\(pid (\d+)\)", owner)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def holder(path: Path) -> str | None:
    """Who has the home whose lock this is, in the words that they left there; `None` if it is free."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "another process"
    except OSError:
        return None
    return None


def take(tx: Tx, name: str, owner: str) -> int:
    """Makes `owner` the holder and returns its fencing number, one above all earlier ones."""
    row = tx.one(
        "INSERT INTO leases (name, owner, fence, acquired_at) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, fence = leases.fence + 1,"
        " acquired_at = excluded.acquired_at RETURNING fence",
        name,
        owner,
        tx.now_ms,
    )
    assert row is not None
    return int(row[0])
