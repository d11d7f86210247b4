"""Commits: several files change together, or none does and an error says why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from holon.core.errors import AgentError
from holon.core.ids import new_id
from holon.core.values import Value
from holon.workspaces.journal import Blocked, Entry, Journal, OpenPatch, alone_in, locked
from holon.workspaces.names import printable
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.snapshots import Snapshot, digest, digest_at
from holon.workspaces.steps import Step


class TargetChanged(AgentError):
    """A file is not what it was when the patch was checked. Nothing was changed."""

    code = "patch_target_changed"
    status = 409


class PatchFailed(AgentError):
    """The disk did not take the change."""

    code = "patch_failed"
    status = 503


class Change(Value, frozen=True):
    """One name: what is there now, and what shall be there; None is nothing."""

    path: PurePosixPath
    before: Snapshot | None
    content: bytes | None
    #: Whose mode and owner the file gets; None: those of a new file.
    like: Snapshot | None = None


def commit(root: ExecutionRoot, changes: Sequence[Change], journal_dir: Path) -> bool:
    """All changes, or none and an error. Waits, for a while, for another patch in the same root or with the same
    journal folder. False if somebody locked the root, and the patch went on without."""
    try:
        # The root first: who waits for a root must not hold up the patches of other roots.
        with alone_in(root) as alone, locked(journal_dir):
            _commit(root, changes, journal_dir)
            return alone
    except OSError as error:
        raise _explained(error, left=[]) from error


def _commit(root: ExecutionRoot, changes: Sequence[Change], journal_dir: Path) -> None:
    _refuse_changed(root, changes)
    name = new_id("patch")
    ordered = sorted(changes, key=lambda it: it.content is None)  # who looks in between sees too much, not too little
    steps = [_step(name, number, change) for number, change in enumerate(ordered)]
    entry = Entry(root=str(root.path), folders=_missing_folders(root, changes), steps=steps)
    patch = OpenPatch(root, entry, Journal.create(journal_dir, name, entry))
    try:
        patch.stage([(it.content, it.like) for it in ordered])
        patch.begin()
    except BaseException as error:
        explained = _explained(error, left=_taken_back(patch))
        if explained is error:
            raise
        raise explained from error
    patch.close()


def _taken_back(patch: OpenPatch) -> list[str] | None:
    """What could not be taken back; None if not even that is known."""
    try:
        return patch.take_back()
    except (OSError, RootViolation):
        return None


def _explained(error: BaseException, *, left: list[str] | None) -> BaseException:
    if left is None:
        return PatchFailed(
            f"the patch failed ({_reason(error)}) and could not be taken back",
            hint="read its files before anything else; at its next start Holon completes it or takes it back",
            field="patch",
        )
    if left:
        return PatchFailed(
            f"the patch failed ({_reason(error)}) and was taken back, but not for {', '.join(map(printable, left))}",
            hint="read these files before anything else; what they were before lies beside them as .holon-patch_*.old",
            field="patch",
            paths=[printable(path) for path in left],
        )
    if isinstance(error, Blocked):
        return _changed([str(error)])
    if isinstance(error, OSError):
        return PatchFailed(
            f"the files could not be written: {_reason(error)}; nothing was changed",
            hint="make room or correct the permissions, then send the patch again",
            field="patch",
        )
    return error


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.strerror}: {error.filename}" if error.filename else error.strerror)
    return printable(str(error)) or type(error).__name__


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
    shown = [printable(path) for path in paths]
    return TargetChanged(
        f"changed since the patch was checked: {', '.join(shown)}; nothing was changed by the patch",
        hint="read the files again and send a patch that fits them",
        field="patch",
        paths=shown,
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
