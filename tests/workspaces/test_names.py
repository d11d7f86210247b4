"""Names that are no text: on disk a name is bytes. What is said of such files can always be sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holon.core.codec import dumps, to_plain
from holon.core.errors import HolonError
from holon.workspaces import patches
from holon.workspaces.commits import TargetChanged
from holon.workspaces.names import printable
from holon.workspaces.roots import ExecutionRoot, RootViolation
from tests.workspaces.trees import patched, plant

ODD = b"d\xe9"


def sent(error: HolonError) -> str:
    """As a model is told: nothing in it that could not be sent."""
    return dumps({"message": error.message, "hint": error.hint, "details": error.details})


@pytest.fixture
def root(tmp_path: Path) -> ExecutionRoot:
    """A folder that no text can name, and a link by which a patch comes into it."""
    root = plant(tmp_path / "root", {})
    odd = os.fsencode(root.path) + b"/" + ODD
    os.mkdir(odd)
    os.symlink(ODD, os.fsencode(root.path) + b"/link")
    Path(os.fsdecode(odd), "a.txt").write_text("one\ntwo\n")
    return root


def test_bytes_that_are_no_text_are_shown_by_their_numbers():
    assert printable(os.fsdecode(b"caf\xe9.txt")) == "caf\\xe9.txt"
    assert printable("caf\ud800é\u2028") == "caf\\ud800é\u2028"


def test_a_file_of_such_a_name_beside_the_one_that_is_missing_is_named(tmp_path):
    root = plant(tmp_path / "root", {})
    Path(os.fsdecode(os.fsencode(root.path) + b"/caf\xe9.txt")).write_text("old\n")
    with pytest.raises(patches.PatchRejected) as caught:
        patched("--- a/caf.txt\n+++ b/caf.txt\n@@ -1 +1 @@\n-old\n+new\n", root, tmp_path / "journal")
    assert (
        "perhaps caf\\\\xe9.txt is meant, a name that is not UTF-8: rename the file or change it, with a command"
        in sent(caught.value)
    )


def test_a_result_names_the_files_that_it_touched(root, tmp_path):
    text = (
        "--- a/link/a.txt\n+++ b/link/a.txt\n@@ -9,2 +9,2 @@\n one\n-two\n+zwei\n"
        "--- /dev/null\n+++ b/link/new.txt\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/link/a.txt b/b.txt\nrename from link/a.txt\nrename to b.txt\n"
    )
    result = patched(text, root, tmp_path / "journal")
    assert "\\\\xe9/new.txt" in dumps(to_plain(result))
    assert result.changed_paths == ["b.txt", "d\\xe9/a.txt", "d\\xe9/new.txt"]
    assert [(it.path, it.kind) for it in result.diagnostics] == [("d\\xe9/a.txt", "hunk_moved")]
    assert (root.path / "b.txt").read_text() == "one\nzwei\n"
    assert (root.path / "link" / "new.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    "text",
    [
        "--- a/link/a.txt\n+++ b/link/a.txt\n@@ -1 +1 @@\n-three\n+drei\n",
        "--- a/link/b.txt\n+++ b/link/b.txt\n@@ -1 +1 @@\n-three\n+drei\n",
        "--- a/link/in/b.txt\n+++ b/link/in/b.txt\n@@ -1 +1 @@\n-three\n+drei\n",
        "--- /dev/null\n+++ b/link/a.txt\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/link/a.txt/b\n@@ -0,0 +1 @@\n+x\n",
        "--- a/link/../../x\n+++ b/link/../../x\n@@ -1 +1 @@\n-three\n+drei\n",
        "--- /dev/null\n+++ b/link/n\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/link/n/b\n@@ -0,0 +1 @@\n+x\n",
    ],
)
def test_a_refusal_names_them_too(root, tmp_path, text):
    with pytest.raises(HolonError) as caught:
        patched(text, root, tmp_path / "journal")
    assert sent(caught.value)


def test_an_error_at_the_last_moment_names_them_too(root, tmp_path):
    plan = patches.check(
        patches.parse("--- a/link/a.txt\n+++ b/link/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"), root
    )
    (root.path / "link" / "a.txt").write_text("changed\n")
    with pytest.raises(TargetChanged) as caught:
        patches.apply(plan, tmp_path / "journal")
    assert caught.value.details["paths"] == ["d\\xe9/a.txt"]
    assert sent(caught.value)


@pytest.mark.parametrize("call", ["link", "rename"])
def test_what_the_disk_refuses_names_them_too(root, tmp_path, call, monkeypatch):
    plan = patches.check(
        patches.parse("--- a/link/a.txt\n+++ b/link/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"), root
    )
    works = getattr(os, call)

    def refuses(*given: object, **named: object) -> object:
        if named:  # in the root; the journal's own names are given whole
            raise OSError(28, "No space left on device", os.fsdecode(ODD))
        return works(*given)

    monkeypatch.setattr(os, call, refuses)
    with pytest.raises(patches.PatchFailed) as caught:
        patches.apply(plan, tmp_path / "journal")
    assert "No space left on device: d\\\\xe9" in sent(caught.value)


def test_a_root_of_such_a_name_is_told(tmp_path):
    odd = os.fsencode(tmp_path) + b"/" + ODD
    os.mkdir(odd)
    root = ExecutionRoot(os.fsdecode(odd))
    result = patched("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", root, tmp_path / "journal")
    assert result.changed_paths == ["n"]
    with pytest.raises(RootViolation) as caught:
        root.locate("../x")
    assert sent(caught.value)
    os.rename(odd, odd + b"2")
    with pytest.raises(RootViolation) as caught:
        root.locate("x")
    assert sent(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '--- "a/caf\\351.txt"\n+++ "b/caf\\351.txt"\n@@ -1 +1 @@\n-a\n+b\n',
        'diff --git "a/caf\\351.txt" "b/caf\\351.txt"\nold mode 100644\nnew mode 100755\n',
        'diff --git a/x "b/caf\\351.txt"\nrename from x\nrename to "caf\\351.txt"\n',
    ],
)
def test_a_patch_that_quotes_such_a_name_is_told_to_use_a_command(text):
    with pytest.raises(patches.InvalidPatch) as caught:
        patches.parse(text)
    assert "it is not UTF-8, and a patch names files in UTF-8 only" in caught.value.message
    assert caught.value.hint == "rename the file with a command first, or change it with a command"
    assert sent(caught.value)
