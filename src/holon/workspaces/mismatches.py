"""Mismatches: for a hunk that fits nowhere, the place that is most like it, and in what it differs.

Pure, and only words: nothing is ever applied to a place that was found here. All searches of a patch share one effort;
when it is used up, less is said.
"""

from __future__ import annotations

import difflib
import heapq
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from holon.workspaces.effort import LINE, Effort
from holon.workspaces.hunks import Hunk
from holon.workspaces.lines import Line

#: Lines that are everywhere (blank lines, braces) say little about the place.
COMMON = 64
MAX_COMPARED = 400
MAX_SHOWN = 3
MAX_CHARS = 120
#: Of a hunk, as many lines vote for a place; of a line, as many characters count for its likeness to another.
MAX_VOTERS, MAX_LIKE_CHARS = 2_000, 500
#: Of what may be meant, as many are looked at, and as many of these closely. Of the latter so many characters: the
#: comparison of two texts takes the square of their length, or more.
MAX_POOL, MAX_CLOSE, MAX_CLOSE_CHARS = 2_000, 8, 199
#: The work of aligning two texts beyond which they are compared line by line.
MAX_ALIGNED = 400_000

#: In what two lines may differ and still be meant as the same; the first that makes all pairs equal is named.
LIKENESSES: list[tuple[str, Callable[[str], str]]] = [
    ("carriage returns", lambda text: text.rstrip("\r")),
    ("trailing white space", str.rstrip),
    ("white space", lambda text: "".join(text.split())),
    ("look-alike characters such as quotes and dashes", lambda text: _plain(text)),
    ("upper and lower case", str.casefold),
    ("a doubled prefix (one '-', '+' or space begins each line of a hunk)", lambda text: text.lstrip("+- ")),
]


class NotSearched(Exception):
    """The effort does not suffice."""


class Likeness:
    """One file, as far as it was searched for what is like a hunk."""

    def __init__(self, lines: Sequence[Line], keys: Sequence[str], exact: dict[str, list[int]], effort: Effort) -> None:
        self.lines, self.keys, self.exact, self.effort = lines, keys, exact, effort

    @cached_property
    def loose(self) -> dict[str, list[int]] | None:
        """Where each text stands, however it is spaced and spelled; None if that would be too much work."""
        if not self.effort.search(sum(map(_cost, self.keys))):
            return None
        places: dict[str, list[int]] = defaultdict(list)
        for index, key in enumerate(self.keys):
            places[_loose(key)].append(index)
        return places


def explain(hunk: Hunk, file: Likeness) -> str:
    """Why the hunk does not fit, as the rest of a sentence that begins with its name."""
    wanted = [line.text for line in hunk.old]
    refused = "does not fit" if hunk.old_start is None else f"does not fit (its header says line {hunk.old_start})"
    try:
        place = _closest(wanted, file, hunk.old_start)
        if place is None:
            size = f"the file ({_count(len(file.keys))})"
            expected = f"the lines that it expects, of which the first is {shown(wanted[0])}"
            return f"{refused}: nothing in {size} is like {expected}"
        window = _window(wanted, file, place)
    except NotSearched:
        return f"{refused}; the closest place was not searched any more: read the file, and look for {shown(wanted[0])}"
    if not window.differences:
        return f"{refused}: its lines stand at line {place + 1}, but {_why_not(hunk, file.lines)}"
    far = "" if hunk.old_start is None else _distance(hunk.old_start, place + 1)
    only = f" and the rest differs only in {window.likeness}" if window.likeness else ""
    same = "the line is similar" if len(wanted) == 1 else f"{window.same} of {len(wanted)} lines are the same"
    alike = f"where {same}{only}"
    return f"{refused}; closest is line {place + 1}{far}, {alike}: {'; '.join(window.differences)}"


def most_like(wanted: str, pool: Sequence[str], effort: Effort) -> str | None:
    """The text that is most like the wanted one, if any is much like it."""
    pool = pool[:MAX_POOL]
    cut = [text[:MAX_CLOSE_CHARS] for text in pool]
    if not effort.search(sum(40 + len(text) for text in cut)):
        raise NotSearched
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(wanted[:MAX_CLOSE_CHARS])
    rated: list[tuple[float, int]] = []
    for index, text in enumerate(cut):
        matcher.set_seq1(text)
        if matcher.real_quick_ratio() >= _CUTOFF and (ratio := matcher.quick_ratio()) >= _CUTOFF:
            rated.append((ratio, -index))
    close: list[tuple[float, int]] = []
    for _, index in heapq.nlargest(MAX_CLOSE, rated):
        matcher.set_seq1(cut[-index])
        if not effort.search(len(cut[-index]) * MAX_CLOSE_CHARS):
            break
        if (ratio := matcher.ratio()) >= _CUTOFF:
            close.append((ratio, index))
    return pool[-max(close)[1]] if close else None


_CUTOFF = 0.6


def listed(words: Sequence[str], *, more: bool = False) -> str:
    """`1, 2 and 3`, or `1, 2, 3 and more`."""
    *head, last = [*words, "more"] if more else words
    return f"{', '.join(head)} and {last}" if head else last


class _Window:
    """The hunk's lines beside those of the file, aligned if that is not too much work."""

    def __init__(self, wanted: Sequence[str], keys: Sequence[str], first: int, effort: Effort) -> None:
        self.wanted, self.keys, self.first = wanted, keys, first
        self.codes = _aligned(wanted, keys, effort)
        self.same = sum(i2 - i1 for tag, i1, i2, _, _ in self.codes if tag == "equal")
        self.likeness = self._likeness(effort)
        self.differences = list(islice(self._told(), MAX_SHOWN))
        count = sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in self.codes if tag != "equal")
        if count > MAX_SHOWN:
            self.differences.append(f"and {count - MAX_SHOWN} more")

    def _told(self) -> Iterator[str]:
        for tag, i1, i2, j1, j2 in self.codes:
            if tag == "equal":
                continue
            beside = min(i2 - i1, j2 - j1)
            for n in range(beside):
                yield _told_pair(self.first + j1 + 1 + n, self.wanted[i1 + n], self.keys[j1 + n])
            for text in self.wanted[i1 + beside : i2]:
                yield f"before line {self.first + j2 + 1}: expected {shown(text)}"
            for line, text in enumerate(self.keys[j1 + beside : j2], self.first + j1 + beside + 1):
                yield f"line {line}: the hunk leaves out {shown(text)}"

    def _likeness(self, effort: Effort) -> str | None:
        different = [code for code in self.codes if code[0] != "equal"]
        if not different or any(i2 - i1 != j2 - j1 for _, i1, i2, j1, j2 in different):
            return None
        pairs = [
            pair for _, i1, i2, j1, j2 in different for pair in zip(self.wanted[i1:i2], self.keys[j1:j2], strict=True)
        ]
        if not effort.search(sum(LINE + len(one) + len(other) for one, other in pairs)):
            return None
        return _likeness(pairs)


_Code = tuple[str, int, int, int, int]


def _aligned(wanted: Sequence[str], keys: Sequence[str], effort: Effort) -> list[_Code]:
    counted = Counter(keys)
    meetings = [counted[text] for text in wanted if text in counted]
    # Each line that is the same may part the texts, and each part is searched again.
    work = len(wanted) + len(keys) + sum(meetings) * len(meetings) // 2
    if work > MAX_ALIGNED or not effort.search(work):
        return _beside(wanted, keys)
    codes: list[_Code] = list(difflib.SequenceMatcher(None, wanted, keys, autojunk=False).get_opcodes())
    # What the file has before and after belongs to no line of the hunk.
    return [code for code in codes if not (code[0] == "insert" and code[1] in (0, len(wanted)))]


def _beside(wanted: Sequence[str], keys: Sequence[str]) -> list[_Code]:
    both = min(len(wanted), len(keys))
    codes = [("equal" if wanted[n] == keys[n] else "replace", n, n + 1, n, n + 1) for n in range(both)]
    return codes if both == len(wanted) else [*codes, ("delete", both, len(wanted), both, both)]


def _window(wanted: Sequence[str], file: Likeness, place: int) -> _Window:
    """Straight, or shifted where more lines are the same then: a line too many makes all that follow look different."""
    keys, effort = file.keys, file.effort
    if not effort.search(len(wanted) * 2):
        raise NotSearched
    if len(wanted) > MAX_COMPARED:
        skipped = 0
        while skipped < len(wanted) - MAX_COMPARED and keys[place + skipped : place + skipped + 1] == [wanted[skipped]]:
            skipped += 1
        here = place + skipped
        window = _Window(wanted[skipped : skipped + MAX_COMPARED], keys[here : here + MAX_COMPARED], here, effort)
        both = zip(wanted, islice(keys, place, place + len(wanted)), strict=False)
        window.same = sum(one == other for one, other in both)
        return window
    slack = min(5, len(wanted))
    first = max(0, place - slack)
    straight = _Window(wanted, keys[place : place + len(wanted)], place, effort)
    shifted = _Window(wanted, keys[first : place + len(wanted) + slack], first, effort)
    return shifted if shifted.same > straight.same else straight


def _closest(wanted: Sequence[str], file: Likeness, stated: int | None) -> int | None:
    """The index at which most of the hunk's lines stand; each line of the file votes for where the hunk would begin."""
    votes: Counter[int] = Counter()
    if file.loose is None:
        raise NotSearched
    for weigh, loosen, positions in ((4, str, file.exact), (2, _loose, file.loose)):
        for offset, text in enumerate(wanted[:MAX_VOTERS]):
            if not text.strip():
                continue
            where = positions.get(loosen(text), [])
            if not file.effort.search(_cost(text) + 2 * min(len(where), COMMON)):
                raise NotSearched
            weight = weigh if len(text.strip()) > 2 else 1
            if len(where) <= COMMON:
                for index in where:
                    votes[index - offset] += weight
    if not votes:
        return _resembling(wanted, file)
    near = (stated or 1) - 1
    best = max(votes, key=lambda at: (votes[at], -abs(at - near)))
    return min(max(best, 0), len(file.keys) - 1)


def _resembling(wanted: Sequence[str], file: Likeness) -> int | None:
    telling = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    pool = list(islice(file.exact, MAX_POOL))  # each text once, in the order of the file
    close = most_like(wanted[telling], pool, file.effort)
    return None if close is None else max(0, file.exact[close][0] - telling)


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
    return "".join(_plain(text[:MAX_LIKE_CHARS]).casefold().split())


def _cost(text: str) -> int:
    """Of loosening it."""
    chars = min(len(text), MAX_LIKE_CHARS)
    return LINE // 2 + chars // 8 if text.isascii() else LINE + chars // 2


_LOOK_ALIKE = str.maketrans("‘’‚‛“”„‟«»′″‐‑‒–—―−\u00a0\u2009\u202f", '\'\'\'\'""""""\'"-------   ')


def _plain(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_LOOK_ALIKE))


def _told_pair(line: int, wanted: str, found: str) -> str:
    expected, there = _shown_beside(wanted, found)
    return f"line {line}: expected {expected}, the file has {there}"


def shown(text: str) -> str:
    """In quotes, and cut."""
    return repr(text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…")


def _shown_beside(one: str, other: str) -> tuple[str, str]:
    """Two lines that differ, cut around the first difference; characters that only look alike are written as codes."""
    if max(len(one), len(other)) > MAX_CHARS:
        begin = max(0, _first_difference(one, other) - MAX_CHARS // 2)
        one, other = (f"{'…' if begin else ''}{text[begin : begin + MAX_CHARS]}" for text in (one, other))
    if _loose(one) == _loose(other) and not (one.isascii() and other.isascii()):
        return ascii(one), ascii(other)
    return shown(one), shown(other)


def _first_difference(one: str, other: str) -> int:
    """By halves: lines can have millions of characters."""
    same, end = 0, min(len(one), len(other))
    while same < end:
        middle = (same + end + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def _distance(stated: int, found: int) -> str:
    if stated == found:
        return ""
    return f" ({abs(found - stated)} further {'down' if found > stated else 'up'})"


def _count(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"
