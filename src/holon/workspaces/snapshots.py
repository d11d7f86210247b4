"""Snapshots: what a file in an execution root is at one moment, so that a later moment can tell whether it changed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import PurePosixPath

from holon.core.values import Value
from holon.workspaces.roots import ExecutionRoot

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Snapshot(Value, frozen=True):
    content: bytes
    mode: int
    owner: tuple[int, int]
    #: Device and inode.
    identity: tuple[int, int]
    #: Names that the file has; more than one where it is hard-linked.
    names: int

    @property
    def sha256(self) -> str:
        return digest(self.content)


class Unsuitable(Exception):
    """What is there is no file that a patch can work on."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


def take(root: ExecutionRoot, path: PurePosixPath, limit: int) -> Snapshot | None:
    """The file at `path`, read without following links; None if there is nothing. `Unsuitable` says what else it is."""
    if not path.parts:
        raise Unsuitable("not_a_file", "is the execution root itself: name a file in it")
    try:
        with root.folder(path.parent) as folder:
            return _take(folder, path.name, limit)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise Unsuitable("not_a_folder", "has a file where its folder should be") from error
    except OSError as error:
        raise Unsuitable("unreadable", f"cannot be read: {error.strerror}") from error


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_at(folder: int, name: str) -> str | None:
    """The digest of the file in an open folder; None if there is nothing; empty if it is no regular file."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return hashlib.file_digest(file, "sha256").hexdigest()


def _take(folder: int, name: str, limit: int) -> Snapshot | None:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        target = os.readlink(name, dir_fd=folder)
        raise Unsuitable("link", f"is a symbolic link to {target!r}: patch the file that it leads to")
    if stat.S_ISDIR(mode):
        raise Unsuitable("not_a_file", "is a folder: name a file in it")
    if not stat.S_ISREG(mode):
        raise Unsuitable("not_a_file", "is a device, pipe or socket")
    with open(os.open(name, _READ, dir_fd=folder), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):  # swapped between the two looks
            raise Unsuitable("not_a_file", "is a device, pipe or socket")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Unsuitable("too_large", f"has more than {limit:,} bytes: change it with a command")
    return Snapshot(
        content=content,
        mode=stat.S_IMODE(found.st_mode),
        owner=(found.st_uid, found.st_gid),
        identity=(found.st_dev, found.st_ino),
        names=found.st_nlink,
    )
