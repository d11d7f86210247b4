"""A command's folder: what is in it, who may begin in it, and the two small files that say how far it came.

    started.json  which process it is. A folder that has it belongs to one command for ever; its runner keeps it locked
                  for as long as it lives
    control       the runner's socket, once the command has run for a moment
    status.json   how it ended
    output.log    what it wrote, both streams as they came (or the terminal's transcript)
    stdout.log    the streams apart, once stderr was used: until then output.log is stdout
    stderr.log
    *.tail        the newest output of a long stream while it runs, on two pages (the older one is *.tail.old, the next
                  one *.tail.new until it is whole); at the end it is joined to its file

A runner makes its folder before it has an order, and gives it its name when it gets one: making files is slow, renaming
is not. Standard library only: daemon and runner both use it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from holon.tasks.protocol import CommandStatus, Started, read_started, read_status

CONTROL, STARTED, STATUS = "control", "started.json", "status.json"
OUTPUT, STDOUT, STDERR = "output.log", "stdout.log", "stderr.log"
_NEW_STATUS = "status.json.new"

HERE = Path()
#: More than either of the small files needs.
_RESERVED_BYTES = 2_048


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


def pages_of(path: Path) -> tuple[Path, Path]:
    """Where the newest output of a long stream is while it runs: the older page and the newer one."""
    return path.with_name(f"{path.name}.tail.old"), path.with_name(f"{path.name}.tail")


def fresh_page_of(path: Path) -> Path:
    """The next page in the making: it takes its place when it is whole."""
    return path.with_name(f"{path.name}.tail.new")


def make_room(folder: Path) -> Path | None:
    """There will be a place for this folder. A file that stands there is moved aside, and its new name is returned: who
    put it there could not start a command any more to remove it."""
    place, aside = folder.parent, None
    if os.path.isdir(place):
        return None
    if os.path.lexists(place):
        aside = place.with_name(f"{place.name}.aside-{time.time_ns()}")
        os.rename(place, aside)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return aside


def is_taken(folder: Path) -> bool:
    return (folder / STARTED).exists()


class Nest:
    """A runner's folder, before and after it has a command. It is the current directory: no path is needed, and none
    is too long for a socket."""

    _path: Path

    def __init__(self, path: Path) -> None:
        self._make(path)

    def begin(self, folder: Path, started: Started) -> None:
        """Becomes the command's folder, which is not there yet, or empty; otherwise raises, and is gone. Nothing is
        flushed: what is written names processes, and these do not survive what a flush is for."""
        text = json.dumps(started._asdict())
        _write_all(self._started, text)
        try:
            os.rename(self._path, folder)
            self._path = folder
        except OSError as error:
            self.remove()
            if error.errno != errno.EXDEV:
                raise
            self._make(folder)  # on another disk
            _write_all(self._started, text)

    def note(self, started: Started) -> None:
        """What is known of the process since."""
        _write_all(self._started, json.dumps(started._asdict()))

    def end(self, status: CommandStatus) -> None:
        """From now on everyone sees how the command ended. There is room for it on the disk, however full that is."""
        _write_all(self._status, json.dumps(status._asdict()))
        os.rename(_NEW_STATUS, STATUS)

    def flush(self) -> None:
        """From now on it survives a loss of power."""
        os.fsync(self._status)
        _flush(HERE)

    def remove(self) -> None:
        with suppress(FileNotFoundError):  # a new daemon has cleaned up already
            for name in (STARTED, OUTPUT, _NEW_STATUS):
                os.unlink(name)
            os.chdir("/")
            os.rmdir(self._path)

    def _make(self, path: Path) -> None:
        """Raises FileExistsError where another runner was, or where somebody has given up."""
        path.mkdir(mode=0o700, exist_ok=True)  # for this user alone: output may hold secrets
        self._started = os.open(path / STARTED, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._started, fcntl.LOCK_EX)
        if os.fstat(self._started).st_size:
            raise FileExistsError(errno.EEXIST, "it was given up", str(path))
        os.chdir(path)
        self._path = path
        self.output = os.open(OUTPUT, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        self._status = os.open(_NEW_STATUS, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        for reserved in (self._started, self._status):
            os.write(reserved, b" " * _RESERVED_BYTES)


def give_up(folder: Path) -> bool:
    """True if no runner lives here; from then on none ever will."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / STARTED, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
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
    """For a command without a runner. On disk when it returns, whole or not at all."""
    descriptor = os.open(folder / _NEW_STATUS, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        _write_all(descriptor, json.dumps(status._asdict()))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(folder / _NEW_STATUS, folder / STATUS)
    _flush(folder)


def _write_all(descriptor: int, text: str) -> None:
    """Over what was reserved. Spaces at the end do not trouble a reader of JSON, and cutting them off takes longer."""
    data = text.encode().ljust(os.fstat(descriptor).st_size)
    if os.pwrite(descriptor, data, 0) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None
