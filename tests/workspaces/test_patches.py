"""A patch changes all of its files or none, exactly as it says, and says what stands in its way."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holon.core.codec import dumps, to_plain
from holon.core.errors import AgentError
from holon.workspaces import drafts, patches
from holon.workspaces.patches import ChangedFile, Diagnostic, IgnoredMetadata, PatchAction, PatchResult
from holon.workspaces.roots import ExecutionRoot, RootViolation
from tests.workspaces.repositories import Git, changes
from tests.workspaces.trees import Tree, grown, patched, plant


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def freeform(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def refused(text: str, root: ExecutionRoot, journal: Path) -> list[tuple[str, str]]:
    """The problems of a patch, after seeing that it changes nothing."""
    before = grown(root.path)
    with pytest.raises(patches.PatchRejected) as caught:
        patched(text, root, journal)
    assert grown(root.path) == before
    assert "nothing was changed" in caught.value.message
    assert caught.value.hint
    for problem in caught.value.problems:
        assert f"- {problem.path}: {problem.message}" in caught.value.message
    return [(problem.path, problem.kind) for problem in caught.value.problems]


def test_the_result_says_what_happened_to_each_file(tmp_path, journal):
    root = plant(
        tmp_path / "root", {"a.txt": b"one\ntwo\n", "old.txt": b"x\n", "from.txt": b"1\n2\n3\n", "d/run.sh": b"echo\n"}
    )
    result = patched(
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -7,2 +7,2 @@\n one\n-two\n+zwei\n"
        "diff --git a/new/n.txt b/new/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1 @@\n+n\n"
        "diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/from.txt b/d/to.txt\nsimilarity index 60%\nrename from from.txt\nrename to d/to.txt\n"
        "--- a/from.txt\n+++ b/d/to.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+zwei\n 3\n"
        "diff --git a/d/run.sh b/d/run.sh\nold mode 100644\nnew mode 100755\n",
        root,
        journal,
    )
    assert result == PatchResult(
        changed_files=[
            ChangedFile(action=PatchAction.MODIFY, path="a.txt"),
            ChangedFile(action=PatchAction.ADD, path="new/n.txt"),
            ChangedFile(action=PatchAction.DELETE, path="old.txt"),
            ChangedFile(action=PatchAction.MOVE, path="d/to.txt", from_path="from.txt"),
        ],
        changed_paths=["a.txt", "d/to.txt", "from.txt", "new/n.txt", "old.txt"],
        changed_file_count=4,
        ignored_metadata=[
            IgnoredMetadata(path="d/to.txt", kind="similarity_index", value="60%"),
            IgnoredMetadata(path="d/run.sh", kind="old_mode", value="100644"),
            IgnoredMetadata(path="d/run.sh", kind="new_mode", value="100755"),
        ],
        diagnostics=[
            Diagnostic(
                path="a.txt",
                kind="hunk_moved",
                message="hunk 1 (patch line 4) says line 7; its lines are only at line 1, 6 lines further up, "
                "and it was applied there",
            ),
            Diagnostic(
                path="d/run.sh",
                kind="unchanged",
                message="stays as it is: the patch changes nothing in it that can be changed",
            ),
        ],
        summary_text="4 files changed: modified a.txt, added new/n.txt, deleted old.txt, moved from.txt to d/to.txt",
    )
    assert grown(root.path) == {
        "a.txt": b"one\nzwei\n",
        "new/n.txt": b"n\n",
        "d/to.txt": b"1\nzwei\n3\n",
        "d/run.sh": b"echo\n",
    }
    assert to_plain(result)["changed_files"][3] == {"action": "move", "path": "d/to.txt", "from_path": "from.txt"}
    assert set(to_plain(result)) == {
        "changed_files",
        "changed_paths",
        "changed_file_count",
        "ignored_metadata",
        "diagnostics",
        "summary_text",
    }
    assert [path.name for path in journal.iterdir()] == ["lock"]


def test_a_check_changes_nothing(tmp_path):
    root = plant(tmp_path / "root", {"a": b"x\n"})
    plan = patches.check(patches.parse(freeform("*** Delete File: a", "*** Add File: d/b", "+y")), root)
    assert plan.ok
    assert plan.result.changed_paths == ["a", "d/b"]
    assert grown(tmp_path) == {"root/a": b"x\n"}


def test_all_problems_of_all_files_are_told_at_once(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"1\n2\n", "b": b"x\nx\n", "c": b"c\n", "bin": b"\0\n", "d/e": b""})
    (root.path / "link").symlink_to("a")
    text = freeform(
        "*** Update File: a",
        "@@",
        "-3",
        "+4",
        "@@",
        "-nine",
        "*** Update File: b",
        "-x",
        "+y",
        "*** Add File: c",
        "+other",
        "*** Update File: bin",
        "-x",
        "*** Delete File: d",
        "*** Update File: link",
        "-1",
        "*** Update File: missing",
        "-1",
        "*** Add File: a/below",
        "+1",
        "*** Add File: fine",
        "+1",
    )
    assert refused(text, root, journal) == [
        ("a", "context_not_found"),
        ("a", "context_not_found"),
        ("b", "ambiguous_context"),
        ("bin", "binary_file"),
        ("d", "not_a_file"),
        ("link", "link"),
        ("missing", "missing_file"),
        ("a/below", "not_a_folder"),
        ("c", "file_exists"),
    ]


def test_a_path_out_of_the_root_is_told_before_all_else_and_beside_it(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"1\n"})
    with pytest.raises(RootViolation) as caught:
        patched(freeform("*** Update File: a", "-2", "*** Add File: ../b", "+x"), root, journal)
    error = caught.value
    assert error.details == {
        "field": "patch",
        "given": "../b",
        "root": str(root.path),
        "problems": [
            {"path": "a", "kind": "context_not_found"},
            {"path": "../b", "kind": "execution_root_violation"},
        ],
    }
    assert "path '../b' is refused: it leads out of the root; nothing was changed" in error.message
    assert "- a: hunk 1" in error.message


AGAIN = {
    "modify": freeform("*** Update File: a", "@@", " one", "-two", "+zwei"),
    "modify with numbers": "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n@@ -5 +5,2 @@\n five\n+six\n",
    "deletion of lines": "--- a/a\n+++ b/a\n@@ -1,3 +1,2 @@\n one\n-two\n three\n",
    "add": freeform("*** Add File: n", "+x"),
    "delete": freeform("*** Delete File: a"),
    "move": freeform("*** Update File: a", "*** Move to: b"),
    "move and edit": freeform("*** Update File: a", "*** Move to: b", "@@", "-two", "+zwei"),
    "all": freeform("*** Add File: n", "+x", "*** Delete File: a", "*** Update File: c", "@@", "-cee", "+sea"),
}


@pytest.mark.parametrize("text", AGAIN.values(), ids=AGAIN)
def test_a_patch_that_is_applied_twice_says_that_it_is_applied_already(tmp_path, journal, text):
    root = plant(tmp_path / "root", {"a": b"one\ntwo\nthree\nfour\nfive\n", "c": b"cee\n"})
    patched(text, root, journal)
    after = grown(root.path)
    with pytest.raises(patches.PatchAlreadyApplied) as caught:
        patched(text, root, journal)
    assert caught.value.code == "patch_already_applied"
    assert {problem.kind for problem in caught.value.problems} == {"already_applied"}
    assert grown(root.path) == after


def test_a_patch_that_is_half_applied_is_refused_and_says_which_half(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"one\nzwei\n", "b": b"one\ntwo\n"})
    section = "--- a/{0}\n+++ b/{0}\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"
    assert refused(section.format("a") + section.format("b"), root, journal) == [("a", "already_applied")]


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ({"a": b"1\n"}, ["*** Delete File: a", "*** Add File: a", "+2"], {"a": b"2\n"}),
        ({"a": b"1\n2\n"}, ["*** Update File: a", "-1", "+x", "*** Update File: a", "-2", "+y"], {"a": b"x\ny\n"}),
        ({"a": b"1\n"}, ["*** Update File: a", "*** Move to: b", "*** Update File: b", "-1", "+2"], {"b": b"2\n"}),
        ({"a": b"1\n"}, ["*** Update File: a", "*** Move to: b", "*** Add File: a", "+2"], {"a": b"2\n", "b": b"1\n"}),
        (
            {"a": b"1\n", "b": b"2\n"},
            ["*** Update File: a", "*** Move to: b", "*** Update File: b", "*** Move to: a"],
            {"a": b"2\n", "b": b"1\n"},
        ),
        (
            {"a": b"1\n", "b": b"2\n"},
            ["*** Update File: a", "*** Move to: b", "*** Update File: b", "*** Move to: c"],
            {"b": b"1\n", "c": b"2\n"},
        ),
        ({"a": b"1\n", "b": b"2\n"}, ["*** Update File: a", "*** Move to: b", "*** Delete File: b"], {"b": b"1\n"}),
        ({}, ["*** Add File: a", "+1", "*** Update File: a", "-1", "+2"], {"a": b"2\n"}),
        ({}, ["*** Add File: a", "+1", "*** Delete File: a"], {}),
        ({"a": b"1\n"}, ["*** Update File: a", "*** Move to: ./x/../a", "-1", "+2"], {"a": b"2\n"}),
    ],
)
def test_sections_build_on_each_other(tmp_path, journal, before, lines, after):
    if "./x/../a" in lines[1]:
        before = before | {"x/y": b""}
        after = after | {"x/y": b""}
    root = plant(tmp_path / "root", before)
    patched(freeform(*lines), root, journal)
    assert grown(root.path) == after


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        (["*** Add File: n", "+1", "*** Add File: n", "+2"], [("n", "file_exists")]),
        (["*** Update File: a", "*** Move to: b"], [("b", "file_exists")]),
        (["*** Add File: n", "+1", "*** Add File: n/m", "+2"], [("n/m", "not_a_folder")]),
        (["*** Delete File: a", "*** Update File: a", "-1"], [("a", "missing_file")]),
        (["*** Update File: a", "-nope", "*** Update File: a", "-1", "+2"], [("a", "context_not_found")]),
    ],
)
def test_sections_that_contradict_each_other_are_refused(tmp_path, journal, lines, problems):
    root = plant(tmp_path / "root", {"a": b"1\n", "b": b"2\n"})
    assert refused(freeform(*lines), root, journal) == problems


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n y\n", "not_only_additions"),
        ("--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", "lines_left"),
        ("diff --git a/a b/a\ndeleted file mode 100644\n", "lines_left"),
        ("diff --git a/a b/a\nBinary files a/a and b/a differ\n", "binary_patch"),
        ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "special_mode"),
        ("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\0y\n", "binary_content"),
        ("--- a/utf16\n+++ b/utf16\n@@ -1 +1 @@\n-h\n+i\n", "binary_file"),
        ("--- a/.\n+++ b/.\n@@ -1 +1 @@\n-h\n+i\n", "not_a_file"),
    ],
)
def test_what_a_patch_cannot_do_is_refused_with_its_kind(tmp_path, journal, text, kind):
    root = plant(tmp_path / "root", {"a": b"1\n2\n", "utf16": "hi\n".encode("utf-16")})
    assert [it for _, it in refused(text, root, journal)] == [kind]


def test_files_that_are_too_large_are_refused(tmp_path, journal, monkeypatch):
    monkeypatch.setattr(drafts, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(drafts, "MAX_TOTAL_BYTES", 150)
    monkeypatch.setattr(drafts, "MAX_LINES", 30)
    root = plant(
        tmp_path / "root", {"big": b"x" * 101, "a": b"1\n" + b"x" * 90, "b": b"1\n" + b"x" * 90, "long": b"\n" * 31}
    )
    assert refused(freeform("*** Update File: big", "-1"), root, journal) == [("big", "too_large")]
    assert refused(freeform("*** Update File: a", "-1", "+" + "y" * 20), root, journal) == [("a", "too_large")]
    assert refused(freeform("*** Add File: n", "+" + "y" * 200), root, journal) == [("n", "too_large")]
    assert refused(freeform("*** Update File: long", "-1"), root, journal) == [("long", "too_large")]
    assert refused(freeform("*** Update File: a", "-1", "*** Update File: b", "-1"), root, journal) == [
        ("b", "too_large")
    ]


def test_patches_that_are_too_large_are_refused():
    for text in (
        "+" * (patches.MAX_PATCH_CHARS + 1),
        freeform(*[f"*** Delete File: {n}" for n in range(patches.MAX_FILES + 1)]),
        freeform("*** Update File: a", *["@@\n-x"] * (patches.MAX_HUNKS + 1)),
    ):
        with pytest.raises(patches.InvalidPatch) as caught:
            patches.parse(text)
        assert caught.value.hint == "send it in parts"


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("src/ap.py", "perhaps src/app.py is meant"),
        ("{root}/src/app.py", "an absolute path is written without 'a/': perhaps src/app.py is meant"),
        ("lib/app.py", "nor is its folder lib"),
    ],
)
def test_a_missing_file_is_told_with_what_may_be_meant(tmp_path, path, suggestion):
    root = plant(tmp_path / "root", {"src/app.py": b"x\n"})
    given = path.replace("{root}", str(root.path).lstrip("/"))
    plan = patches.check(patches.parse(f"--- a/{given}\n+++ b/{given}\n@@ -1 +1 @@\n-x\n+y\n"), root)
    assert [problem.kind for problem in plan.problems] == ["missing_file"]
    assert suggestion in plan.problems[0].message


def test_an_absolute_path_in_the_root_and_a_folder_link_in_it_are_followed(tmp_path, journal):
    root = plant(tmp_path / "root", {"d/a": b"x\n"})
    (root.path / "link").symlink_to("d")
    for path in (f"{root.path}/d/a", "link/a"):
        result = patched(freeform(f"*** Update File: {path}", "-x", "+y"), root, journal)
        assert result.changed_paths == ["d/a"]
        (root.path / "d/a").write_bytes(b"x\n")


def test_a_modification_that_only_adds_makes_a_file_that_is_not_there(tmp_path, journal):
    root = plant(tmp_path / "root", {})
    result = patched("--- a/n\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n", root, journal)
    assert grown(root.path) == {"n": b"x\ny\n"}
    assert [note.kind for note in result.diagnostics] == ["taken_as_add"]
    assert result.changed_files == [ChangedFile(action=PatchAction.ADD, path="n")]


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444, 0o640, 0o4755])
def test_the_mode_of_a_file_is_kept(tmp_path, journal, mode):
    root = plant(tmp_path / "root", {"a": b"x\n", "b": b"x\n"})
    for name in ("a", "b"):
        (root.path / name).chmod(mode)
    patched(freeform("*** Update File: a", "-x", "+y", "*** Update File: b", "*** Move to: c"), root, journal)
    assert [stat.S_IMODE((root.path / name).stat().st_mode) for name in ("a", "c")] == [mode, mode]


def test_a_new_file_has_the_mode_that_new_files_have(tmp_path, journal):
    root = plant(tmp_path / "root", {})
    (tmp_path / "reference").touch()
    patched(freeform("*** Add File: d/a", "+x"), root, journal)
    assert (root.path / "d/a").stat().st_mode == (tmp_path / "reference").stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_of_a_file_is_kept(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"x\n"})
    os.chown(root.path / "a", 1234, 5678)
    patched(freeform("*** Update File: a", "-x", "+y"), root, journal)
    found = (root.path / "a").stat()
    assert (found.st_uid, found.st_gid) == (1234, 5678)


def test_a_hard_link_keeps_the_old_text_and_that_is_told(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"x\n"})
    os.link(root.path / "a", tmp_path / "outside")
    result = patched(freeform("*** Update File: a", "-x", "+y"), root, journal)
    assert (tmp_path / "outside").read_bytes() == b"x\n"
    assert [note.kind for note in result.diagnostics] == ["hard_link_parted"]


def test_a_byte_order_mark_is_kept_whether_the_patch_shows_it_or_not(tmp_path, journal):
    for shown in ("", "\ufeff"):
        root = plant(tmp_path / "root", {"a": "\ufeffone\r\ntwo\r\n".encode()})
        patched(f"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-{shown}one\n+{shown}eins\n two\n", root, journal)
        assert (root.path / "a").read_bytes() == "\ufeffeins\r\ntwo\r\n".encode()


def test_a_missing_final_newline_stays_missing_and_that_is_told(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"one\ntwo"})
    result = patched("--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n", root, journal)
    assert (root.path / "a").read_bytes() == b"one\nzwei"
    assert [note.kind for note in result.diagnostics] == ["final_newline_kept"]


def test_what_the_way_of_a_patch_added_to_it_is_taken_off_and_told(tmp_path, journal):
    diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"
    for text, kinds in (
        (diff.replace("\n", "\r\n"), ["line_ends"]),
        (f"```diff\n{diff}```\n", ["code_fence"]),
        (f"\n```\n{freeform('*** Update File: a', '-x', '+y')}```".replace("\n", "\r\n"), ["line_ends", "code_fence"]),
    ):
        root = plant(tmp_path / "root", {"a": b"x\n"})
        result = patched(text, root, journal)
        assert grown(root.path) == {"a": b"y\n"}
        assert [it.kind for it in result.ignored_metadata] == kinds


def test_empty_text_and_broken_unicode_are_no_patches():
    for text in ("", "\n \n", "```\n```\n", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+\ud800\n"):
        with pytest.raises(patches.InvalidPatch) as caught:
            patches.parse(text)
        assert caught.value.code == "invalid_patch_syntax"
        assert caught.value.hint


def test_a_file_that_changed_after_the_check_is_not_overwritten(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"x\n", "b": b"x\n"})
    text = freeform("*** Update File: a", "-x", "+y", "*** Delete File: b", "*** Add File: c", "+c")
    for name, content in (("a", b"edited\n"), ("b", b"edited\n"), ("c", b"edited\n")):
        root = plant(tmp_path / "root", {"a": b"x\n", "b": b"x\n"})
        plan = patches.check(patches.parse(text), root)
        (root.path / name).write_bytes(content)
        before = grown(root.path)
        with pytest.raises(patches.TargetChanged) as caught:
            patches.apply(plan, journal)
        assert caught.value.details == {"field": "patch", "paths": [name]}
        assert grown(root.path) == before


def test_a_plan_with_problems_is_not_applied(tmp_path, journal):
    root = plant(tmp_path / "root", {})
    plan = patches.check(patches.parse(freeform("*** Delete File: a", "*** Add File: b", "+x")), root)
    assert not plan.ok
    assert plan.changes == ()
    with pytest.raises(patches.PatchRejected):
        patches.apply(plan, journal)
    assert not journal.exists()


@pytest.mark.parametrize("journals", ["one", "one each"])
def test_patches_at_the_same_time_lose_nothing(tmp_path, journals):
    """Each thread adds its own lines to one file, again and again, and tries once more when another was faster."""
    root = plant(tmp_path / "root", {"log": b"top\nend\n"})

    def write(name: str) -> None:
        journal = tmp_path / ("journal" if journals == "one" else f"journal-{name}")
        for number in range(5):
            while True:
                last = (root.path / "log").read_bytes().decode().split("\n")[-3]
                try:
                    patched(
                        freeform("*** Update File: log", "@@", f" {last}", f"+{name}{number}", " end"), root, journal
                    )
                    break
                except (patches.TargetChanged, patches.PatchRejected):
                    continue

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (root.path / "log").read_bytes().decode().split()
    assert lines[0] == "top"
    assert lines[-1] == "end"
    assert sorted(lines[1:-1]) == sorted(f"{name}{number}" for name in "abcd" for number in range(5))


def test_the_words_of_an_error_are_bounded(tmp_path, journal):
    root = plant(tmp_path / "root", {"a": b"x\n"})
    with pytest.raises(patches.PatchRejected) as caught:
        patched(freeform(*[f"*** Update File: {'m' * 100}{n}\n-x" for n in range(150)]), root, journal)
    assert len(caught.value.message) < patches.MAX_WORDS + 500
    assert re.search(r"- and \d+ more$", caught.value.message)
    assert len(caught.value.problems) == 150


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("git"))


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grounds")


@st.composite
def corrupted(draw: st.DrawFn, text: str) -> str:
    """The text with a few lines or characters lost, doubled, swapped or changed, or cut off."""
    for _ in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "cut", "character", "prefix", "number"])):
            case "drop":
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                lines[at:] = [lines[at][: draw(st.integers(0, 5))]]
            case "character":
                middle = len(lines[at]) // 2
                lines[at] = (
                    lines[at][:middle] + draw(st.sampled_from(["x", "\0", "\r", "é", ""])) + lines[at][middle + 1 :]
                )
            case "prefix":
                lines[at] = draw(st.sampled_from(["+", "-", " ", "\\", "@@ ", ""])) + lines[at][1:]
            case _:
                lines[at] = re.sub(r"\d+", draw(st.sampled_from(["0", "1", "7", "99"])), lines[at])
        text = "\n".join(lines) or "\n"
    return text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees=changes(), data=st.data())
def test_a_corrupted_patch_does_what_its_plan_says_or_nothing(git: Git, grounds: Path, trees: tuple[Tree, Tree], data):
    old, new = trees
    text = data.draw(corrupted(git.diff(old, new, "-M")))
    root = plant(grounds / "root", old)
    plan, error = attempted(text, root, grounds / "journal")
    if plan is None:
        assert grown(root.path) == old
        assert error is not None
        assert error.hint
        assert dumps(error.details)
    else:
        after = {str(change.path): change.content for change in plan.changes}
        expected = {name: content for name, content in (old | after).items() if content is not None}
        assert grown(root.path) == expected
        changed = {path for path in old.keys() | expected.keys() if old.get(path) != expected.get(path)}
        assert changed <= set(plan.result.changed_paths)
    assert not (grounds / "journal").exists() or [it.name for it in (grounds / "journal").iterdir()] == ["lock"]


def attempted(text: str, root: ExecutionRoot, journal: Path) -> tuple[patches.Plan | None, AgentError | None]:
    try:
        plan = patches.check(patches.parse(text), root)
        patches.apply(plan, journal)
    except AgentError as error:
        return None, error
    return plan, None
