"""A command's folder: what it is called, who may begin in it, and the two small files that say how far it came.

    started.json  which process it is. Whoever makes this name first owns the folder, and nobody can afterwards; its
                  runner keeps it locked for as long as it lives
    control       the runner's socket, once the command has run for a moment
    status.json   how it ended
    output.log    what it wrote, both streams as they came (or the terminal's transcript)
    stdout.log    the streams apart, once stderr was used: until then output.log is stdout
    stderr.log
    *.tail        the newest output of a long stream while it runs; at the end it is joined to its file

Standard library only: daemon and runner both use it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from holon.tasks.protocol import CommandStatus, Started, read_started, read_status

CONTROL, STARTED, STATUS = "control", "started.json", "status.json"
OUTPUT, STDOUT, STDERR, TAIL = "output.log", "stdout.log", "stderr.log", ".tail"


def make_folder(folder: Path) -> None:
    """For this user alone: output may hold secrets."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def status_of(folder: Path) -> CommandStatus | None:
    plain = _read(folder / STATUS)
    try:
        return read_status(plain) if plain else None
    except (KeyError, TypeError, ValueError):
        return None


def started_of(folder: Path) -> Started | None:
    plain = _read(folder / STARTED)
    try:
        return read_started(plain) if plain else None
    except (KeyError, TypeError):
        return None


def is_taken(folder: Path) -> bool:
    return (folder / STARTED).exists()


def take_folder(folder: Path, started: Started) -> bool:
    """For the runner, before the command runs: False if the folder is taken or was given up. The lock ends with this
    process. Nothing is flushed: it names processes, and these do not survive what a flush is for."""
    try:
        descriptor = os.open(folder / STARTED, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if os.fstat(descriptor).st_size:
        return False  # given up between the two lines above
    _write_all(descriptor, json.dumps(started._asdict()))
    return True


def give_up(folder: Path) -> bool:
    """True if no runner lives here; from then on none ever will."""
    try:
        descriptor = os.open(folder / STARTED, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return True  # there is no folder
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(descriptor).st_size:
            _write_all(descriptor, "{}")
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def write_status(folder: Path, status: CommandStatus) -> None:
    """On disk when it returns, whole or not at all."""
    text = json.dumps(status._asdict())
    try:
        _write(folder / f"{STATUS}.new", text, os.O_CREAT | os.O_TRUNC)
        os.rename(folder / f"{STATUS}.new", folder / STATUS)
    except OSError:
        # A full disk: started.json has a block already, and nobody needs it once the command has ended.
        _write(folder / STARTED, text, 0)
        os.rename(folder / STARTED, folder / STATUS)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, text: str, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    try:
        _write_all(descriptor, text)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, text: str) -> None:
    data = text.encode()
    if os.write(descriptor, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, len(data))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None
