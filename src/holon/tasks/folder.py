"""A command's folder: what it is called, who may begin in it, and the two small files that say how far it came.

    control       the runner's socket; whoever makes this name first owns the folder, and nobody can afterwards
    started.json  which process it is; written before the command runs
    status.json   how it ended
    output.log    what it wrote, both streams as they came (or the terminal's transcript)
    stdout.log    the streams apart, once stderr was used: until then output.log is stdout
    stderr.log
    *.tail        the newest output of a long stream while it runs; at the end it is joined to its file

Standard library only: daemon and runner both use it.
"""

from __future__ import annotations

import errno
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


def write_started(folder: Path, started: Started) -> None:
    """Not flushed: it names processes, and these do not survive what a flush would."""
    _write(folder / f"{STARTED}.new", json.dumps(started._asdict()), flush=False)
    os.rename(folder / f"{STARTED}.new", folder / STARTED)


def write_status(folder: Path, status: CommandStatus) -> None:
    """On disk when it returns, whole or not at all."""
    text = json.dumps(status._asdict())
    try:
        _write(folder / f"{STATUS}.new", text, flush=True)
        os.rename(folder / f"{STATUS}.new", folder / STATUS)
    except OSError:
        # A full disk: started.json has a block already, and nobody needs it once the command has ended.
        _write(folder / STARTED, text, flush=True, create=False)
        os.rename(folder / STARTED, folder / STATUS)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def close_to_runners(folder: Path) -> bool:
    """True if no runner has begun here, and from now on none can."""
    try:
        os.close(os.open(folder / CONTROL, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return not (folder / CONTROL).is_socket()
    except FileNotFoundError:
        return True  # there is no folder
    return True


def _write(path: Path, text: str, *, flush: bool, create: bool = True) -> None:
    flags = os.O_WRONLY | (os.O_CREAT | os.O_TRUNC if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        data = text.encode()
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.ftruncate(descriptor, len(data))
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None
