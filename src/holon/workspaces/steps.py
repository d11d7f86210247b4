"""Steps: one change of one name in an open folder, made so that what lies there tells whether it was made.

A step has at most two files beside its target: the stage, with the new content, until it takes the name; and the
backup, with the old one (empty if there was none), from the change on until all is settled. Each function may be called
again after a crash in the middle of it, and does nothing where neither file lies.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from enum import StrEnum
from pathlib import PurePosixPath

from holon.core.codec import Record
from holon.workspaces.snapshots import Snapshot, digest_at

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
#: How file systems say that they have no hard links, or none for this file.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class Step(Record, frozen=True, kw_only=True):
    """`old` and `new` are digests; None is nothing: an addition has no `old`, a removal no `new`."""

    folder: str
    name: str
    stage: str
    backup: str
    old: str | None = None
    new: str | None = None

    @property
    def path(self) -> str:
        return str(PurePosixPath(self.folder) / self.name)


class StepState(StrEnum):
    PENDING = "pending"
    DONE = "done"
    #: Somebody else changed the target.
    BLOCKED = "blocked"


def stage(folder: int, step: Step, content: bytes, like: Snapshot | None) -> None:
    """The new content beside its target, synced, with the mode and the owner that it will have."""
    descriptor = os.open(step.stage, _WRITE, 0o666 if like is None else 0o600, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if like is not None:
            _make_like(descriptor, like)
        os.fsync(descriptor)


def state(folder: int, step: Step) -> StepState:
    there = digest_at(folder, step.name)
    if step.new is None:
        if there is None or _exists(folder, step.backup):
            return StepState.DONE
        return StepState.PENDING if there == step.old else StepState.BLOCKED
    if not _exists(folder, step.stage):
        return StepState.DONE
    if step.old is None:
        free = there is None or _same(folder, step.stage, step.name)
        return StepState.PENDING if free else StepState.BLOCKED
    return StepState.PENDING if there == step.old else StepState.BLOCKED


def has_traces(folder: int, step: Step) -> bool:
    return _exists(folder, step.stage) or _exists(folder, step.backup)


def perform(folder: int, step: Step) -> None:
    """The change itself: one rename or link. Only for a step that is pending."""
    if step.new is None:
        _rename(folder, step.name, step.backup)
    elif step.old is None:
        with suppress(FileExistsError):
            os.close(os.open(step.backup, _WRITE, 0o600, dir_fd=folder))
        if not _same(folder, step.stage, step.name):
            _take_name(folder, step.stage, step.name)
        _remove(folder, step.stage)
    else:
        if not _exists(folder, step.backup):
            _keep(folder, step.name, step.backup)
        _rename(folder, step.stage, step.name)


def undo(folder: int, step: Step) -> bool:
    """As it was before; False if somebody else's change is in the way, which then stays, with the backup beside it."""
    if step.new is None:
        return _undo_removal(folder, step)
    if step.old is None:
        return _undo_addition(folder, step)
    return _undo_replacement(folder, step)


def clear(folder: int, step: Step) -> None:
    """Without what lies beside the target."""
    for name in (step.stage, step.backup, _unfinished(step.backup)):
        _remove(folder, name)


def _undo_removal(folder: int, step: Step) -> bool:
    if not _exists(folder, step.backup):
        return True
    if not _same(folder, step.backup, step.name):
        if _exists(folder, step.name):
            return False
        _take_name(folder, step.backup, step.name)
    _remove(folder, step.backup)
    return True


def _undo_addition(folder: int, step: Step) -> bool:
    if _exists(folder, step.stage):
        if _same(folder, step.stage, step.name):
            _remove(folder, step.name)
        _remove(folder, step.stage)
    elif _exists(folder, step.backup):
        there = digest_at(folder, step.name)
        if there not in (None, step.new):
            return False
        _remove(folder, step.name)
    _remove(folder, step.backup)
    return True


def _undo_replacement(folder: int, step: Step) -> bool:
    if _exists(folder, step.stage):
        _remove(folder, step.backup)
        _remove(folder, step.stage)
        return True
    if not _exists(folder, step.backup):
        return True
    there = digest_at(folder, step.name)
    if there in (None, step.new):
        _rename(folder, step.backup, step.name)
    elif there != step.old:
        return False
    _remove(folder, step.backup)
    return True


def _make_like(descriptor: int, like: Snapshot) -> None:
    found = os.fstat(descriptor)
    if (found.st_uid, found.st_gid) != like.owner:
        with suppress(PermissionError):  # only root can give files away; the content matters more than the owner
            os.fchown(descriptor, *like.owner)
    os.fchmod(descriptor, like.mode)


def _take_name(folder: int, source: str, name: str) -> None:
    """Gives `source` a second or a new name, and never overwrites: somebody may have made a file there just now."""
    try:
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if _exists(folder, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from error
        _rename(folder, source, name)


def _keep(folder: int, name: str, backup: str) -> None:
    try:
        os.link(name, backup, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy(folder, name, _unfinished(backup))
        _rename(folder, _unfinished(backup), backup)


def _copy(folder: int, name: str, copy: str) -> None:
    _remove(folder, copy)
    with (
        open(os.open(name, _READ, dir_fd=folder), "rb") as source,
        open(os.open(copy, _WRITE, 0o600, dir_fd=folder), "wb") as target,
    ):
        shutil.copyfileobj(source, target)
        target.flush()
        found = os.fstat(source.fileno())
        with suppress(PermissionError):
            os.fchown(target.fileno(), found.st_uid, found.st_gid)
        os.fchmod(target.fileno(), found.st_mode & 0o7777)
        os.utime(target.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
        os.fsync(target.fileno())


def _unfinished(backup: str) -> str:
    return f"{backup}~"


def _exists(folder: int, name: str) -> bool:
    return _stat(folder, name) is not None


def _same(folder: int, one: str, other: str) -> bool:
    first, second = _stat(folder, one), _stat(folder, other)
    return first is not None and second is not None and os.path.samestat(first, second)


def _stat(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _rename(folder: int, source: str, target: str) -> None:
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
