"""The freeform grammar is read as its models write it, and means the same as a unified diff."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holon.workspaces import patches
from holon.workspaces.freeform import parse_freeform
from holon.workspaces.grammar import GRAMMAR
from holon.workspaces.hunks import FilePatch, Hunk, HunkLine, InvalidPatch, Op, Patch, PatchAction
from tests.workspaces.grammars import Grammar
from tests.workspaces.repositories import Git, changes, plain_names
from tests.workspaces.trees import Tree, grown, patched, plant

PROPERTY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def hunk(*lines: str, at: int, **more: object) -> Hunk:
    return Hunk(tuple(HunkLine(Op(line[0]), line[1:]) for line in lines), at, **more)  # type: ignore[arg-type]


def enveloped(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def test_every_kind_of_section_is_read():
    patch = parse_freeform(
        enveloped(
            "*** Add File: docs/new.md",
            "+# Title",
            "+",
            "+*** not a mark",
            "*** Delete File: old.txt",
            "*** Update File: src/a.py",
            "*** Move to: src/b.py",
            "@@ class A:",
            "@@     def f(self):",
            "     x = 1",
            "-    return x",
            "+    return 2",
            "@@",
            "-last",
            "+final",
            "*** End of File",
        )
    )
    assert patch == Patch(
        (
            FilePatch(PatchAction.ADD, "docs/new.md", 2, hunks=(hunk("+# Title", "+", "+*** not a mark", at=3),)),
            FilePatch(PatchAction.DELETE, "old.txt", 6),
            FilePatch(
                PatchAction.MOVE,
                "src/b.py",
                7,
                from_path="src/a.py",
                hunks=(
                    hunk(
                        "     x = 1",
                        "-    return x",
                        "+    return 2",
                        at=9,
                        anchors=("class A:", "def f(self):"),
                    ),
                    hunk("-last", "+final", at=14, at_end=True),
                ),
            ),
        )
    )


def test_the_first_hunk_may_go_without_a_mark_and_blank_lines_are_context_or_layout():
    patch = parse_freeform(
        "\n" + enveloped("*** Update File: a", " x", "", "-y", "+z", "", "*** Update File: b", "-y", "", "")
    )
    assert patch.files == (
        FilePatch(PatchAction.MODIFY, "a", 3, hunks=(hunk(" x", " ", "-y", "+z", at=4),)),
        FilePatch(PatchAction.MODIFY, "b", 9, hunks=(hunk("-y", at=10),)),
    )


def test_numbers_are_understood_as_a_place():
    (file,) = parse_freeform(enveloped("*** Update File: a", "@@ -3,1 +3,1 @@ def f():", "-y", "+z")).files
    assert file.hunks == (hunk("-y", "+z", at=3, old_start=3, new_start=3),)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "does not begin with"),
        ("*** Begin Patch", 1, "is cut off"),
        (enveloped(), 2, "no file section"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y", 5, "is cut off"),
        (enveloped("*** Change File: a"), 2, "begins no section"),
        (enveloped("hello"), 2, "begins no section"),
        (enveloped("*** Update File: a"), 2, "changes nothing"),
        (enveloped("*** Update File: "), 2, "a name is missing"),
        (enveloped("*** Update File: a", "*** Move to:", "@@", "-x"), 3, "a name is missing"),
        (enveloped("*** Update File: a", "@@", "x"), 4, "does not belong here"),
        (enveloped("*** Update File: a", "@@ -1 +1 @@", "-x", "y", "+z"), 5, "does not belong here"),
        (enveloped("*** Update File: a", "@@", "*** Delete File: b"), 3, "has no lines"),
        (enveloped("*** Add File: a", "+x", "y"), 4, "does not belong here"),
        (enveloped("*** Add File: a", "+x", "", "+y"), 5, "does not belong here"),
        (enveloped("*** Delete File: a", "-x"), 3, "does not belong here"),
        (enveloped("*** Update File: a", "\\ something"), 3, "is no line of a hunk"),
        (enveloped("*** Move to: a"), 2, "begins no section"),
    ],
)
def test_a_text_that_is_not_in_the_grammar_is_refused_where_it_goes_wrong(text, line, says):
    with pytest.raises(InvalidPatch) as caught:
        parse_freeform(text)
    assert caught.value.details == {"field": "patch", "line": line}
    assert says in caught.value.message
    assert caught.value.hint


SOURCE = b"""class A:
    def f(self):
        x = 1
        return x

    def g(self):
        x = 1
        return x


class B:
    def g(self):
        x = 1
        return x
"""


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        (["@@ def f(self):", "-        x = 1", "+        x = 2"], 3),
        (["@@ def g(self):", "-        x = 1", "+        x = 2"], None),
        (["@@ class A:", "@@ def g(self):", "-        x = 1", "+        x = 2"], 7),
        (["@@ class A:", "-        x = 1", "+        x = 2"], 3),
        (["@@ class B:", "-        x = 1", "+        x = 2"], 13),
        (["@@ class B:", "@@ def g(self):", "-        x = 1", "+        x = 2"], 13),
        (["@@", " class B:", "     def g(self):", "-        x = 1", "+        x = 2"], 13),
        (["@@ -7 +7 @@", "-        x = 1", "+        x = 2"], 7),
        (["@@", "-        x = 1", "+        x = 2", "         return x", "*** End of File"], 13),
    ],
)
def test_a_hunk_goes_where_its_anchors_say(tmp_path, lines, changed):
    root = plant(tmp_path / "root", {"a.py": SOURCE})
    plan = patches.check(patches.parse(enveloped("*** Update File: a.py", *lines)), root)
    if changed is None:
        assert [problem.kind for problem in plan.problems] == ["ambiguous_context"]
        assert "lines 7 and 13" in plan.problems[0].message
    else:
        patches.apply(plan, tmp_path / "journal")
        expected = SOURCE.splitlines(keepends=True)
        expected[changed - 1] = b"        x = 2\n"
        assert (root.path / "a.py").read_bytes() == b"".join(expected)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["@@ two", "+new"], b"one\ntwo\nnew\nthree\n"),
        (["@@", "+new", "*** End of File"], b"one\ntwo\nthree\nnew\n"),
        (["@@", " one", "+new"], b"one\nnew\ntwo\nthree\n"),
        (["@@", "+new", " one"], b"new\none\ntwo\nthree\n"),
    ],
)
def test_an_addition_goes_where_something_says_so(tmp_path, lines, expected):
    root = plant(tmp_path / "root", {"a": b"one\ntwo\nthree\n"})
    patched(enveloped("*** Update File: a", *lines), root, tmp_path / "journal")
    assert (root.path / "a").read_bytes() == expected


def test_an_addition_without_a_place_is_refused_and_not_put_at_the_end(tmp_path):
    root = plant(tmp_path / "root", {"a": b"one\ntwo\n"})
    plan = patches.check(patches.parse(enveloped("*** Update File: a", "@@", "+new")), root)
    assert [problem.kind for problem in plan.problems] == ["no_context"]


def test_an_anchor_that_is_not_there_is_named(tmp_path):
    root = plant(tmp_path / "root", {"a": b"one\ntwo\n"})
    plan = patches.check(patches.parse(enveloped("*** Update File: a", "@@ def f():", "-one", "+1")), root)
    assert [(problem.kind, "'def f():'" in problem.message) for problem in plan.problems] == [
        ("anchor_not_found", True)
    ]


def rendered(patch: Patch) -> str:
    """The same patch in the freeform grammar."""
    lines: list[str] = []
    for file in patch.files:
        match file.action:
            case PatchAction.ADD if file.from_path is None:
                lines.append(f"*** Add File: {file.path}")
            case PatchAction.DELETE:
                lines.append(f"*** Delete File: {file.path}")
                continue
            case _:
                lines.append(f"*** Update File: {file.from_path or file.path}")
                lines += [f"*** Move to: {file.path}"] * (file.from_path is not None)
        for hunk in file.hunks:
            if file.action is not PatchAction.ADD:
                lines.append(f"@@ -{hunk.old_start},{len(hunk.old)} +{hunk.new_start},{len(hunk.new)} @@")
            for line in hunk.lines:
                lines += [f"{line.op}{line.text}"] + ["\\ No newline at end of file"] * (not line.ends)
    return enveloped(*lines)


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("git"))


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grounds")


@pytest.mark.spec("RT-254")
@PROPERTY
@given(trees=changes(plain_names), options=st.sampled_from([(), ("-M",)]))
def test_a_diff_gives_the_same_files_in_both_forms(git: Git, grounds: Path, trees: tuple[Tree, Tree], options):
    old, new = trees
    diff = git.diff(old, new, *options)
    if not diff:
        return
    freeform = rendered(patches.parse(diff))
    assert Grammar(GRAMMAR).accepts(freeform) or "*** Add File" in freeform  # an empty file is not in the grammar
    for form in (diff, freeform, f"*** Begin Patch\n{diff}*** End Patch\n"):
        root = plant(grounds / "tree", old)
        patched(form, root, grounds / "journal")
        assert grown(root.path) == new, form


lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), max_size=8)


@st.composite
def freeform_texts(draw: st.DrawFn) -> str:
    """Anything that the grammar derives."""
    name = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=5)
    line = st.builds("{}{}".format, st.sampled_from("+- "), lines)
    change = st.builds(
        lambda marks, body, end: [*marks, *body, *end],
        st.lists(st.builds("@@{}".format, st.sampled_from(["", " x", " def f():", " -1 +1 @@"])), max_size=2),
        st.lists(line, min_size=1, max_size=4),
        st.sampled_from([[], [], ["*** End of File"]]),
    )
    sections = st.one_of(
        st.builds(
            lambda n, body: [f"*** Add File: {n}", *(f"+{it}" for it in body)], name, st.lists(lines, min_size=1)
        ),
        st.builds(lambda n: [f"*** Delete File: {n}"], name),
        st.builds(
            lambda n, body: [f"*** Update File: {n}", *chain.from_iterable(body)],
            name,
            st.lists(change, min_size=1, max_size=3),
        ),
        st.builds(
            lambda n, to, body: [f"*** Update File: {n}", f"*** Move to: {to}", *chain.from_iterable(body)],
            name,
            name,
            st.lists(change, max_size=2),
        ),
    )
    return enveloped(*chain.from_iterable(draw(st.lists(sections, min_size=1, max_size=3))))


@settings(max_examples=150, deadline=None)
@given(text=freeform_texts())
@example(text=enveloped("*** Update File: a", " "))
def test_whatever_the_grammar_allows_the_parser_takes(text):
    assert Grammar(GRAMMAR).accepts(text)
    assert parse_freeform(text).files


def test_the_grammar_refuses_what_the_parser_would_refuse():
    grammar = Grammar(GRAMMAR)
    for text in (
        "",
        enveloped(),
        enveloped("*** Update File: a"),
        enveloped("*** Add File: a", "x"),
        enveloped("*** Delete File: a", "-x"),
        enveloped("*** Update File: a", "@@"),
        "*** Begin Patch\n*** Delete File: a\n",
    ):
        assert not grammar.accepts(text)
