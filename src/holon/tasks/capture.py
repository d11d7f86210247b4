"""What a command writes, kept within bounds: the first and the last bytes of each stream, and how many there were.

However much comes, a stream takes `head_bytes` + `tail_bytes` (and a line) on disk, and twice `tail_bytes` in memory.
A command is never held back by a disk that is slow, full or nearly full: what cannot be kept is counted.

Standard library only: runs in the runner.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from holon.tasks.folder import OUTPUT, STDERR, STDOUT, fresh_page_of, pages_of

#: Of each stream, at its beginning and at its end, this much is written even to a disk that is nearly full.
ALWAYS_BYTES = 65_536
#: While output flows, the newest of it is put on disk this often; when it pauses, at once.
TAIL_EVERY_S = 1.0
TAIL_PAUSE_S = 0.05
#: A disk that has no more places for files than this is as good as full.
FEW_INODES = 16


def mark_left_out(count: int) -> bytes:
    """The line that stands for what was not kept."""
    return b"\n[... %d bytes left out ...]\n" % count


def read_page(data: bytes) -> tuple[int, bytes]:
    """What a page of a tail says: where in the stream it begins, and its bytes."""
    start, _, page = data.partition(b"\n")
    return int(start), page


class Disk:
    """The breaker: says whether there is room, and remembers when there was none."""

    def __init__(self, folder: Path, floor_bytes: int) -> None:
        self._folder, self._floor = folder, floor_bytes
        self.low = False

    def has_room(self) -> bool:
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return False
        files_fit = not found.f_files or found.f_favail > FEW_INODES  # some disks do not count them
        if files_fit and found.f_bavail * found.f_frsize >= self._floor:
            return True
        self.low = True
        return False

    def blame(self, error: OSError) -> None:
        """A write failed. That is the disk's fault only if it says so: the folder may also have been removed."""
        self.low = self.low or error.errno in (errno.ENOSPC, errno.EDQUOT)


class BoundedFile:
    """One stream: a file with its beginning, and its end in memory, which is joined to the file when it is closed.

    Until then the end is also on disk, for readers and for the case that the runner is killed: on two pages beside the
    file, the older one being dropped when the newer one is full. Each byte is written there once at most; of a flood
    only what is the end of it once a second.
    """

    def __init__(self, path: Path, head_bytes: int, tail_bytes: int, disk: Disk, descriptor: int = -1) -> None:
        self.path, self._head_bytes, self._tail_bytes, self._disk = path, head_bytes, tail_bytes, disk
        self.total = 0
        self._head = 0  # bytes in the file
        self._tail = bytearray()
        self._tail_total = 0  # bytes that went to the tail, kept or not
        self._shown = 0  # of `_tail_total`, what was put on a page or passed over
        self._page, self._page_bytes = -1, 0
        self._descriptor = descriptor if descriptor >= 0 else _create(path, disk)

    def write(self, chunk: bytes) -> None:
        self.total += len(chunk)
        if not self._tail_total:
            room = self._head_bytes - self._head
            written = self._append(chunk[:room])
            self._head += written
            chunk = chunk[written:]
        if chunk:
            self._tail_total += len(chunk)
            self._tail += chunk
            if len(self._tail) > 2 * self._tail_bytes:
                del self._tail[: -self._tail_bytes]

    @property
    def truncated(self) -> bool:
        return self.total > self._head + min(self._tail_total, self._tail_bytes)

    @property
    def stale(self) -> bool:
        """There is newer output in memory than on disk."""
        return self._shown < self._tail_total

    def show_tail(self) -> None:
        """Puts what is new on a page."""
        fresh = self._tail_total - self._shown
        self._shown = self._tail_total
        if not self._disk.has_room():
            self._page_bytes = self._tail_bytes  # what comes next does not follow what is there
            return
        data = bytes(self._tail[-min(fresh, self._tail_bytes) :])
        try:
            if self._page < 0 or fresh > len(data) or self._page_bytes + len(data) > self._tail_bytes:
                self._turn_page(self.total - len(data))
            if os.write(self._page, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._page_bytes += len(data)
        except OSError as error:
            self._disk.blame(error)
            self._page_bytes = self._tail_bytes

    def close(self) -> None:
        """Joins the end to the beginning: from now on there is one file."""
        if self._tail_total:
            keep = self._tail_bytes if self._disk.has_room() else ALWAYS_BYTES
            self._tail_bytes = min(keep, self._tail_bytes)
            missing, tail = self._end(self._tail_bytes)
            end = mark_left_out(missing) + tail if missing else tail
            if self._put(end) < len(end):
                self._tail_bytes = 0
            if self._page >= 0:
                os.close(self._page)
            for page in (*pages_of(self.path), fresh_page_of(self.path)):
                page.unlink(missing_ok=True)

    def copy(self, path: Path) -> BoundedFile:
        """The same bytes under another name, to go on apart."""
        twin = BoundedFile(path, self._head_bytes, self._tail_bytes, self._disk)
        try:
            twin._head = twin._put(self.path.read_bytes()[: self._head]) if self._head else 0
        except OSError as error:
            self._disk.blame(error)
        twin.total, twin._tail, twin._tail_total = self.total, self._tail[:], self._tail_total
        twin._tail_total += self._head - twin._head  # what could not be copied is left out
        return twin

    def _append(self, chunk: bytes) -> int:
        if not chunk or (self._head + len(chunk) > ALWAYS_BYTES and not self._disk.has_room()):
            return 0
        return self._put(chunk)

    def _put(self, data: bytes) -> int:
        """How much of it the disk took."""
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:] if written else data)
        except OSError as error:
            self._disk.blame(error)
        return written

    def _turn_page(self, start: int) -> None:
        """The new page is whole before the old one makes room: where there is no room for a third, both stay."""
        older, newer = pages_of(self.path)
        fresh = fresh_page_of(self.path)
        page = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            head = b"%d\n" % start
            if os.write(page, head) < len(head):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._page >= 0:
                with suppress(FileNotFoundError):  # somebody has removed it
                    newer.rename(older)
            fresh.rename(newer)
        except OSError:
            os.close(page)
            raise
        if self._page >= 0:
            os.close(self._page)
        self._page, self._page_bytes = page, 0

    def _end(self, keep: int) -> tuple[int, bytes]:
        tail = bytes(self._tail[-keep:])
        return self.total - self._head - len(tail), tail


class Capture:
    """The streams of one command: together, and apart from the moment that stderr is used."""

    def __init__(self, folder: Path, head_bytes: int, tail_bytes: int, disk_floor_bytes: int, output: int = -1) -> None:
        """`output` is the open file, if it is made already."""
        self._folder, self._bounds = folder, (head_bytes, tail_bytes)
        self.disk = Disk(folder, disk_floor_bytes)
        self.output = BoundedFile(folder / OUTPUT, head_bytes, tail_bytes, self.disk, output)
        self._apart: dict[str, BoundedFile] = {}
        self._shown_at = 0.0

    def take(self, stream: str, chunk: bytes) -> None:
        if stream == STDERR and not self._apart:
            self._apart[STDOUT] = self.output.copy(self._folder / STDOUT)
            self._apart[STDERR] = BoundedFile(self._folder / STDERR, *self._bounds, self.disk)
        if self._apart:
            self._apart[stream].write(chunk)
        self.output.write(chunk)

    @property
    def stdout_bytes(self) -> int:
        return self._apart[STDOUT].total if self._apart else self.output.total

    @property
    def stderr_bytes(self) -> int:
        return self._apart[STDERR].total if self._apart else 0

    @property
    def truncated(self) -> bool:
        return any(file.truncated for file in self._files())

    def show(self, now: float, *, paused: bool) -> None:
        """Puts what is only in memory on disk, if it is time."""
        if paused or now - self._shown_at >= TAIL_EVERY_S:
            self._shown_at = now
            for file in self._files():
                if file.stale:
                    file.show_tail()

    @property
    def stale(self) -> bool:
        return any(file.stale for file in self._files())

    def close(self) -> None:
        for file in self._files():
            file.close()

    def _files(self) -> list[BoundedFile]:
        return [self.output, *self._apart.values()]


def _create(path: Path, disk: Disk) -> int:
    """-1: the disk does not take it; every write will fail, and be counted."""
    try:
        return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        disk.blame(error)
        return -1
