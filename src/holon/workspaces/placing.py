"""Placing: where in a file a hunk fits, exactly, and what the file is afterwards. Pure.

There is no fuzz: every context and removed line must be there as the hunk has it. A header's line number may be wrong
if the lines are in one place only. What a hunk does not speak of (line ends, a missing final newline) is kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from holon.core.values import Value
from holon.workspaces.effort import LINE, Effort
from holon.workspaces.hunks import Hunk, Op
from holon.workspaces.lines import Line, usual_eol
from holon.workspaces.mismatches import Likeness, explain, listed, shown

#: As many places are looked for; more are only said to exist.
MAX_CANDIDATES = 20
#: Of one file's hunks that do not fit, as many are explained at length; after so many the rest is not tried.
MAX_EXPLAINED, MAX_MISFITS = 5, 50


class Placed(Value, frozen=True):
    hunk: Hunk
    #: Index of the first line of the file that the hunk covers.
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.hunk.old)


class Remark(Value, frozen=True):
    """Why a hunk was not placed, or where it was placed instead."""

    kind: str
    message: str


@dataclass(slots=True)
class Placement:
    placed: list[Placed] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    misfits: list[Remark] = field(default_factory=list)

    @property
    def already_applied(self) -> bool:
        return not self.placed and bool(self.misfits) and all(it.kind == "already_applied" for it in self.misfits)


def place(hunks: Sequence[Hunk], lines: Sequence[Line], effort: Effort | None = None) -> Placement:
    """Each hunk after the one before it. A hunk that does not fit is remarked on, and the next is still tried.
    `TooMuchWork` if the effort does not suffice."""
    file, result = _File(lines, effort or Effort()), Placement()
    start, trusted = 0, True
    for number, hunk in enumerate(hunks, 1):
        if len(result.misfits) == MAX_MISFITS:
            result.misfits.append(
                Remark("not_tried", f"the other {len(hunks) - number + 1} hunks were not tried any more")
            )
            break
        name = f"hunk {number} (patch line {hunk.patch_line})"
        found = file.find(hunk, start, trusted)
        if len(found) == 1:
            at = found[0]
            if hunk.old_start is not None and hunk.old:
                trusted = at == hunk.old_start - 1
                if not trusted:
                    result.notes.append(_moved(name, hunk.old_start, at + 1))
            if hunk.note:
                result.notes.append(Remark("hunk_counts_corrected", f"{name}: {hunk.note}"))
            result.placed.append(Placed(hunk, at))
            start = at + len(hunk.old)
        elif (applied := file.find_applied(hunk, start, trusted)) is not None:
            message = f"{name} is applied already: its result stands at line {applied + 1}"
            result.misfits.append(Remark("already_applied", message))
            start = applied + len(hunk.new)
        else:
            result.misfits.append(_misfit(name, hunk, file, start, found, brief=len(result.misfits) >= MAX_EXPLAINED))
    return result


def edit(lines: Sequence[Line], placed: Sequence[Placed]) -> list[Line]:
    """The file's lines with the placed hunks carried out."""
    usual, done = usual_eol(lines), 0
    after: list[Line] = []
    for it in placed:
        after += lines[done : it.at]
        after += _carried_out(it, lines, usual)
        done = it.end
    after += lines[done:]
    return _ended(after, lines, placed, usual)


class _File:
    """A file's lines, and what they are compared by: with their carriage returns or without."""

    def __init__(self, lines: Sequence[Line], effort: Effort) -> None:
        effort.place(len(lines) * LINE)
        self.lines, self.effort = lines, effort
        self._likenesses: dict[bool, Likeness] = {}

    @cached_property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]

    @cached_property
    def raws(self) -> list[str]:
        return [line.raw for line in self.lines]

    @cached_property
    def text_places(self) -> dict[str, list[int]]:
        return _standing(self.texts)

    @cached_property
    def raw_places(self) -> dict[str, list[int]]:
        return _standing(self.raws)

    @cached_property
    def margin_places(self) -> dict[str, list[int]]:
        """Where each text stands, whatever is around it: anchors are found by it."""
        self.effort.place(len(self.lines) * LINE)
        return _standing([text.strip() for text in self.texts])

    def keys(self, hunk: Hunk) -> list[str]:
        return self.raws if hunk.speaks_of_returns else self.texts

    def places(self, hunk: Hunk) -> dict[str, list[int]]:
        return self.raw_places if hunk.speaks_of_returns else self.text_places

    def likeness(self, hunk: Hunk) -> Likeness:
        """What is known of the file for hunks that fit nowhere; made once for all of them."""
        returns = hunk.speaks_of_returns
        if returns not in self._likenesses:
            self._likenesses[returns] = Likeness(self.lines, self.keys(hunk), self.places(hunk), self.effort)
        return self._likenesses[returns]

    def find(self, hunk: Hunk, start: int, trusted: bool) -> list[int]:
        """The places where the hunk may go: one, or none, or several that nothing decides between."""
        if not hunk.old:
            return self._find_gap(hunk, start)
        # Once a hunk was found elsewhere, the numbers of the next ones are no evidence any more.
        if trusted and hunk.old_start is not None and self._fits_at(hunk, hunk.old_start - 1, start):
            return [hunk.old_start - 1]
        if not hunk.anchors:
            return list(islice(self.fits(hunk, start), MAX_CANDIDATES + 1))
        return self._find_anchored(hunk, start)

    def find_applied(self, hunk: Hunk, start: int, trusted: bool) -> int | None:
        """Where the hunk's result stands already, if it does and if its lines are telling enough to say so."""
        undone = hunk.undone()
        if not undone.old or undone.lines == hunk.lines:
            return None
        found = self.find(undone, start, trusted)
        if len(found) != 1:
            return None
        telling = sum(len(line.text.strip()) for line in undone.old) >= 3 or undone.old_start == found[0] + 1
        return found[0] if telling else None

    def fits(self, hunk: Hunk, start: int) -> Iterator[int]:
        """Every place from `start` on, found by the line of the hunk that is rarest, or else by looking at all."""
        self.effort.place(len(hunk.old) * 4)
        wanted, places = [line.text for line in hunk.old], self.places(hunk)
        rarest = min(range(len(wanted)), key=lambda index: len(places.get(wanted[index], ())))
        spots = places.get(wanted[rarest], [])
        if len(spots) * len(wanted) <= len(self.lines):
            found = self._beside(spots, rarest, wanted, start, self.keys(hunk))
        else:
            found = _occurrences(self.keys(hunk), wanted, start, self.effort)
        yield from (at for at in found if self._ends_agree(hunk, at))

    def _beside(self, spots: list[int], rarest: int, wanted: list[str], start: int, keys: list[str]) -> Iterator[int]:
        for index in range(bisect_left(spots, start + rarest), len(spots)):
            self.effort.place(2 + len(wanted) // 4)
            at = spots[index] - rarest
            if keys[at : at + len(wanted)] == wanted:
                yield at

    def _fits_at(self, hunk: Hunk, at: int, start: int) -> bool:
        if at < start or self.keys(hunk)[at : at + len(hunk.old)] != [line.text for line in hunk.old]:
            return False
        return self._ends_agree(hunk, at)

    def _ends_agree(self, hunk: Hunk, at: int) -> bool:
        reaches_end = at + len(hunk.old) == len(self.lines)
        if hunk.at_end and not reaches_end:
            return False
        if not hunk.speaks_of_the_end:
            return True
        return reaches_end and all(line.ends == bool(self.lines[at + i].eol) for i, line in enumerate(hunk.old))

    def _find_gap(self, hunk: Hunk, start: int) -> list[int]:
        """Where a hunk goes that shows no line of the file: only where something other than its number says so."""
        if not self.lines or hunk.at_end:
            return [len(self.lines)]
        return [anchor + 1 for anchor in self._anchored(hunk, start)[: MAX_CANDIDATES + 1]]

    def _find_anchored(self, hunk: Hunk, start: int) -> list[int]:
        """The first place after each one of the last anchor."""
        found: list[int] = []
        anchors, next_one = self._anchored(hunk, start), 0
        while next_one < len(anchors) and len(found) <= MAX_CANDIDATES:
            at = next(self.fits(hunk, max(start, anchors[next_one] + 1)), None)
            if at is None:
                break
            found.append(at)
            next_one = bisect_left(anchors, at, next_one)  # those before it lead to the same place
        return found

    def _anchored(self, hunk: Hunk, start: int) -> list[int]:
        """Where the last anchor stands: the first one after each place of those before it. Margins do not count."""
        if not hunk.anchors:
            return []
        first, *inner = [self.margin_places.get(anchor.strip(), []) for anchor in hunk.anchors]
        # An anchor may be the line on which the hunk before it ended.
        places = first[bisect_left(first, start - 1) :]
        self.effort.place(len(places))
        for standing in inner:
            self.effort.place(len(places) * 8)
            places = sorted(_next_after(places, standing))
        return places


def _standing(keys: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        places[key].append(index)
    return places


def _next_after(places: Iterable[int], ordered: Sequence[int]) -> set[int]:
    """For each place, the first number after it, where there is one."""
    found = (bisect_right(ordered, place) for place in places)
    return {ordered[index] for index in found if index < len(ordered)}


def _occurrences(keys: Sequence[str], wanted: Sequence[str], start: int, effort: Effort) -> Iterator[int]:
    """Every index from `start` at which `wanted` stands, in linear time (Knuth, Morris, Pratt): input can be odd."""
    effort.place(len(wanted) * 4)
    borders, width = [0], 0
    for key in wanted[1:]:
        while width and key != wanted[width]:
            width = borders[width - 1]
        width += key == wanted[width]
        borders.append(width)
    matched = 0
    for index in range(start, len(keys)):
        if (index - start) % _STRIDE == 0:
            effort.place(min(_STRIDE, len(keys) - index) * 2)
        key = keys[index]
        while matched and (matched == len(wanted) or key != wanted[matched]):
            matched = borders[matched - 1]
        matched += key == wanted[matched]
        if matched == len(wanted):
            yield index - len(wanted) + 1


#: As many lines are paid for at a time: who stops early has not paid for all.
_STRIDE = 256


def _carried_out(it: Placed, lines: Sequence[Line], usual: str) -> Iterator[Line]:
    returns, at = it.hunk.speaks_of_returns, it.at
    nearest = lines[at].eol if it.hunk.old else ""
    for line in it.hunk.lines:
        if line.op is not Op.ADD:
            nearest = lines[at].eol or nearest
            if line.op is Op.CONTEXT:
                yield lines[at]
            at += 1
        elif not line.ends:
            yield Line(line.text, "")
        elif line.text.endswith("\r"):
            yield Line(line.text[:-1], "\r\n")
        else:
            yield Line(line.text, "\n" if returns else nearest or usual)


def _ended(after: list[Line], lines: Sequence[Line], placed: Sequence[Placed], usual: str) -> list[Line]:
    """Line ends where lines now meet that did not before, and the final newline as the file or the hunk has it."""
    whole = [line if line.eol else Line(line.text, usual) for line in after[:-1]] + after[-1:]
    if not whole or (placed and placed[-1].hunk.speaks_of_the_end):
        return whole
    last = whole[-1]
    missed = bool(lines) and not lines[-1].eol
    whole[-1] = Line(last.text, "" if missed else last.eol or usual)
    return whole


def _moved(name: str, stated: int, found: int) -> Remark:
    distance = abs(found - stated)
    return Remark(
        "hunk_moved",
        f"{name} says line {stated}; its lines are only at line {found}, {distance} {_lines(distance)} further "
        f"{'down' if found > stated else 'up'}, and it was applied there",
    )


def _misfit(name: str, hunk: Hunk, file: _File, start: int, found: list[int], *, brief: bool) -> Remark:
    if len(found) > 1:
        places = listed([str(at + 1) for at in found[:MAX_CANDIDATES]], more=len(found) > MAX_CANDIDATES)
        advice = "add unchanged lines around it until it fits in one place, or give its line number as @@ -N,… +N,… @@"
        return Remark("ambiguous_context", f"{name} fits at lines {places}: {advice}")
    if absent := [anchor for anchor in hunk.anchors if anchor.strip() not in file.margin_places]:
        return Remark("anchor_not_found", f"{name}: no line of the file is {shown(absent[0])}, which its @@ line names")
    if not hunk.old:
        advice = "keep an unchanged line before or after the added ones"
        return Remark("no_context", f"{name} only adds lines and does not say where: {advice}")
    earlier = next(file.fits(hunk, 0), None)
    if earlier is not None and earlier < start:
        advice = "put hunks in the order of the file, and join hunks that share lines"
        return Remark(
            "hunk_order", f"{name} fits at line {earlier + 1}, before the end of the hunk ahead of it: {advice}"
        )
    return Remark(
        "context_not_found", f"{name} {'does not fit either' if brief else explain(hunk, file.likeness(hunk))}"
    )


def _lines(number: int) -> str:
    return "line" if number == 1 else "lines"
