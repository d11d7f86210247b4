"""Archives: what an archive holds, as files in a folder. No path of it is used as it stands, and its size is bounded.

Bounds hold for what comes out, not for what goes in or what headers claim: a small archive can hold a great deal.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from holon.core.errors import InvalidInput

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".skill")
MAX_FILES = 2_000
MAX_BYTES = 50 * 1024 * 1024
_CHUNK = 1024 * 1024

#: How a compressed tar begins, and what reads it.
_COMPRESSED: tuple[tuple[bytes, Callable[[Path], Any]], ...] = (
    (b"\x1f\x8b", gzip.GzipFile),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ", lzma.LZMAFile),
)
#: What the libraries raise for archives that are broken or made to break them.
_BROKEN: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


def check_size(files: int, size: int) -> None:
    if files > MAX_FILES or size > MAX_BYTES:
        raise InvalidInput(
            f"the skill has more than {MAX_FILES} files or {MAX_BYTES} bytes",
            hint="is this the right source? name the skill's own folder with --skill",
        )


def unpack(archive: Path, folder: Path) -> None:
    """Writes the archive's files into `folder`, or says what is wrong with it. Links and devices are refused."""
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, _Unpacking(folder))
        else:
            _untar(archive, _Unpacking(folder))
    except _BROKEN as error:
        raise InvalidInput(f"{archive} cannot be unpacked: {error}", hint="is it a whole archive?") from error


class _Unpacking:
    """A folder that fills up: how many files and bytes came out so far, all of them together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = self._size = 0

    def add(self, data: IO[bytes], name: str, *, executable: bool) -> None:
        """Writes one member. Its name may not lead out of the folder by any spelling."""
        path = PurePosixPath(name.replace("\\", "/"))
        parts = [part for part in path.parts if part != "."]
        if path.is_absolute() or not parts or ".." in parts or ":" in parts[0] or "\0" in name:
            raise InvalidInput(
                f"the archive has a path that leaves it ({name[:100]!r})", hint="do not trust this archive"
            )
        self._files += 1
        check_size(self._files, self._size)
        target = self._folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            while chunk := data.read(_CHUNK):
                self._size += len(chunk)
                check_size(self._files, self._size)
                file.write(chunk)
        if executable:
            target.chmod(0o755)


def _unzip(archive: Path, into: _Unpacking) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if member.is_dir():
                continue
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise InvalidInput(f"the archive has a link ({member.filename[:100]!r})", hint="pack files only")
            with opened.open(member) as data:
                into.add(data, member.filename, executable=bool(mode & 0o100))


def _untar(archive: Path, into: _Unpacking) -> None:
    """Decompressed first, up to a bound: the headers of a tar are read whole, however long they say they are."""
    with tempfile.TemporaryFile() as plain:
        _decompress(archive, plain)
        plain.seek(0)
        with tarfile.open(fileobj=plain, mode="r:") as opened:
            for member in opened:
                if member.isdir():
                    continue
                data: IO[bytes] | None = opened.extractfile(member) if member.isreg() else None
                if data is None:
                    raise InvalidInput(
                        f"the archive has a link or device ({member.name[:100]!r})", hint="pack files only"
                    )
                into.add(data, member.name, executable=bool(member.mode & 0o100))


def _decompress(archive: Path, plain: IO[Any]) -> None:
    with open(archive, "rb") as file:
        begins = file.read(8)
    read = next((read for magic, read in _COMPRESSED if begins.startswith(magic)), None)
    with read(archive) if read else open(archive, "rb") as source:
        left = 2 * MAX_BYTES
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                check_size(0, MAX_BYTES + 1)
            plain.write(chunk)
