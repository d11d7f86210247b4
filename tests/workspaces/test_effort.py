"""A patch costs no more than its effort, whatever it says. No clock: work is counted."""

from __future__ import annotations

import contextlib
import random

import pytest

from holon.workspaces import drafts, patches
from holon.workspaces.drafts import Draft
from holon.workspaces.effort import PLACING, SEARCHING, Effort, TooMuchWork
from holon.workspaces.hunks import Hunk
from holon.workspaces.lines import Line, split
from holon.workspaces.placing import Placement, place
from tests.workspaces.stepping import steps
from tests.workspaces.trees import grown, patched, plant

#: Instructions of Python for one unit of effort, at most.
WORTH = 20


def freeform(*lines: str, file: str = "x") -> str:
    return "\n".join(["*** Begin Patch", f"*** Update File: {file}", *lines, "*** End Patch", ""])


def hunks(*lines: str) -> tuple[Hunk, ...]:
    return patches.parse(freeform(*lines)).files[0].hunks


def file_of(*lines: str) -> list[Line]:
    return split("".join(f"{line}\n" for line in lines).encode())


def letters(seed: int, count: int, of: str = "abcd") -> str:
    chosen = random.Random(seed)
    return "".join(chosen.choice(of) for _ in range(count))


@pytest.mark.parametrize(
    "repeated",
    ["--\n", "--\n\n", "-- \n-x\n", "\n", "+x\n", "\\ No newline\n", "prose\n", "@@\n-x\n", "--- a/x\n"],
)
def test_reading_a_patch_of_twice_the_size_is_twice_the_work(repeated):
    def read(times: int) -> int:
        def work() -> None:
            with contextlib.suppress(patches.InvalidPatch):
                patches.parse("--- a/x\n+++ b/x\n@@\n-first\n" + repeated * times + "+last\n")

        return steps(work)

    assert read(600) < 2.5 * read(300)


def test_the_names_of_a_git_line_are_parted_once_however_many_spaces_they_have():
    def read(spaces: int) -> int:
        name = "x" + " " * spaces + "y"
        text = f"diff --git a/{name} b/{name}\nold mode 100644\nnew mode 100755\n"
        assert patches.parse(text).files[0].path == name
        return steps(lambda: patches.parse(text))

    assert read(1_000) == read(100)


def test_a_name_that_no_file_can_have_is_refused_where_it_is_read():
    for text in (
        f"--- a/{'x' * 5_000}\n+++ b/x\n@@\n+x\n",
        f'--- "a/{chr(92) + "141"}{chr(92) + "141" * 9_000}"\n+++ b/x\n@@\n+x\n',
        f"diff --git a/{'x' * 5_000} b/{'x' * 5_000}\nnew file mode 100644\n",
        f"*** Begin Patch\n*** Delete File: {'x' * 5_000}\n*** End Patch\n",
    ):
        with pytest.raises(patches.InvalidPatch) as caught:
            patches.parse(text)
        assert len(str(caught.value)) < 300


def test_a_patch_of_too_many_lines_is_refused():
    with pytest.raises(patches.InvalidPatch) as caught:
        patches.parse("--- a/x\n+++ b/x\n@@\n" + "+\n" * patches.MAX_PATCH_LINES)
    assert caught.value.message == "line 1 of the patch: it has more than 100,000 lines"


def test_what_comes_after_too_many_hunks_or_files_is_not_read_any_more():
    many = "*** Begin Patch\n*** Update File: x\n" + "@@\n-x\n" * (patches.MAX_HUNKS + 1)
    with pytest.raises(patches.InvalidPatch) as caught:
        patches.parse(f"{many}what is this\n*** End Patch\n")
    assert caught.value.hint == "send it in parts"
    with pytest.raises(patches.InvalidPatch) as caught:
        patches.parse("--- a/x\n+++ b/x\n@@\n+x\n" * (patches.MAX_FILES + 1) + "+++\n")
    assert caught.value.hint == "send it in parts"


def test_more_anchors_than_anybody_needs_are_refused():
    with pytest.raises(patches.InvalidPatch) as caught:
        hunks(*["@@ a"] * 17, "-x", "+y")
    assert caught.value.message == "line 19 of the patch: more than 16 @@ lines before one hunk"


def test_anchors_are_found_without_looking_through_the_file_for_each():
    def work(count: int) -> int:
        lines = file_of(*(f"anchor {n // 10}" if n % 10 == 0 else "x" for n in range(count * 10)))
        parts = hunks(*(line for n in range(count) for line in (f"@@ anchor {n}", "-x", "+y")))
        assert [it.at for it in place(parts, lines).placed] == [n * 10 + 1 for n in range(count)]
        return steps(lambda: place(parts, lines))

    assert work(60) < 2.5 * work(30)


#: A file and the hunks for it, each as much work as can be had from so few lines.
ODD: dict[str, tuple[list[str], list[str]]] = {
    "anchors everywhere": (["x"] * 2_000, [*["@@ x"] * 16, "-x", "+y"] * 5),
    "lines that nearly fit everywhere": (list(letters(1, 2_000, "ab")), ["@@", *["-a"] * 60, "+y"] * 10),
    "lines that begin like the hunk": (["a"] * 2_000, ["@@", *["-a"] * 50, "-b"] * 10),
    "many hunks": (
        [f"line {n}" for n in range(2_000)],
        [line for n in range(0, 2_000, 10) for line in ("@@", f"-line {n}")],
    ),
    "long lines of few letters": ([letters(n, 198) for n in range(500)], ["@@", f"-{letters(-1, 198)}", "+y"]),
    "many votes": ([f"line {n % 50}" for n in range(2_000)], ["@@", *[f"-line  {n}" for n in range(40)]]),
    "many ways to align": (
        [line for n in range(1_000) for line in ("x", f"v{n}")],
        ["@@", *[line for n in range(40) for line in ("-x", f"-u{n}")], "-v100"],
    ),
    "lines that are not ASCII": (["é" * 200] * 500, ["@@", "-" + "è" * 200]),
}


@pytest.mark.parametrize("odd", ODD)
def test_no_work_is_done_that_is_not_counted(odd):
    content, lines = ODD[odd]
    parts, file, effort = hunks(*lines), file_of(*content), Effort()
    taken = steps(lambda: place(parts, file, effort))
    counted = (PLACING - effort.placing) + (SEARCHING - effort.searching)
    assert taken < WORTH * counted


@pytest.mark.parametrize("odd", ODD)
def test_work_ends_where_the_effort_ends(odd):
    content, lines = ODD[odd]
    parts, file, effort = hunks(*lines), file_of(*content), Effort(placing=60_000, searching=20_000)

    def work() -> None:
        with contextlib.suppress(TooMuchWork):
            place(parts, file, effort)

    assert steps(work) < WORTH * 80_000


def explained(effort: Effort) -> Placement:
    lines = file_of(*(f"line number {n}" for n in range(100)))
    return place(hunks("@@", "-line nmber 7", "+x"), lines, effort)


def test_when_the_effort_for_searching_is_used_up_a_misfit_is_told_in_fewer_words():
    (whole,) = explained(Effort()).misfits
    (brief,) = explained(Effort(searching=100)).misfits
    assert whole.kind == brief.kind == "context_not_found"
    assert "closest is line 8, where the line is similar" in whole.message
    assert brief.message == (
        "hunk 1 (patch line 3) does not fit; the closest place was not searched any more: "
        "read the file, and look for 'line nmber 7'"
    )


def test_all_files_of_a_patch_share_one_effort(tmp_path):
    lines = "".join(f"line number {n}\n" for n in range(100)).encode()
    names = [f"{n:02}" for n in range(20)]
    root = plant(tmp_path / "root", dict.fromkeys(names, lines))
    effort = Effort(searching=40_000)
    draft = Draft(root, effort)
    for section in patches.parse(
        "\n".join(["*** Begin Patch", *(f"*** Update File: {name}\n-line nmber 7" for name in names), "*** End Patch"])
    ).files:
        draft.carry_out(section)
    told = ["closest is line" in it.message for it in draft.problems]
    assert [it.path for it in draft.problems] == names
    assert told == sorted(told, reverse=True)
    assert 1 < sum(told) < 20


def test_names_that_may_be_meant_are_searched_within_the_same_effort(tmp_path):
    root = plant(tmp_path / "root", {f"file number {n}": b"" for n in range(100)})
    missing = patches.parse("*** Begin Patch\n*** Delete File: d\n*** Update File: file nmber 7\n-x\n*** End Patch\n")
    for effort, says in (
        (Effort(), "is not there; perhaps file number 7 is meant"),
        (Effort(searching=0), "is not there"),
    ):
        draft = Draft(root, effort)
        draft.carry_out(missing.files[1])
        assert [it.message for it in draft.problems] == [says]


def test_a_patch_that_is_too_much_work_is_refused_and_says_what_to_do(tmp_path):
    root = plant(tmp_path / "root", {"x": b"x\n" * 199_000, "small": b"1\n"})
    many = freeform(*[*["@@ x"] * 16, "-x", "+y"] * 200)
    with pytest.raises(patches.PatchRejected) as caught:
        patched(many, root, tmp_path / "journal")
    assert [(it.path, it.kind) for it in caught.value.problems] == [("x", "too_much_work")]
    assert "too many lines would have to be compared; send it in parts, or use a command" in caught.value.message
    patched(freeform("-1", "+2", file="small"), root, tmp_path / "journal")


def test_folders_that_are_too_deep_or_too_many_are_refused(tmp_path):
    root = plant(tmp_path / "root", {})
    deep = f"*** Begin Patch\n*** Add File: {'a/' * 64}x\n+x\n*** End Patch\n"
    wide = "".join(f"*** Add File: {n}/{'a/' * 40}x\n+x\n" for n in range(12))
    for text, kind in ((deep, "too_deep"), (f"*** Begin Patch\n{wide}*** End Patch\n", "too_large")):
        with pytest.raises(patches.PatchRejected) as caught:
            patched(text, root, tmp_path / "journal")
        assert [it.kind for it in caught.value.problems] == [kind]
    assert grown(root.path) == {}


def test_copies_of_one_file_count_each(tmp_path, monkeypatch):
    monkeypatch.setattr(drafts, "MAX_TOTAL_BYTES", 1_000)
    root = plant(tmp_path / "root", {"a": b"x" * 400})
    copies = "".join(f"diff --git a/a b/c{n}\nsimilarity index 100%\ncopy from a\ncopy to c{n}\n" for n in range(5))
    with pytest.raises(patches.PatchRejected) as caught:
        patched(copies, root, tmp_path / "journal")
    assert [(it.path, it.kind) for it in caught.value.problems] == [("c1", "too_large")]
