"""Mismatches: for a hunk that fits nowhere, the place that is most like it, and in what it differs.

Pure, and only words: nothing is ever applied to a place that was found here.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from holon.workspaces.hunks import Hunk
from holon.workspaces.lines import Line

#: Lines that are everywhere (blank lines, braces) say little about the place.
COMMON = 64
MAX_COMPARED = 400
MAX_SHOWN = 3
MAX_CHARS = 120

#: In what two lines may differ and still be meant as the same; the first that makes all pairs equal is named.
LIKENESSES: list[tuple[str, Callable[[str], str]]] = [
    ("carriage returns", lambda text: text.rstrip("\r")),
    ("trailing white space", str.rstrip),
    ("white space", lambda text: "".join(text.split())),
    ("look-alike characters such as quotes and dashes", lambda text: _plain(text)),
    ("upper and lower case", str.casefold),
    ("a doubled prefix (one '-', '+' or space begins each line of a hunk)", lambda text: text.lstrip("+- ")),
]


def explain(hunk: Hunk, lines: Sequence[Line]) -> str:
    """Why the hunk does not fit, as the rest of a sentence that begins with its name."""
    wanted = [line.text for line in hunk.old]
    keys = [line.raw if hunk.speaks_of_returns else line.text for line in lines]
    refused = "does not fit" if hunk.old_start is None else f"does not fit (its header says line {hunk.old_start})"
    place = _closest(wanted, keys, hunk.old_start)
    if place is None:
        size = f"the file ({_count(len(keys))})"
        return (
            f"{refused}: nothing in {size} is like the lines that it expects, of which the first is {_shown(wanted[0])}"
        )
    window = _window(wanted, keys, place)
    if not window.differences:
        return f"{refused}: its lines stand at line {place + 1}, but {_why_not(hunk, lines)}"
    far = "" if hunk.old_start is None else _distance(hunk.old_start, place + 1)
    only = f" and the rest differs only in {window.likeness}" if window.likeness else ""
    same = "the line is similar" if len(wanted) == 1 else f"{window.same} of {len(wanted)} lines are the same"
    alike = f"where {same}{only}"
    return f"{refused}; closest is line {place + 1}{far}, {alike}: {'; '.join(window.differences)}"


def listed(words: Sequence[str], *, more: bool = False) -> str:
    """`1, 2 and 3`, or `1, 2, 3 and more`."""
    *head, last = [*words, "more"] if more else words
    return f"{', '.join(head)} and {last}" if head else last


class _Window:
    """The hunk's lines beside those of the file, aligned."""

    def __init__(self, wanted: Sequence[str], keys: Sequence[str], first: int) -> None:
        codes = difflib.SequenceMatcher(None, wanted, keys, autojunk=False).get_opcodes()
        # What the file has before and after belongs to no line of the hunk.
        codes = [code for code in codes if not (code[0] == "insert" and code[1] in (0, len(wanted)))]
        self.same = sum(i2 - i1 for tag, i1, i2, _, _ in codes if tag == "equal")
        pairs: list[tuple[str, str]] = []
        told: list[str] = []
        uneven = False
        for tag, i1, i2, j1, j2 in codes:
            if tag == "equal":
                continue
            beside = list(zip(wanted[i1:i2], keys[j1:j2], strict=False))
            pairs += beside
            uneven |= i2 - i1 != j2 - j1
            told += [_told_pair(first + j1 + 1 + n, *pair) for n, pair in enumerate(beside)]
            told += [f"before line {first + j2 + 1}: expected {_shown(text)}" for text in wanted[i1 + len(beside) : i2]]
            extra = enumerate(keys[j1 + len(beside) : j2], first + j1 + len(beside) + 1)
            told += [f"line {line}: the hunk leaves out {_shown(text)}" for line, text in extra]
        self.likeness = _likeness(pairs) if pairs and not uneven else None
        self.differences = told[:MAX_SHOWN]
        if len(told) > MAX_SHOWN:
            self.differences.append(f"and {len(told) - MAX_SHOWN} more")


def _window(wanted: Sequence[str], keys: Sequence[str], place: int) -> _Window:
    """Straight, or shifted where more lines are the same then: a line too many makes all that follow look different."""
    if len(wanted) > MAX_COMPARED:
        skipped = 0
        while skipped < len(wanted) - MAX_COMPARED and keys[place + skipped : place + skipped + 1] == [wanted[skipped]]:
            skipped += 1
        window = _Window(
            wanted[skipped : skipped + MAX_COMPARED], keys[place + skipped :][:MAX_COMPARED], place + skipped
        )
        window.same = sum(one == other for one, other in zip(wanted, keys[place:], strict=False))
        return window
    slack = min(5, len(wanted))
    first = max(0, place - slack)
    straight = _Window(wanted, keys[place : place + len(wanted)], place)
    shifted = _Window(wanted, keys[first : place + len(wanted) + slack], first)
    return shifted if shifted.same > straight.same else straight


def _closest(wanted: Sequence[str], keys: Sequence[str], stated: int | None) -> int | None:
    """The index at which most of the hunk's lines stand; each line of the file votes for where the hunk would begin."""
    votes: Counter[int] = Counter()
    for weigh, loosen in ((4, str), (2, _loose)):
        positions: dict[str, list[int]] = defaultdict(list)
        for index, key in enumerate(keys):
            positions[loosen(key)].append(index)
        for offset, text in enumerate(wanted):
            where = positions.get(loosen(text), [])
            weight = weigh if len(text.strip()) > 2 else 1
            if text.strip() and len(where) <= COMMON:
                for index in where:
                    votes[index - offset] += weight
    if not votes:
        return _resembling(wanted, keys)
    near = (stated or 1) - 1
    best = max(votes, key=lambda at: (votes[at], -abs(at - near)))
    return min(max(best, 0), len(keys) - 1)


def _resembling(wanted: Sequence[str], keys: Sequence[str]) -> int | None:
    telling = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    pool = list(dict.fromkeys(keys))[:2_000]
    close = difflib.get_close_matches(wanted[telling][:500], [key[:500] for key in pool], n=1, cutoff=0.6)
    if not close:
        return None
    index = next(index for index, key in enumerate(keys) if key[:500] == close[0])
    return max(0, index - telling)


def _why_not(hunk: Hunk, lines: Sequence[Line]) -> str:
    if hunk.at_end:
        return "the file goes on after them, and the hunk says that it ends there"
    if hunk.anchors:
        return "not after the line that its @@ names"
    if lines and hunk.speaks_of_the_end:
        has = "a" if lines[-1].eol else "no"
        return f"the file has {has} newline at its end, and the hunk says otherwise, or the hunk does not reach the end"
    return "not in the order that the hunk has them"


def _likeness(pairs: Sequence[tuple[str, str]]) -> str | None:
    for name, loosen in LIKENESSES:
        if all(loosen(one) == loosen(other) for one, other in pairs):
            return name
    return None


def _loose(text: str) -> str:
    return "".join(_plain(text).casefold().split())


_LOOK_ALIKE = str.maketrans("‘’‚‛“”„‟«»′″‐‑‒–—―−\u00a0\u2009\u202f", '\'\'\'\'""""""\'"-------   ')


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_LOOK_ALIKE))


def _told_pair(line: int, wanted: str, found: str) -> str:
    shown, there = _shown_beside(wanted, found)
    return f"line {line}: expected {shown}, the file has {there}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…")


def _shown_beside(one: str, other: str) -> tuple[str, str]:
    """Two lines that differ, cut around the first difference; characters that only look alike are written as codes."""
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if max(len(one), len(other)) > MAX_CHARS:
        begin = max(0, at - MAX_CHARS // 2)
        one, other = (f"{'…' if begin else ''}{text[begin : begin + MAX_CHARS]}" for text in (one, other))
    if _loose(one) == _loose(other) and not (one.isascii() and other.isascii()):
        return ascii(one), ascii(other)
    return _shown(one), _shown(other)


def _distance(stated: int, found: int) -> str:
    if stated == found:
        return ""
    return f" ({abs(found - stated)} further {'down' if found > stated else 'up'})"


def _count(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"
