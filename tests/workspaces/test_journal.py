"""All files or none: whatever kills the process, whatever the disk refuses, whoever writes in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holon.workspaces import patches
from holon.workspaces.patches import RecoveryOutcome
from holon.workspaces.roots import ExecutionRoot
from tests.workspaces.crashing import NEW, OLD, PLANS, TEXT
from tests.workspaces.trees import grown, patched, plant

REPOSITORY = Path(__file__).parents[2]


def in_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY / "src"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "links"),
    [
        *[(plan, "links") for plan in PLANS],
        ("kill", "no links"),
        ("kill, then fail", "no links"),
        ("fail, then kill", "no links"),
    ],
)
def test_a_fault_at_any_call_to_the_system_leaves_all_files_old_or_all_new(tmp_path, plan, links):
    """The process is killed, a call fails, or all do from then on; so does the recovery. With hard links or without."""
    ran = in_python("-m", "tests.workspaces.crashing", str(tmp_path), plan, links)
    assert ran.stderr == ""
    report = json.loads(ran.stdout)
    assert report["wrong"] == []
    assert report["calls"] > 70
    assert report["outcomes"]["old"] > 20
    assert report["outcomes"]["new"] > 20


STOP = """
import os, signal, sys
from pathlib import Path
from holon.workspaces import patches
from holon.workspaces.roots import ExecutionRoot
from tests.workspaces.crashing import TEXT

name, number = sys.argv[3], int(sys.argv[4])
call = getattr(os, name)
calls = iter(range(1, 10_000))

def stopping(*arguments, **named):
    if next(calls) == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(*arguments, **named)

plan = patches.check(patches.parse(TEXT), ExecutionRoot(sys.argv[1]))
setattr(os, name, stopping)
patches.apply(plan, Path(sys.argv[2]))
"""


def killed(tmp_path: Path, call: str, number: int) -> tuple[Path, Path]:
    """A patch that died ahead of its n-th call of this kind."""
    root, journal = tmp_path / "root", tmp_path / "journal"
    plant(root, OLD)
    ran = in_python("-c", STOP, str(root), str(journal), call, str(number))
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    return root, journal


#: Renames, in order: the journal into `.staging` and `.committing`, then one for each changed file.
FIRST_SWAP, AFTER_ONE_SWAP = 3, 4


def test_before_the_commit_a_patch_is_taken_back(tmp_path):
    root, journal = killed(tmp_path, "rename", 2)
    assert grown(root) != OLD  # what was staged lies beside the files
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.ROLLED_BACK
    assert settled.root == str(root)
    assert sorted(settled.paths) == sorted(OLD.keys() | NEW.keys())
    assert grown(root) == OLD
    assert patches.recover(journal) == []


def test_after_the_commit_a_patch_is_completed(tmp_path):
    root, journal = killed(tmp_path, "rename", AFTER_ONE_SWAP)
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.COMPLETED
    assert grown(root) == NEW


def test_a_file_that_others_changed_after_the_crash_is_not_overwritten_and_the_patch_is_taken_back(tmp_path):
    root, journal = killed(tmp_path, "rename", AFTER_ONE_SWAP)
    (root / "left.txt").write_bytes(b"edited by hand\n")
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.ROLLED_BACK
    assert grown(root) == OLD | {"left.txt": b"edited by hand\n"}


def test_a_changed_file_that_others_changed_again_is_left_with_its_old_content_beside_it(tmp_path):
    root, journal = killed(tmp_path, "rename", AFTER_ONE_SWAP)
    done = next(name for name in NEW if (root / name).exists() and (root / name).read_bytes() != OLD.get(name))
    (root / done).write_bytes(b"edited on top\n")
    (root / "right.txt").write_bytes(b"edited by hand\n")
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.CONFLICT
    assert settled.paths == [done]
    tree = grown(root)
    (backup,) = [name for name in tree if name.endswith(".old")]
    assert tree.pop(backup) == OLD[done]
    assert tree == OLD | {done: b"edited on top\n", "right.txt": b"edited by hand\n"}
    assert [path.suffix for path in journal.iterdir() if path.name != "lock"] == [".conflict"]
    assert patches.recover(journal) == []


def test_a_root_that_is_gone_is_told_and_its_journal_kept(tmp_path):
    root, journal = killed(tmp_path, "rename", FIRST_SWAP)
    root.rename(tmp_path / "away")
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.ROOT_GONE
    assert [path.suffix for path in journal.iterdir() if path.name != "lock"] == [".orphan"]


def test_a_folder_that_only_has_the_name_of_the_root_is_not_touched(tmp_path):
    """Somebody cloned the project again after the crash: what the patch wanted to delete is a new file there."""
    for name, tree in (("old", OLD), ("new", NEW | {"deleted.txt": b"gone\n"})):
        root, journal = killed(tmp_path / name, "rename", AFTER_ONE_SWAP)
        plant(root, tree)
        (settled,) = patches.recover(journal)
        assert settled.outcome is RecoveryOutcome.ROLLED_BACK
        assert grown(root) == tree


def test_a_file_that_was_made_again_after_its_removal_is_not_removed_again(tmp_path):
    """Killed while it clears up: of `deleted.txt` nothing is left to clear, of `moved.txt` there still is."""
    root, journal = killed(tmp_path, "unlink", 24)
    assert [content for name, content in grown(root).items() if name.endswith(".old")] == [OLD["moved.txt"]]
    (root / "deleted.txt").write_bytes(OLD["deleted.txt"])
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.COMPLETED
    assert grown(root) == NEW | {"deleted.txt": OLD["deleted.txt"]}


def test_a_journal_that_cannot_be_read_is_kept_aside(tmp_path):
    root, journal = killed(tmp_path, "rename", FIRST_SWAP)
    (path,) = [it for it in journal.iterdir() if it.name != "lock"]
    path.write_text("{")
    before = grown(root)
    (settled,) = patches.recover(journal)
    assert settled.outcome is RecoveryOutcome.STUCK
    assert grown(root) == before
    assert path.with_suffix(".unreadable").exists()


def test_nothing_to_recover_is_nothing(tmp_path):
    assert patches.recover(tmp_path / "not-there") == []
    assert not (tmp_path / "not-there").exists()


FULL = """
import resource, sys
from pathlib import Path
from holon.workspaces import patches
from holon.workspaces.roots import ExecutionRoot

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
lines = "".join(f"+line {n}\\n" for n in range(5_000))
text = f"*** Begin Patch\\n*** Update File: a.txt\\n-a\\n+b\\n*** Add File: new/big.txt\\n{lines}*** End Patch\\n"
try:
    patches.apply(patches.check(patches.parse(text), ExecutionRoot(sys.argv[1])), Path(sys.argv[2]))
except patches.PatchFailed as error:
    print(error.code, "|", error)
"""


def test_a_file_that_the_disk_does_not_take_leaves_everything_as_it_was(tmp_path):
    plant(tmp_path / "root", {"a.txt": b"a\n"})
    ran = in_python("-c", FULL, str(tmp_path / "root"), str(tmp_path / "journal"))
    assert ran.stderr == ""
    assert ran.stdout == (
        "patch_failed | the files could not be written: File too large; nothing was changed: "
        "make room or correct the permissions, then send the patch again\n"
    )
    assert grown(tmp_path) == {"root/a.txt": b"a\n", "journal/lock": b""}
    assert not (tmp_path / "root" / "new").exists()


SWAP = """
import os, sys
from pathlib import Path
from holon.core.errors import AgentError
from holon.workspaces import patches
from holon.workspaces.roots import ExecutionRoot
from tests.workspaces.crashing import CALLS, NEW, OLD, TEXT
from tests.workspaces.trees import grown, plant

folder = Path(sys.argv[1])
os.fsync = lambda _: None
saved = {name: getattr(os, name) for name in CALLS}
swapped = 0
for number in range(1, 1_000):
    plant(folder / "outside", {"modified.txt": OLD["folder/modified.txt"]})
    root = plant(folder / "root", OLD)
    before = grown(folder / "outside")
    calls = iter(range(1, 10_000))
    happened = False

    def swapping(call):
        def instead(*arguments, **named):
            global happened
            if next(calls) == number:
                happened = True
                saved["rename"](root.path / "folder", root.path / "away")
                os.symlink(folder / "outside", root.path / "folder")
            return call(*arguments, **named)
        return instead

    for name in CALLS:
        setattr(os, name, swapping(saved[name]))
    try:
        patches.apply(patches.check(patches.parse(TEXT), root), folder / f"journal-{number}")
    except AgentError:
        pass
    for name, call in saved.items():
        setattr(os, name, call)
    patches.recover(folder / f"journal-{number}")
    assert grown(folder / "outside") == before, number
    if not happened:
        break
    swapped += 1
print(swapped)
"""


def test_a_link_that_is_swapped_in_at_any_moment_leads_no_write_outside(tmp_path):
    ran = in_python("-c", SWAP, str(tmp_path))
    assert ran.stderr == ""
    assert int(ran.stdout) > 200


def test_an_interrupted_patch_waits_for_recovery_and_does_not_hinder_the_next(tmp_path):
    root, journal = killed(tmp_path, "rename", FIRST_SWAP)
    patched("*** Begin Patch\n*** Add File: other.txt\n+x\n*** End Patch\n", ExecutionRoot(root), journal)
    patches.recover(journal)
    assert grown(root) == NEW | {"other.txt": b"x\n"} or grown(root) == OLD | {"other.txt": b"x\n"}


def test_the_patch_of_the_campaign_turns_old_into_new(tmp_path):
    root = plant(tmp_path / "root", OLD)
    patched(TEXT, root, tmp_path / "journal")
    assert grown(root.path) == NEW
