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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from holon.core.codec import InvalidShape, Record, from_plain, to_plain
from holon.core.errors import AgentError
from holon.core.ids import new_id
from holon.workspaces import steps as stepping
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.snapshots import Snapshot, digest, digest_at
from holon.workspaces.steps import Step, StepState

T = TypeVar("T")


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
    try:
        journal_dir.mkdir(parents=True, exist_ok=True)
        with _locked(journal_dir):
            _commit(root, changes, journal_dir)
    except OSError as error:
        raise _explained(error, left=[]) from error


def recover(journal_dir: Path) -> list[Recovery]:
    """Settles every patch that was interrupted. Call it before anything else patches; it waits for one that runs."""
    if not journal_dir.is_dir():
        return []
    with _locked(journal_dir):
        for draft in journal_dir.glob("*.draft"):
            draft.unlink()
        return [_recover(_Journal(path)) for path in sorted(journal_dir.iterdir()) if path.suffix in _OPEN]


def _commit(root: ExecutionRoot, changes: Sequence[Change], journal_dir: Path) -> None:
    _refuse_changed(root, changes)
    name = new_id("patch")
    ordered = sorted(changes, key=lambda it: it.content is None)  # who looks in between sees too much, not too little
    steps = [_step(name, number, change) for number, change in enumerate(ordered)]
    entry = _Entry(root=str(root.path), folders=_missing_folders(root, changes), steps=steps)
    patch = _OpenPatch(root, entry, _Journal.create(journal_dir, name, entry))
    try:
        patch.stage(ordered)
        patch.go_on()
    except BaseException as error:
        explained = _explained(error, left=_taken_back(patch))
        if explained is error:
            raise
        raise explained from error
    patch.close()


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
        for path in map(PurePosixPath, self.entry.folders):
            with self.root.folder(path.parent) as outer, suppress(FileExistsError):
                os.mkdir(path.name, dir_fd=outer)
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
        with suppress(OSError, RootViolation):
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
        for path in map(PurePosixPath, reversed(self.entry.folders)):
            with suppress(OSError, RootViolation), self.root.folder(path.parent) as outer:
                os.rmdir(path.name, dir_fd=outer)
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
        try:
            return self._look(step, stepping.undo) is not False
        except RootViolation:
            return False

    def _clear(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._look(step, stepping.clear)

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


def _recover(journal: _Journal) -> Recovery:
    try:
        entry = journal.read()
    except (OSError, ValueError, InvalidShape) as error:
        journal.enter(_Phase.UNREADABLE)
        words = f"the journal cannot be read: {error}; it is kept as {journal.path.name}"
        return Recovery(journal=journal.path.stem, root="", outcome=RecoveryOutcome.STUCK, message=words)

    def settled(outcome: RecoveryOutcome, message: str, paths: list[str] | None = None) -> Recovery:
        named = [_path(step) for step in entry.steps] if paths is None else paths
        return Recovery(journal=journal.path.stem, root=entry.root, outcome=outcome, paths=named, message=message)

    try:
        patch = _OpenPatch(ExecutionRoot(entry.root), entry, journal)
    except RootViolation:
        journal.enter(_Phase.ORPHAN)
        return settled(
            RecoveryOutcome.ROOT_GONE, f"the execution root is gone; the journal is kept as {journal.path.name}"
        )
    try:
        if journal.phase is _Phase.DONE or _went_on(patch):
            patch.close()
            return settled(RecoveryOutcome.COMPLETED, "the patch was completed: all files are new")
        if left := patch.take_back():
            words = "others have changed these files, so they stay as they are; their old contents lie beside them"
            return settled(RecoveryOutcome.CONFLICT, f"{words}; the journal is kept as {journal.path.name}", left)
        return settled(RecoveryOutcome.ROLLED_BACK, "the patch was taken back: all files are as before")
    except (OSError, RootViolation) as error:
        return settled(RecoveryOutcome.STUCK, f"the disk refused: {error}; the journal is kept for the next try")


def _went_on(patch: _OpenPatch) -> bool:
    if patch.journal.phase is not _Phase.COMMITTING or not patch.is_begun() or not patch.can_go_on():
        return False
    try:
        patch.go_on()
    except (OSError, AgentError):
        return False
    return True


def _taken_back(patch: _OpenPatch) -> list[str] | None:
    """What could not be taken back; None if not even that is known."""
    try:
        return patch.take_back()
    except (OSError, RootViolation):
        return None


def _explained(error: BaseException, *, left: list[str] | None) -> BaseException:
    if left is None or left:
        names = ", ".join(left) if left else "some files"
        return PatchFailed(
            f"the patch failed ({_reason(error)}) and could not be taken back for {names}",
            hint="look at these files before anything else; the next start of Holon tries again to settle them",
            field="patch",
        )
    if isinstance(error, OSError):
        return PatchFailed(
            f"the files could not be written: {_reason(error)}; nothing was changed",
            hint="make room or correct the permissions, then send the patch again",
            field="patch",
        )
    return error


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _refuse_changed(root: ExecutionRoot, changes: Sequence[Change]) -> None:
    changed: list[str] = []
    for change in changes:
        there: str | None = None
        try:
            with root.folder(change.path.parent) as folder:
                there = digest_at(folder, change.path.name)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            there = ""
        if there != (change.before.sha256 if change.before else None):
            changed.append(str(change.path))
    if changed:
        raise _changed(changed)


def _changed(paths: Sequence[str]) -> TargetChanged:
    return TargetChanged(
        f"changed since the patch was checked: {', '.join(paths)}; nothing was changed by the patch",
        hint="read the files again and send a patch that fits them",
        field="patch",
        paths=list(paths),
    )


def _missing_folders(root: ExecutionRoot, changes: Sequence[Change]) -> list[str]:
    wanted = {folder for change in changes if change.content is not None for folder in change.path.parents}
    missing: list[str] = []
    for folder in sorted(wanted, key=lambda path: len(path.parts)):
        try:
            with root.folder(folder):
                pass
        except FileNotFoundError:
            missing.append(str(folder))
    return missing


def _step(patch: str, number: int, change: Change) -> Step:
    return Step(
        folder=str(change.path.parent),
        name=change.path.name,
        stage=f".holon-{patch}-{number}.new",
        backup=f".holon-{patch}-{number}.old",
        old=change.before.sha256 if change.before else None,
        new=None if change.content is None else digest(change.content),
    )


def _path(step: Step) -> str:
    return str(PurePosixPath(step.folder) / step.name)


@contextmanager
def _locked(journal_dir: Path) -> Iterator[None]:
    with open(journal_dir / "lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
