"""Patches beside somebody who locks folders: who may read a folder may lock it, and must not stop anybody by it."""

from __future__ import annotations

import stat
import sys
import threading
from pathlib import Path

import pytest

from holon.workspaces import journal, patches, recovery
from holon.workspaces.patches import Diagnostic, PatchResult, RecoveryOutcome
from holon.workspaces.roots import ExecutionRoot
from tests.workspaces.crashing import NEW, OLD
from tests.workspaces.holding import held
from tests.workspaces.test_journal import AFTER_ONE_SWAP, killed
from tests.workspaces.trees import grown, patched, plant

ADD = "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch\n"
#: Nothing here takes so long; whoever has not come back by then hangs.
HANGS_S = 60


class Beside(threading.Thread):
    """A patch that may hang, in a thread that does not keep the tests from ending."""

    def __init__(self, root: ExecutionRoot, journal_dir: Path) -> None:
        super().__init__(daemon=True)
        self.root, self.journal_dir = root, journal_dir
        self.result: PatchResult | None = None
        self.start()

    def run(self) -> None:
        self.result = patched(ADD, self.root, self.journal_dir)

    def waits_for_root(self) -> bool:
        here = sys._current_frames().get(self.ident or 0)
        while here is not None and here.f_code is not journal.alone_in.__wrapped__.__code__:  # type: ignore[attr-defined]
            here = here.f_back
        return here is not None

    def ended(self) -> PatchResult | None:
        self.join(HANGS_S)
        assert not self.is_alive()
        return self.result


def recovered(journal_dir: Path) -> list[patches.Recovery]:
    found: list[patches.Recovery] = []
    thread = threading.Thread(target=lambda: found.extend(patches.recover(journal_dir)), daemon=True)
    thread.start()
    thread.join(HANGS_S)
    assert not thread.is_alive()
    return found


def test_a_locked_root_does_not_hold_up_the_patches_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "ROOT_PATIENCE_S", HANGS_S)
    locked, free = plant(tmp_path / "locked", {}), plant(tmp_path / "free", {})
    with held(locked.path):
        waiting = Beside(locked, tmp_path / "journal")
        while not waiting.waits_for_root():
            assert waiting.is_alive()
        assert Beside(free, tmp_path / "journal").ended() is not None
        assert waiting.is_alive()
        assert grown(locked.path) == {}
    done = waiting.ended()
    assert done is not None
    assert done.diagnostics == []
    assert grown(locked.path) == {"new": b"x\n"}


def test_a_root_that_stays_locked_is_patched_all_the_same_and_the_result_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "ROOT_PATIENCE_S", 0.05)
    root = plant(tmp_path / "root", {})
    with held(root.path):
        done = Beside(root, tmp_path / "journal").ended()
    assert done is not None
    assert done.diagnostics == [
        Diagnostic(
            path=".",
            kind="root_locked",
            message="somebody has locked the folder (flock): the patch waited 2 s and was applied all the same; "
            "a command that locks should lock a file",
        )
    ]
    assert grown(root.path) == {"new": b"x\n"}


def test_a_locked_root_does_not_keep_a_crashed_patch_from_being_settled(tmp_path, monkeypatch):
    monkeypatch.setattr(recovery, "PATIENCE_S", 0.05)
    root, journal_dir = killed(tmp_path, "rename", AFTER_ONE_SWAP)
    with held(root):
        (settled,) = recovered(journal_dir)
    assert settled.outcome is RecoveryOutcome.COMPLETED
    assert grown(root) == NEW


def test_a_journal_that_stays_locked_refuses_the_patch_for_now_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "JOURNAL_PATIENCE_S", 0.05)
    root = plant(tmp_path / "root", OLD)
    patched(ADD, root, tmp_path / "journal")
    with held(tmp_path / "journal" / "lock"), pytest.raises(patches.JournalBusy) as caught:
        patched(ADD.replace("new", "other"), root, tmp_path / "journal")
    assert (caught.value.code, caught.value.hint) == ("patch_busy", "send the same patch again")
    assert grown(root.path) == OLD | {"new": b"x\n"}
    patched(ADD.replace("new", "other"), root, tmp_path / "journal")


def test_a_journal_that_is_locked_at_the_start_is_settled_at_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(recovery, "PATIENCE_S", 0.05)
    root, journal_dir = killed(tmp_path, "rename", AFTER_ONE_SWAP)
    before = grown(root)
    with held(journal_dir / "lock"):
        (stuck,) = recovered(journal_dir)
    assert stuck.outcome is RecoveryOutcome.STUCK
    assert grown(root) == before
    (settled,) = recovered(journal_dir)
    assert settled.outcome is RecoveryOutcome.COMPLETED
    assert grown(root) == NEW


def test_the_lock_of_a_journal_cannot_be_opened_by_others(tmp_path):
    patched(ADD, plant(tmp_path / "root", {}), tmp_path / "journal")
    assert stat.S_IMODE((tmp_path / "journal" / "lock").stat().st_mode) == 0o600
