"""The system as a confined command sees it: programs and libraries, a little of /etc, private /tmp, /dev and /proc."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

#: Read-only, whole. What is a link on this machine (`/bin` to `usr/bin`) is a link inside.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
#: The kernel takes a write to its settings from root's number, whatever rights it has left, also in a namespace: the
#: one for core dumps names a program that runs outside.
_KERNEL_SETTINGS = ("fs", "sys", "sysrq-trigger")


@cache
def system_view(*, etc: Path, tmp_size: int, home: str) -> tuple[str, ...]:
    """Arguments for bubblewrap, in the order in which it mounts. Looked up once: what has gone since is left out by
    bubblewrap itself, what came since is seen after a restart. `etc` is the folder to see as such."""
    tmpfs = ("--perms", "1777", "--size", str(tmp_size), "--tmpfs")
    return (
        *(argument for name in _PROGRAMS for argument in _as_it_is(Path(name))),
        *("--ro-bind", str(etc), "/etc"),
        *("--proc", "/proc"),
        *(argument for name in _KERNEL_SETTINGS for argument in _read_only(Path("/proc") / name)),
        *("--dev", "/dev"),
        *(*tmpfs, "/dev/shm"),
        *("--remount-ro", "/dev"),
        *(*tmpfs, "/tmp"),
        *("--dir", home),
        *("--symlink", "../tmp", "/var/tmp"),
    )


def _as_it_is(path: Path) -> list[str]:
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return _read_only(path)


def _read_only(path: Path) -> list[str]:
    return ["--ro-bind-try", str(path), str(path)] if path.exists() else []
