"""Unified diffs are read as git reads them, and as models write them."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holon.workspaces.hunks import (
    FilePatch,
    Hunk,
    HunkLine,
    IgnoredMetadata,
    InvalidPatch,
    Op,
    Patch,
    PatchAction,
)
from holon.workspaces.unified import GRAMMAR, parse_unified
from tests.workspaces.grammars import Grammar
from tests.workspaces.repositories import Git, changes
from tests.workspaces.trees import Tree, grown, patched, plant

PROPERTY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def hunk(*lines: str, at: int, start: tuple[int | None, int | None] = (None, None), **more: object) -> Hunk:
    made = tuple(HunkLine(Op(line[0]), line[1:]) for line in lines)
    return Hunk(made, at, old_start=start[0], new_start=start[1], **more)  # type: ignore[arg-type]


def test_a_plain_diff_names_one_file_and_its_hunks():
    patch = parse_unified(
        "--- a/src/x.py\t2024-01-01 00:00:00\n+++ b/src/x.py\t2024-01-02 00:00:00\n"
        "@@ -1,2 +1,2 @@ def f():\n one\n-two\n+zwei\n@@ -9 +9,2 @@\n nine\n+ten\n"
    )
    assert patch == Patch(
        (
            FilePatch(
                PatchAction.MODIFY,
                "src/x.py",
                1,
                hunks=(
                    hunk(" one", "-two", "+zwei", at=3, start=(1, 1)),
                    hunk(" nine", "+ten", at=7, start=(9, 9)),
                ),
                shows_all=True,
            ),
        )
    )


def test_extended_headers_make_adds_deletes_moves_copies_and_metadata():
    patch = parse_unified(
        "diff --git a/empty.txt b/empty.txt\nnew file mode 100755\nindex 0000000..e69de29\n"
        "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\nindex e69de29..0000000\n"
        "diff --git a/old name.txt b/new name.txt\nsimilarity index 88%\nrename from old name.txt\n"
        "rename to new name.txt\nindex 1..2 100644\n--- a/old name.txt\t\n+++ b/new name.txt\t\n@@ -1 +1 @@\n-x\n+y\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/from.txt b/to.txt\nsimilarity index 100%\ncopy from from.txt\ncopy to to.txt\n"
    )

    def ignored(path: str, **kinds: str) -> tuple[IgnoredMetadata, ...]:
        return tuple(IgnoredMetadata(path=path, kind=kind, value=value) for kind, value in kinds.items())

    assert patch.files == (
        FilePatch(
            PatchAction.ADD, "empty.txt", 1, shows_all=True, ignored=ignored("empty.txt", new_file_mode="100755")
        ),
        FilePatch(PatchAction.DELETE, "gone.txt", 4, shows_all=True),
        FilePatch(
            PatchAction.MOVE,
            "new name.txt",
            7,
            from_path="old name.txt",
            hunks=(hunk("-x", "+y", at=14, start=(1, 1)),),
            shows_all=True,
            ignored=ignored("new name.txt", similarity_index="88%"),
        ),
        FilePatch(
            PatchAction.MODIFY,
            "run.sh",
            17,
            shows_all=True,
            ignored=ignored("run.sh", old_mode="100644", new_mode="100755"),
        ),
        FilePatch(
            PatchAction.ADD,
            "to.txt",
            20,
            from_path="from.txt",
            shows_all=True,
            ignored=ignored("to.txt", similarity_index="100%"),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "action", "path"),
    [
        ("a/x", "b/x", PatchAction.MODIFY, "x"),
        ("x", "x", PatchAction.MODIFY, "x"),
        ("a/x", "a/x", PatchAction.MODIFY, "a/x"),
        ("b/x", "b/x", PatchAction.MODIFY, "b/x"),
        ("a/b/x", "b/b/x", PatchAction.MODIFY, "b/x"),
        ("i/x", "w/x", PatchAction.MODIFY, "x"),
        ("c/x", "i/x", PatchAction.MODIFY, "x"),
        ("a/x", "x", PatchAction.MODIFY, "x"),
        ("x", "b/x", PatchAction.MODIFY, "x"),
        ("a//abs/x", "b//abs/x", PatchAction.MODIFY, "/abs/x"),
        ("/abs/x", "/abs/x", PatchAction.MODIFY, "/abs/x"),
        ("/dev/null", "b/x", PatchAction.ADD, "x"),
        ("/dev/null", "x", PatchAction.ADD, "x"),
        ("a/x", "/dev/null", PatchAction.DELETE, "x"),
        ('"a/sp\\303\\244t\\t\\"q\\".txt"', '"b/sp\\303\\244t\\t\\"q\\".txt"', PatchAction.MODIFY, 'spät\t"q".txt'),
        ("a/with space.txt ", "b/with space.txt", PatchAction.MODIFY, "with space.txt"),
    ],
)
def test_names_lose_what_belongs_to_the_diff(old, new, action, path):
    (file,) = parse_unified(f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-x\n+y\n").files
    assert (file.action, file.path) == (action, path)


def test_names_of_a_diff_without_prefixes_are_kept_whole():
    patch = parse_unified("diff --git b/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n")
    assert patch.files[0].path == "b/x"


def test_a_missing_newline_belongs_to_the_line_before_it():
    (file,) = parse_unified(
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
    ).files
    assert file.hunks[0].lines == (HunkLine(Op.REMOVE, "x", False), HunkLine(Op.ADD, "y", False))


def test_lines_that_look_like_headers_are_lines_as_long_as_the_counts_say_so():
    (file,) = parse_unified("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n--- sql\n+++ c\n z\n@@ -9 +9 @@\n-p\n+q\n").files
    assert [line.text for line in file.hunks[0].lines] == ["a", "-- sql", "++ c", "z"]
    assert len(file.hunks) == 2


def test_blank_lines_in_a_hunk_are_empty_context_and_after_it_they_are_layout():
    first, second = parse_unified(
        "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n\n\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-b\n+c\n\n"
    ).files
    assert first.hunks == (hunk(" a", " ", "-b", "+c", at=3, start=(1, 1)),)
    assert second.hunks == (hunk("-b", "+c", at=12, start=(1, 1)),)


def test_a_hunk_may_go_without_numbers():
    (file,) = parse_unified("--- a/x\n+++ b/x\n@@\n-b\n+c\n@@ ... @@\n-d\n+e\n\n@@ def f(): @@\n-g\n+h\n\n").files
    assert file.hunks == (
        hunk("-b", "+c", at=3),
        hunk("-d", "+e", at=6),
        hunk("-g", "+h", at=10, anchors=("def f():",)),
    )


@pytest.mark.parametrize("counts", ["-1,9 +1,9", "-1,1 +1,1", "-1 +1", "-1,2 +1,3", "-1,3 +1,2"])
def test_counts_that_the_body_contradicts_are_corrected_and_told(counts):
    first, second = parse_unified(
        f"--- a/x\n+++ b/x\n@@ {counts} @@\n a\n-b\n+c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-b\n+c\n"
    ).files
    assert [line.text for line in first.hunks[0].lines] == ["a", "b", "c"]
    assert "its body has 2 and 2; the body was taken" in (first.hunks[0].note or "")
    assert second.hunks == (hunk("-b", "+c", at=9, start=(1, 1)),)


def test_what_mail_programs_put_around_a_diff_is_passed_over():
    text = (
        "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n x | 2 +-\n 1 file changed\n\n"
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-b\n+c\n-- \n2.39.5\n\n"
    )
    patch = parse_unified(text)
    assert patch.ignored == ()
    assert patch.files[0].hunks == (hunk("-b", "+c", at=10, start=(1, 1)),)


def test_text_between_files_is_passed_over_and_reported():
    section = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-b\n+c\n"
    patch = parse_unified(f"First:\n{section.format('x')}Now the second file:\n{section.format('y')}")
    assert [file.path for file in patch.files] == ["x", "y"]
    assert patch.ignored == (IgnoredMetadata(path="x", kind="text", value="Now the second file:"),)


def test_the_removal_of_a_dash_is_no_signature():
    (file,) = parse_unified("--- a/x\n+++ b/x\n@@\n a\n--\n+b\n+c\n").files
    assert file.hunks == (hunk(" a", "--", "+b", "+c", at=3),)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "no file section"),
        ("please change x\n", 1, "no file section"),
        ("@@ -1 +1 @@\n-a\n+b\n", 1, "a hunk without a file"),
        ("--- a/x\n+++ b/x\n", 1, "without hunks"),
        ("--- a/x\n+++ b/x\nnothing\n", 1, "without hunks"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", 1, "differ"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", 1, "both names are /dev/null"),
        ("--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n a\n-b\n+c\n", 3, "is cut off"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nb\n+c\n", 5, "begins with 'b'"),
        ("--- a/x\n+++ b/x\n@@\n a\nb\n+c\n", 5, "begins with 'b'"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\n+c\n", 7, "is in no hunk"),
        ("--- a/x\n+++ b/x\n@@\n--- a/y\n+++ b/y\n@@\n-a\n+b\n", 3, "has no lines"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n", 4, "no line comes before it"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +0,0 @@\n-a\n\\ No newline at end of file\n-b\n", 3, "in the middle"),
        ('--- "a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', 1, "cannot be read"),
        ('--- "a/\\777"\n+++ "b/\\777"\n@@ -1 +1 @@\n-a\n+b\n', 1, "cannot be read"),
        ('--- "a/\\377"\n+++ "b/\\377"\n@@ -1 +1 @@\n-a\n+b\n', 1, "cannot be read"),
        ("--- \t\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", 1, "a name is missing"),
        ("diff --git a/x b/y\nrename from x\n", 1, "without 'rename to'"),
        (
            "diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
            1,
            "name other files",
        ),
        ("diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", 1, "not clear"),
        ("diff --git a/x b/x\nindex 1..2\n", 1, "changes nothing"),
        ("diff --cc x\n@@@ -1,2 -1,2 +1,2 @@@\n--a\n++b\n", 2, "combined diff"),
    ],
)
def test_a_text_that_is_no_diff_is_refused_where_it_goes_wrong(text, line, says):
    with pytest.raises(InvalidPatch) as caught:
        parse_unified(text)
    assert caught.value.details == {"field": "patch", "line": line}
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("notes", "kind"),
    [
        ("index 1..2 100644\nBinary files a/x and b/x differ\n", "binary_patch"),
        ("index 1..2 100644\nGIT binary patch\nliteral 3\nKcmZQzWB>\n\nliteral 0\n\n", "binary_patch"),
        (
            "new file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n",
            "special_mode",
        ),
        ("new file mode 160000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+Subproject commit 12\n", "special_mode"),
        ("old mode 100644\nnew mode 120000\n", "special_mode"),
    ],
)
def test_what_is_no_text_of_a_regular_file_is_marked_for_refusal(notes, kind):
    patch = parse_unified(f"diff --git a/x b/x\n{notes}diff --git a/y b/y\nold mode 100644\nnew mode 100755\n")
    assert [file.refusal[0] if file.refusal else None for file in patch.files] == [kind, None]


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("git"))


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grounds")


@PROPERTY
@given(
    trees=changes(),
    options=st.sampled_from(
        [(), ("-M",), ("-M", "-C", "--find-copies-harder"), ("-U1",), ("-U8", "-M20%"), ("--no-prefix",)]
    ),
)
def test_a_diff_of_git_does_what_git_does_with_it(git: Git, grounds: Path, trees: tuple[Tree, Tree], options):
    old, new = trees
    diff = git.diff(old, new, *options)
    root = plant(grounds / "ours", old)
    if diff:
        result = patched(diff, root, grounds / "journal")
        assert [note for note in result.diagnostics if note.kind in ("hunk_moved", "hunk_counts_corrected")] == []
        assert result.changed_file_count > 0
    assert grown(root.path) == new

    judge = plant(grounds / "git", old)
    if diff and "--no-prefix" not in options:
        assert git.apply(diff, judge.path)
        assert grown(judge.path) == new


@PROPERTY
@given(trees=changes(), context=st.integers(1, 4))
def test_a_diff_of_difflib_gives_the_edited_file(grounds: Path, trees: tuple[Tree, Tree], context: int):
    """difflib has no way to say that a final newline is missing: files without one are left to git."""
    old, new = (
        {name: content for name, content in tree.items() if content.endswith(b"\n") and "\t" not in name}
        for tree in trees
    )
    diff = ""
    for name in sorted(old.keys() & new.keys()):
        before, after = (tree[name].decode().split("\n")[:-1] for tree in (old, new))
        lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=context, lineterm="")
        diff += "".join(f"{line}\n" for line in lines)
    root = plant(grounds / "difflib", old)
    if diff:
        patched(diff, root, grounds / "journal")
    assert grown(root.path) == {name: new.get(name, content) for name, content in old.items()}


@PROPERTY
@given(trees=changes(), options=st.sampled_from([(), ("-M",)]))
def test_what_git_writes_is_in_the_grammar(git: Git, trees: tuple[Tree, Tree], options):
    diff = git.diff(*trees, *options)
    assert not diff or Grammar(GRAMMAR).accepts(diff)


def test_the_grammar_refuses_what_is_no_diff():
    grammar = Grammar(GRAMMAR)
    assert grammar.accepts("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    for text in (
        "",
        "--- a/x\n+++ b/x\n",
        "--- a/x\n+++ b/x\n@@\n-a\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\nb\n",
        "hello\n",
    ):
        assert not grammar.accepts(text)
