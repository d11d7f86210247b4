"""Recovery: what a crash left of a patch is completed or taken back, so that again all of its files changed, or none.

Before the commit everything is taken back. After it the patch goes on, unless somebody else has changed a file: then
what is still ours is taken back. Nothing is overwritten that the patch did not write, and where nothing of it lies in
the root, nothing is done.
"""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path

import msgspec

from holon.core.codec import InvalidShape, Record
from holon.workspaces.journal import OPEN, Blocked, Journal, JournalBusy, OpenPatch, Phase, alone_in, locked
from holon.workspaces.names import printable
from holon.workspaces.roots import ExecutionRoot, RootViolation

#: How long a recovery waits for others, all of its patches together: a start waits for it.
PATIENCE_S = 1.0


class RecoveryOutcome(StrEnum):
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    #: Taken back, except where somebody else has changed a file; its old content lies beside it.
    CONFLICT = "conflict"
    ROOT_GONE = "root_gone"
    #: The journal cannot be read, or is in use, or the disk refuses; the journal is kept.
    STUCK = "stuck"


class Recovery(Record, frozen=True, kw_only=True):
    """How one interrupted patch was settled."""

    journal: str
    root: str
    outcome: RecoveryOutcome
    #: The files of the patch; of a conflict, those that were left alone.
    paths: list[str] = msgspec.field(default_factory=list)
    message: str


def recover(journal_dir: Path) -> list[Recovery]:
    """Settles every patch that was interrupted. Call it before anything else patches; it waits a moment for others."""
    if not journal_dir.is_dir():
        return []
    deadline = time.monotonic() + PATIENCE_S
    try:
        with locked(journal_dir, PATIENCE_S):
            for draft in journal_dir.glob("*.draft"):
                draft.unlink()
            open_ones = [Journal(path) for path in sorted(journal_dir.iterdir()) if path.suffix in OPEN]
            return [_recover(journal, deadline) for journal in open_ones]
    except JournalBusy:
        words = "another process holds the lock in this folder; what a crash left open is settled at the next start"
        return [Recovery(journal=printable(journal_dir), root="", outcome=RecoveryOutcome.STUCK, message=words)]


def _recover(journal: Journal, deadline: float) -> Recovery:
    try:
        entry = journal.read()
    except (OSError, ValueError, InvalidShape) as error:
        journal.enter(Phase.UNREADABLE)
        words = f"the journal cannot be read: {error}; it is kept as {journal.path.name}"
        return Recovery(journal=journal.path.stem, root="", outcome=RecoveryOutcome.STUCK, message=words)

    def settled(outcome: RecoveryOutcome, message: str, paths: list[str] | None = None) -> Recovery:
        named = [printable(path) for path in ([step.path for step in entry.steps] if paths is None else paths)]
        root = printable(entry.root)
        return Recovery(journal=journal.path.stem, root=root, outcome=outcome, paths=named, message=message)

    try:
        patch = OpenPatch(ExecutionRoot(entry.root), entry, journal)
    except RootViolation:
        journal.enter(Phase.ORPHAN)
        return settled(
            RecoveryOutcome.ROOT_GONE, f"the execution root is gone; the journal is kept as {journal.path.name}"
        )
    try:
        with alone_in(patch.root, max(0.0, deadline - time.monotonic())):
            if journal.phase is Phase.DONE or _went_on(patch):
                patch.close()
                return settled(RecoveryOutcome.COMPLETED, "the patch was completed: all files are new")
            left = patch.take_back()
        if left:
            words = "others have changed these files, so they stay as they are; their old contents lie beside them"
            return settled(RecoveryOutcome.CONFLICT, f"{words}; the journal is kept as {journal.path.name}", left)
        return settled(RecoveryOutcome.ROLLED_BACK, "the patch was taken back: all files are as before")
    except (OSError, RootViolation) as error:
        return settled(
            RecoveryOutcome.STUCK, f"the disk refused: {printable(str(error))}; the journal is kept for the next try"
        )


def _went_on(patch: OpenPatch) -> bool:
    if patch.journal.phase is not Phase.COMMITTING or not patch.is_begun():
        return False
    try:
        patch.go_on()
    except (OSError, Blocked, RootViolation):
        return False
    return True
