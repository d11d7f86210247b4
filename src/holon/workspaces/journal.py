"""The journal: several files change together, or none does, also when the process dies in the middle.

New files are written beside their targets and synced. Then the journal says that it commits, and each change is one
rename that leaves the old file beside its name until all are done. `recover` reads from what lies there how far it
came: before the commit it takes everything back; after it, it goes on, unless somebody else has changed a file
meanwhile: then it takes back what is still ours. It never overwrites what it did not write.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

import msgspec

from holon.core.codec import InvalidShape, Record, from_plain, to_plain
from holon.core.errors import AgentError
from holon.core.ids import new_id
from holon.workspaces import steps as stepping
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.snapshots import Snapshot, digest, digest_at
from holon.workspaces.steps import Step, StepState


class TargetChanged(AgentError):
    """A file is not what it was when the patch was checked. Nothing was changed."""

    code = "patch_target_changed"
    status = 409


class PatchFailed(AgentError):
    """The disk did not take the change."""

    code = "patch_failed"
    status = 503


@dataclass(frozen=True, slots=True)
class Change:
    """One name: what is there now, and what shall be there; None is nothing."""

    path: PurePosixPath
    before: Snapshot | None
    content: bytes | None
    #: Whose mode and owner the file gets; None: those of a new file.
    like: Snapshot | None = None


class RecoveryOutcome(StrEnum):
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    #: Taken back, except where somebody else has changed a file; its old content lies beside it.
    CONFLICT = "conflict"
    ROOT_GONE = "root_gone"
    #: The journal cannot be read, or the disk refuses; the journal is kept.
    STUCK = "stuck"


class Recovery(Record, frozen=True, kw_only=True):
    """How one interrupted patch was settled."""

    journal: str
    root: str
    outcome: RecoveryOutcome
    #: The files of the patch; of a conflict, those that were left alone.
    paths: list[str] = msgspec.field(default_factory=list)
    message: str


def commit(root: ExecutionRoot, changes: Sequence[Change], journal_dir: Path) -> None:
    """All changes, or none and an error. Waits while another patch uses the same journal folder."""
    journal_dir.mkdir(parents=True, exist_ok=True)
    with _locked(journal_dir):
        _refuse_changed(root, changes)
        name = new_id("patch")
        # Removals first: their backups show that it began, when a finished addition shows nothing any more.
        ordered = sorted(changes, key=lambda it: (it.content is not None, it.before is None))
        steps = [_step(name, number, change) for number, change in enumerate(ordered)]
        entry = _Entry(root=str(root.path), folders=_missing_folders(root, changes), steps=steps)
        open_patch = _OpenPatch(root, entry, _Journal.create(journal_dir, name, entry))
        try:
            open_patch.stage(ordered)
            open_patch.go_on()
        except BaseException as error:
            left = open_patch.take_back()
            raise _explained(error, left) from error
        open_patch.close()


def recover(journal_dir: Path) -> list[Recovery]:
    """Settles every patch that was interrupted. Call it before anything else patches; it waits for one that runs."""
    if not journal_dir.is_dir():
        return []
    with _locked(journal_dir):
        return [_recover(_Journal(path)) for path in sorted(journal_dir.iterdir()) if path.suffix in _OPEN]


class _Phase(StrEnum):
    """Stands in the journal's name: going on to the next phase is one rename, which needs no room on the disk."""

    STAGING = ".staging"
    COMMITTING = ".committing"
    UNDOING = ".undoing"
    DONE = ".done"
    CONFLICT = ".conflict"
    ORPHAN = ".orphan"
    UNREADABLE = ".unreadable"


_OPEN = (_Phase.STAGING, _Phase.COMMITTING, _Phase.UNDOING, _Phase.DONE)


class _Entry(Record, frozen=True, kw_only=True):
    root: str
    #: Folders that the patch makes, outer ones first.
    folders: list[str]
    steps: list[Step]


class _Journal:
    """One file in the journal folder. Its content never changes, its name tells the phase."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, journal_dir: Path, name: str, entry: _Entry) -> _Journal:
        draft = journal_dir / f"{name}.draft"
        with open(draft, "wb") as file:
            # Not `codec.dumps`: names of files need not be valid unicode.
            file.write(json.dumps(to_plain(entry)).encode())
            file.flush()
            os.fsync(file.fileno())
        journal = cls(draft)
        journal.enter(_Phase.STAGING)
        return journal

    @property
    def phase(self) -> _Phase:
        return _Phase(self.path.suffix)

    def read(self) -> _Entry:
        return from_plain(json.loads(self.path.read_bytes()), _Entry)

    def enter(self, phase: _Phase) -> None:
        following = self.path.with_suffix(phase)
        os.rename(self.path, following)
        self.path = following
        _sync(self.path.parent)

    def close(self) -> None:
        os.unlink(self.path)


class _OpenPatch:
    """A patch between its journal's first and last moment."""

    def __init__(self, root: ExecutionRoot, entry: _Entry, journal: _Journal) -> None:
        self.root, self.entry, self.journal = root, entry, journal

    def stage(self, changes: Sequence[Change]) -> None:
        for folder in map(PurePosixPath, self.entry.folders):
            with self.root.folder(folder.parent) as outer, suppress(FileExistsError):
                os.mkdir(folder.name, dir_fd=outer)
        for step, change in zip(self.entry.steps, changes, strict=True):
            if change.content is not None:
                with self._folder(step) as folder:
                    stepping.stage(folder, step, change.content, change.like)
        self._sync()
        self.journal.enter(_Phase.COMMITTING)

    def go_on(self) -> None:
        """Every step that is still pending."""
        for step in self.entry.steps:
            with self._folder(step) as folder:
                match stepping.state(folder, step):
                    case StepState.PENDING:
                        stepping.perform(folder, step)
                    case StepState.BLOCKED:
                        raise _changed([_path(step)])
                    case StepState.DONE:
                        pass
        self._sync()

    def close(self) -> None:
        """Without traces. If the disk refuses, `recover` does it later: the files are as they should be."""
        with suppress(OSError):
            if self.journal.phase is not _Phase.DONE:
                self.journal.enter(_Phase.DONE)
            self._clear(self.entry.steps)
            self.journal.close()

    def take_back(self) -> list[str]:
        """Everything as it was; the paths for which that was not possible."""
        left: list[str] = []
        if self.journal.phase is _Phase.STAGING:
            self._clear(self.entry.steps)
        else:
            if self.journal.phase is not _Phase.UNDOING:
                self.journal.enter(_Phase.UNDOING)
            for step in reversed(self.entry.steps):
                if not self._undo(step):
                    left.append(_path(step))
            self._sync()
            self._clear([step for step in self.entry.steps if _path(step) not in left])
        for folder in map(PurePosixPath, reversed(self.entry.folders)):
            with suppress(OSError, RootViolation), self.root.folder(folder.parent) as outer:
                os.rmdir(folder.name, dir_fd=outer)
        if left:
            self.journal.enter(_Phase.CONFLICT)
        else:
            self.journal.close()
        return left

    def is_begun(self) -> bool:
        """Whether anything of the patch lies in the root. If not, nothing was done, or it is another folder by now."""
        return any(self._look(step, stepping.has_traces) for step in self.entry.steps)

    def can_go_on(self) -> bool:
        return all(self._look(step, stepping.state) is not StepState.BLOCKED for step in self.entry.steps)

    def _undo(self, step: Step) -> bool:
        return self._look(step, stepping.undo) is not False

    def _clear(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._look(step, stepping.clear)

    def _look[T](self, step: Step, at: Callable[[int, Step], T]) -> T | None:
        """What `at` says of the step in its folder; None if the folder is gone, and everything in it."""
        with suppress(FileNotFoundError, NotADirectoryError, RootViolation), self._folder(step) as folder:
            return at(folder, step)
        return None
