"""Trees: folders as the runtime removes them. Links are removed and never followed; work is counted in entries."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def opened(where: Path | str, parent: int | None = None) -> Iterator[int]:
    """A folder as a descriptor. Below `parent` it is itself, not what a link points to."""
    flags = os.O_RDONLY | os.O_DIRECTORY | (0 if parent is None else os.O_NOFOLLOW)
    descriptor = os.open(where, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_tree(parent: int, name: str, most: int) -> int:
    """Removes a folder from its leaves on, by descriptors; what is left of `most`, the entries that may be removed."""
    if not _is_folder(name, parent):
        if is_there(name, parent):
            os.unlink(name, dir_fd=parent)
        return most - 1
    for _, folders, files, here in os.fwalk(name, topdown=False, dir_fd=parent):
        for entry in (*files, *folders):
            if most <= 0:
                return 0
            most -= 1
            (os.rmdir if _is_folder(entry, here) else os.unlink)(entry, dir_fd=here)
    os.rmdir(name, dir_fd=parent)
    return most - 1


def _is_folder(name: str, where: int) -> bool:
    return stat.S_ISDIR(_mode(name, where))


def is_there(name: str, where: int) -> bool:
    return _mode(name, where) != 0


def _mode(name: str, where: int) -> int:
    try:
        return os.stat(name, dir_fd=where, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0
