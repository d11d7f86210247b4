"""The journal: several files change together, or none does, also when the process dies in the middle.

New files are written beside their targets and synced. Then the journal says that it commits, and each change is one
rename that leaves the old file beside its name until all are done. `recover` reads from what lies there how far it came:
before the commit it takes everything back, after it, it goes on; unless somebody else has changed a file meanwhile,
in which case it takes back what is still ours. It never overwrites what it did not write.
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
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.snapshots import Snapshot, digest, digest_at
from holon.workspaces.steps import Folders, Step, StepState


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
    #: Taken back as far as nobody else had changed the files; their old contents lie beside them.
    CONFLICT = "conflict"
    ROOT_GONE = "root_gone"
    #: The journal cannot be read, or the disk refused; it is kept.
    STUCK = "stuck"


class Recovery(Record, frozen=True, kw_only=True):
    """How one interrupted patch was settled."""

    journal: str
    root: str
    outcome: RecoveryOutcome
    paths: list[str] = msgspec.field(default_factory=list)
    message: str


class _Phase(StrEnum):
    STAGING = "staging"
    COMMITTING = "committing"
    UNDOING = "undoing"


class _Journal(Record, frozen=True, kw_only=True):
    id: str
    root: str
    phase: _Phase
    #: Folders that the patch makes, outer ones first.
    folders: list[str]
    steps: list[Step]


def commit(root: ExecutionRoot, changes: Sequence[Change], journal_dir: Path) -> None:
    """All changes, or none and an error. Waits for another patch that uses the same journal folder."""
    journal_dir.mkdir(parents=True, exist_ok=True)
    with _locked(journal_dir):
        _refuse_changed(root, changes)
        identifier = new_id("patch")
        steps = [_step(identifier, number, change) for number, change in enumerate(_ordered(changes))]
        journal = _Journal(
            id=identifier,
            root=str(root.path),
            phase=_Phase.STAGING,
            folders=_missing_folders(root, changes),
            steps=steps,
        )
        _Commit(root, journal, journal_dir / f"{identifier}.json").run([it.content for it in _ordered(changes)], changes)


def recover(journal_dir: Path) -> list[Recovery]:
    """Settles every patch that was interrupted. Call it before anything else patches; it waits for one that runs."""
    if not journal_dir.is_dir():
        return []
    with _locked(journal_dir):
        return [_recover(path) for path in sorted(journal_dir.glob("patch_*.json"))]
