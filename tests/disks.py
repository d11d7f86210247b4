"""Real disks that are soon full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small(place: Path, options: str) -> Iterator[Path]:
    """A disk in memory with these options of tmpfs. Skips the test where none can be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4_096)
    assert os.statvfs(disk).f_bavail == 0
