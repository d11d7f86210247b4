"""Where hunks fit, and what is said of those that do not. No disk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.workspaces.hunks import Hunk
from holon.workspaces.lines import join, split
from holon.workspaces.placing import edit, place
from holon.workspaces.unified import parse_unified


def hunks(text: str) -> tuple[Hunk, ...]:
    return parse_unified(f"--- a/x\n+++ b/x\n{text}").files[0].hunks


def remarks(text: str, content: str) -> list[tuple[str, str]]:
    placement = place(hunks(text), split(content.encode()))
    return [(it.kind, it.message) for it in [*placement.notes, *placement.misfits]]


def applied(text: str, content: bytes) -> bytes:
    lines = split(content)
    placement = place(hunks(text), lines)
    assert placement.misfits == []
    return join(edit(lines, placement.placed))


def test_a_wrong_line_number_is_told_when_the_lines_are_in_one_place():
    content = "".join(f"line {n}\n" for n in range(1, 31))
    assert remarks("@@ -3,2 +3,2 @@\n line 20\n-line 21\n+x\n", content) == [
        (
            "hunk_moved",
            "hunk 1 (patch line 3) says line 3; its lines are only at line 20, 17 lines further down, "
            "and it was applied there",
        )
    ]


def test_lines_in_several_places_are_refused_unless_the_number_is_right():
    content = "a\nx\nb\nx\nc\nx\n"
    assert remarks("@@ -4 +4 @@\n-x\n+y\n", content) == []
    assert remarks("@@ -3 +3 @@\n-x\n+y\n", content) == [
        (
            "ambiguous_context",
            "hunk 1 (patch line 3) fits at lines 2, 4 and 6: add unchanged lines around it until it fits in one place, "
            "or give its line number as @@ -N,… +N,… @@",
        )
    ]


def test_numbers_are_no_evidence_any_more_once_one_was_wrong():
    """The file got a line on top: the second hunk's number points at the wrong one of two equal places."""
    content = "new\nfirst\nsecond\nx\nx\nx\n"
    kinds = [kind for kind, _ in remarks("@@ -1,2 +1,2 @@\n-first\n+1\n second\n@@ -4 +4 @@\n-x\n+y\n", content)]
    assert kinds == ["hunk_moved", "ambiguous_context"]


def test_hunks_out_of_order_and_hunks_that_overlap_are_named():
    content = "a\nb\nc\nd\n"
    (order,) = remarks("@@ -3 +3 @@\n-c\n+C\n@@ -1 +1 @@\n-a\n+A\n", content)
    assert order[0] == "hunk_order"
    assert "fits at line 1, before the end of the hunk ahead of it" in order[1]
    (overlap,) = remarks("@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -2,2 +2,2 @@\n b\n-c\n+C\n", content)
    assert overlap[0] == "hunk_order"


def test_every_hunk_that_does_not_fit_is_reported():
    kinds = [
        kind for kind, _ in remarks("@@ -1 +1 @@\n-p\n+q\n@@ -2 +2 @@\n-b\n+B\n@@ -3 +3 @@\n-r\n+s\n", "a\nb\nc\n")
    ]
    assert kinds == ["context_not_found", "context_not_found"]


def test_after_fifty_hunks_that_do_not_fit_the_rest_is_not_tried():
    told = remarks("".join(f"@@ -{n} +{n} @@\n-nothing {n}\n+x\n" for n in range(1, 71)), "a\nb\n")
    assert [kind for kind, _ in told] == ["context_not_found"] * 50 + ["not_tried"]
    assert told[-1][1] == "the other 20 hunks were not tried any more"


SOURCE = "def f():\n    one = 1\n    two = 2\n    three = 3\n    return one\n"


@pytest.mark.parametrize(
    ("hunk", "says"),
    [
        (
            "@@ -1,3 +1,3 @@\n def f():\n-\tone = 1\n+    one = 11\n     two = 2\n",
            "(its header says line 1); closest is line 1, where 2 of 3 lines are the same and the rest differs only in "
            "white space: line 2: expected '\\tone = 1', the file has '    one = 1'",
        ),
        (
            "@@ -1,2 +1,2 @@\n     two = 2  \n-    three = 3\n+    three = 4\n",
            "closest is line 3 (2 further down), where 1 of 2 lines are the same and the rest differs only in trailing "
            "white space: line 3: expected '    two = 2  ', the file has '    two = 2'",
        ),
        (
            "@@\n def f():\n-    one = 2\n+    one = 11\n     two = 2\n     three = 3\n",
            "does not fit; closest is line 1, where 3 of 4 lines are the same: line 2: expected '    one = 2', "
            "the file has '    one = 1'",
        ),
        (
            "@@\n def f():\n     one = 1\n-    three = 3\n+    three = 4\n",
            "3 of 3 lines are the same: line 3: the hunk leaves out '    two = 2'",
        ),
        (
            "@@\n def f():\n-    one = 1\n     half = 1.5\n     two = 2\n     three = 3\n",
            "4 of 5 lines are the same: before line 3: expected '    half = 1.5'",
        ),
        (
            "@@\n def f():\n-    ONE = 1\n+    x\n     two = 2\n",
            "differs only in upper and lower case",
        ),
        (
            "@@\n-nothing like this at all, really\n+x\n",
            "does not fit: nothing in the file (5 lines) is like the lines that it expects, of which the first is "
            "'nothing like this at all, really'",
        ),
        (
            "@@\n-    three = 33\n+x\n",
            "closest is line 4, where the line is similar: line 4: expected '    three = 33', the file has "
            "'    three = 3'",
        ),
        (
            "@@ -5 +5 @@\n-    return one\n\\ No newline at end of file\n+x\n",
            "its lines stand at line 5, but the file has a newline at its end, and the hunk says otherwise",
        ),
    ],
)
def test_a_hunk_that_fits_nowhere_is_told_where_it_nearly_does(hunk, says):
    ((kind, message),) = remarks(hunk, SOURCE)
    assert kind == "context_not_found"
    assert says in message


def test_the_line_that_differs_is_told_however_far_down_it_is():
    content = "".join(f"value_{n} = {n}\n" for n in range(1, 60))
    body = "".join(f" value_{n} = {n}\n" for n in range(5, 45)).replace(" value_31 = 31\n", " value_31 = 13\n")
    ((_, message),) = remarks(f"@@ -5,41 +5,40 @@\n{body}-value_45 = 45\n", content)
    assert "40 of 41 lines are the same: line 31: expected 'value_31 = 13', the file has 'value_31 = 31'" in message


def test_the_line_that_differs_is_told_in_a_very_long_hunk():
    content = "".join(f"value_{n} = {n}\n" for n in range(1, 2_001))
    body = "".join(f" value_{n} = {n}\n" for n in range(5, 1_000)).replace("value_900 = 900\n", "value_900 = 9\n")
    ((_, message),) = remarks(f"@@\n{body}-value_1000 = 1000\n", content)
    assert "closest is line 5, where 995 of 996 lines are the same: line 900: expected 'value_900 = 9'" in message


def test_lines_that_stand_in_the_wrong_place_are_told_with_the_reason():
    ((_, message),) = remarks("@@ c @@\n-a\n+x\n b\n", "a\nb\nc\n")
    assert "its lines stand at line 1, but not after the line that its @@ names" in message
    (hunk,) = hunks("@@\n-a\n+x\n b\n")
    placement = place([replace(hunk, at_end=True)], split(b"a\nb\nc\n"))
    assert "its lines stand at line 1, but the file goes on after them" in placement.misfits[0].message


def test_quotes_that_only_look_alike_are_shown_as_codes():
    ((_, message),) = remarks("@@\n-say 'hello' to them\n+x\n", "say ‘hello’ to them\n")
    assert "differs only in look-alike characters such as quotes and dashes" in message
    assert "the file has 'say \\u2018hello\\u2019 to them'" in message


def test_a_doubled_prefix_is_recognised_and_not_forgiven():
    ((_, message),) = remarks("@@\n-- remove me please\n+- keep me\n", "remove me please\n")
    assert "differs only in a doubled prefix" in message


def test_long_lines_are_cut_around_the_difference():
    ((_, message),) = remarks(f"@@\n-{'x' * 500}A{'y' * 500}\n+z\n", f"{'x' * 500}B{'y' * 500}\n")
    assert "xA" in message
    assert "xB" in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("content", "hunk", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "@@ -2 +2,2 @@\n-b\n+B\n+BB\n", b"a\r\nB\r\nBB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "@@ -2 +2 @@\n-b\r\n+B\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "@@ -2 +2 @@\n-b\r\n+B\n", b"a\r\nB\nc\r\n"),
        (b"a\nb\r\nc\n", "@@ -2 +2 @@\n-b\n+B\n", b"a\nB\r\nc\n"),
        (b"a\nb\r\nc\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n", b"a\nx\nb\r\nc\n"),
        (b"a\nb", "@@ -2 +2 @@\n-b\n+B\n", b"a\nB"),
        (b"a\nb", "@@ -2 +2,2 @@\n b\n+c\n", b"a\nb\nc"),
        (b"a\r\nb", "@@ -2 +2,2 @@\n b\n+c\n", b"a\r\nb\r\nc"),
        (b"a\nb", "@@ -1,2 +1 @@\n a\n-b\n", b"a"),
        (b"a\nb\n", "@@ -1,2 +1 @@\n a\n-b\n", b"a\n"),
        (b"a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", b"a\nb\n"),
        (b"a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", b"a\nb"),
        (b"a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", b"A\nb"),
        (b"", "@@ -0,0 +1 @@\n+a\n", b"a\n"),
        (b"a\n", "@@ -1 +0,0 @@\n-a\n", b""),
        (b"caf\xe9\nb\n", "@@ -2 +2 @@\n-b\n+B\n", b"caf\xe9\nB\n"),
        ("a\x0cb\u2028c\nd\n".encode(), "@@ -1,2 +1,2 @@\n a\x0cb\u2028c\n-d\n+D\n", "a\x0cb\u2028c\nD\n".encode()),
    ],
)
def test_what_a_hunk_does_not_speak_of_is_kept(content, hunk, expected):
    assert applied(hunk, content) == expected


@given(
    lines=st.lists(st.sampled_from("ab"), max_size=30),
    first=st.integers(0, 29),
    size=st.integers(1, 5),
    stated=st.one_of(st.none(), st.integers(1, 30)),
)
def test_a_hunk_is_placed_where_its_lines_are_and_only_without_doubt(lines, first, size, stated):
    """Compared with looking everywhere."""
    wanted = lines[first : first + size]
    if not wanted:
        return
    header = "@@" if stated is None else f"@@ -{stated},{len(wanted)} +{stated},{len(wanted)} @@"
    body = "".join(f"-{line}\n" for line in wanted) + "+x\n" * len(wanted)
    placement = place(hunks(f"{header}\n{body}"), split("".join(f"{line}\n" for line in lines).encode()))
    everywhere = [at for at in range(len(lines)) if lines[at : at + len(wanted)] == wanted]
    if stated is not None and stated - 1 in everywhere:
        everywhere = [stated - 1]
    assert [it.at for it in placement.placed] == (everywhere if len(everywhere) == 1 else [])
    assert bool(placement.misfits) == (len(everywhere) != 1)
