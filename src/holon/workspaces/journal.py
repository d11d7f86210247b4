"""The journal: how far a patch has come, written down so that a crash in the middle of it can be settled.

New files are written beside their targets and synced. Then the journal says that it commits, and each change is one
rename that leaves the old file beside its name until all are done. Only then the journal goes, and what lies beside.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TypeVar

from holon.core.codec import Record, from_plain, to_plain
from holon.core.errors import AgentError
from holon.workspaces import steps as stepping
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.snapshots import Snapshot
from holon.workspaces.steps import Step, StepState

T = TypeVar("T")

#: How long a patch waits for others: for those with the same journal, and for whoever locks its root.
JOURNAL_PATIENCE_S, ROOT_PATIENCE_S = 10.0, 2.0
_POLL_S = 0.01


class JournalBusy(AgentError):
    """Another patch with the same journal takes too long. Nothing was changed."""

    code = "patch_busy"
    status = 503


class Phase(StrEnum):
    """Stands in the journal's name: going on to the next phase is one rename, which needs no room on the disk."""

    STAGING = ".staging"
    COMMITTING = ".committing"
    UNDOING = ".undoing"
    DONE = ".done"
    CONFLICT = ".conflict"
    ORPHAN = ".orphan"
    UNREADABLE = ".unreadable"


OPEN = (Phase.STAGING, Phase.COMMITTING, Phase.UNDOING, Phase.DONE)


class Entry(Record, frozen=True, kw_only=True):
    root: str
    #: Folders that the patch makes, outer ones first.
    folders: list[str]
    steps: list[Step]


class Journal:
    """One file in the journal folder. Its content never changes, its name tells the phase."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, journal_dir: Path, name: str, entry: Entry) -> Journal:
        draft = journal_dir / f"{name}.draft"
        with open(draft, "wb") as file:
            # Not `codec.dumps`: names of files need not be valid unicode.
            file.write(json.dumps(to_plain(entry)).encode())
            file.flush()
            os.fsync(file.fileno())
        journal = cls(draft)
        journal.enter(Phase.STAGING)
        return journal

    @property
    def phase(self) -> Phase:
        return Phase(self.path.suffix)

    def read(self) -> Entry:
        return from_plain(json.loads(self.path.read_bytes()), Entry)

    def enter(self, phase: Phase) -> None:
        following = self.path.with_suffix(phase)
        os.rename(self.path, following)
        self.path = following
        _sync(self.path.parent)

    def close(self) -> None:
        os.unlink(self.path)


class Blocked(Exception):
    """Somebody else changed the file."""


class OpenPatch:
    """A patch between its journal's first and last moment."""

    def __init__(self, root: ExecutionRoot, entry: Entry, journal: Journal) -> None:
        self.root, self.entry, self.journal = root, entry, journal

    def stage(self, contents: Sequence[tuple[bytes | None, Snapshot | None]]) -> None:
        """The new contents beside their targets, each with the file whose mode and owner it gets; then the commit."""
        for path in map(PurePosixPath, self.entry.folders):
            with self.root.folder(path.parent) as outer, suppress(FileExistsError):
                os.mkdir(path.name, dir_fd=outer)
        for step, (content, like) in zip(self.entry.steps, contents, strict=True):
            if content is not None:
                with self._folder(step) as folder:
                    stepping.stage(folder, step, content, like)
        self._sync()
        self.journal.enter(Phase.COMMITTING)

    def begin(self) -> None:
        """Every step. `Blocked` if somebody else changed a target, or took away what lies beside it."""
        for step in self.entry.steps:
            with self._folder(step) as folder:
                if stepping.state(folder, step) is not StepState.PENDING:
                    raise Blocked(step.path)
                stepping.perform(folder, step)
        self._sync()

    def go_on(self) -> None:
        """Every step that is still pending. `Blocked` if somebody else changed its target."""
        for step in self.entry.steps:
            with self._folder(step) as folder:
                match stepping.state(folder, step):
                    case StepState.PENDING:
                        stepping.perform(folder, step)
                    case StepState.BLOCKED:
                        raise Blocked(step.path)
                    case StepState.DONE:
                        pass
        self._sync()

    def close(self) -> None:
        """Without traces. If the disk refuses, `recover` does it later: the files are as they should be."""
        with suppress(OSError, RootViolation):
            if self.journal.phase is not Phase.DONE:
                self.journal.enter(Phase.DONE)
            self._clear(self.entry.steps)
            self.journal.close()

    def take_back(self) -> list[str]:
        """Everything as it was; the paths for which that was not possible."""
        left: list[str] = []
        if self.journal.phase is Phase.STAGING:
            self._clear(self.entry.steps)
        else:
            if self.journal.phase is not Phase.UNDOING:
                self.journal.enter(Phase.UNDOING)
            for step in reversed(self.entry.steps):
                if not self._undo(step):
                    left.append(step.path)
            self._sync()
            self._clear([step for step in self.entry.steps if step.path not in left])
        for path in map(PurePosixPath, reversed(self.entry.folders)):
            self._remove_empty(path)
        if left:
            self.journal.enter(Phase.CONFLICT)
        else:
            self.journal.close()
        return left

    def is_begun(self) -> bool:
        """Whether anything of the patch lies in the root. If not, nothing was done, or it is another folder by now."""
        return any(self._look(step, stepping.has_traces) for step in self.entry.steps)

    def _undo(self, step: Step) -> bool:
        try:
            return self._look(step, stepping.undo) is not False
        except RootViolation:
            return False

    def _clear(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._look(step, stepping.clear)

    def _remove_empty(self, path: PurePosixPath) -> None:
        try:
            with suppress(FileNotFoundError, NotADirectoryError, RootViolation), self.root.folder(path.parent) as outer:
                os.rmdir(path.name, dir_fd=outer)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # others have put something there
                raise

    def _look(self, step: Step, at: Callable[[int, Step], T]) -> T | None:
        """What `at` says of the step in its folder; None if the folder is gone, and everything with it."""
        with suppress(FileNotFoundError, NotADirectoryError), self._folder(step) as folder:
            return at(folder, step)
        return None

    def _folder(self, step: Step) -> AbstractContextManager[int]:
        return self.root.folder(PurePosixPath(step.folder))

    def _sync(self) -> None:
        folders = {step.folder for step in self.entry.steps}
        folders |= {str(PurePosixPath(folder).parent) for folder in self.entry.folders}
        for name in sorted(folders):
            with suppress(FileNotFoundError), self.root.folder(PurePosixPath(name)) as folder:
                os.fsync(folder)


@contextmanager
def locked(journal_dir: Path, patience: float | None = None) -> Iterator[None]:
    """The journal folder, made if need be, for one patch or one recovery at a time. `JournalBusy` if it stays taken:
    without this lock a recovery could take a patch that runs for one that crashed."""
    if not journal_dir.exists():
        journal_dir.mkdir(parents=True, exist_ok=True)
        _sync(journal_dir.parent)
    patience = JOURNAL_PATIENCE_S if patience is None else patience
    with open(journal_dir / "lock", "a", opener=_private) as file:
        if not _locks(file.fileno(), patience):
            raise JournalBusy(
                f"other patches have been in the making for {patience:g} s; nothing was changed",
                hint="send the same patch again",
                field="patch",
            )
        yield


@contextmanager
def alone_in(root: ExecutionRoot, patience: float | None = None) -> Iterator[bool]:
    """No other patch in this root, whichever journal it has; False if that could not be had in time.

    Best effort, so it is gone on without: whoever can read a folder can lock it for as long as he likes, and some
    network disks do not lock folders at all. What is lost is little. Patches with one journal still come one by one,
    and each looks at a file just before it changes it: a change by another host is noticed, unless it comes in that
    very moment."""
    with root.folder(PurePosixPath()) as folder:
        try:
            alone = _locks(folder, ROOT_PATIENCE_S if patience is None else patience)
        except OSError:
            alone = True  # nobody can lock it here, so nobody is waited for
        yield alone


def _locks(descriptor: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        else:
            return True


def _private(path: str, flags: int) -> int:
    """Whoever can open the lock can hold it."""
    return os.open(path, flags, 0o600)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
