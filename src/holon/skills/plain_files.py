"""Plain files: read whole, if they are files at all. A pipe or a device in a skill's folder holds nobody up.

What a disk refuses becomes an error that says which path it was and what to look at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holon.core.errors import Conflict


def read_plain(path: Path, most: int) -> bytes | None:
    """The bytes of a file, or `None` if it has more than `most`. What is no file is an `OSError`, and at once."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is not a file", str(path))
        data = file.read(most + 1)
    return data if len(data) <= most else None


@contextmanager
def disk_errors_told(root: Path) -> Iterator[None]:
    """Whatever the disk refuses while something is put into `root`, or taken out of it."""
    try:
        yield
    except OSError as error:
        raise Conflict(
            f"{error.filename or root} cannot be used ({error.strerror})",
            hint=f"check that {root} is a folder that you may write, and that its disk has space",
        ) from error
