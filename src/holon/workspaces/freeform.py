"""The freeform grammar: `*** Begin Patch` … `*** End Patch`, which OpenAI-family models write without being taught.

Its hunks have no numbers: `@@ some line` says after which line of the file they come. Numbers are understood too.
"""

from __future__ import annotations

from holon.workspaces.hunks import (
    NO_NEWLINE,
    OPS,
    FilePatch,
    Hunk,
    HunkHeader,
    HunkLine,
    Op,
    Patch,
    PatchAction,
    invalid,
    made_hunk,
    read_header,
    refuse_many,
)
from holon.workspaces.quoting import not_too_long

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE = "*** Add File:", "*** Update File:", "*** Delete File:"
_MOVE, _END_OF_FILE = "*** Move to:", "*** End of File"

#: Each goes inward from the one before it.
MAX_ANCHORS = 16

_EXAMPLE = f"{BEGIN}\n{_UPDATE} path\n@@\n unchanged line\n-old line\n+new line\n{END}\n"


def parse_freeform(text: str) -> Patch:
    """The patch that a text in the freeform grammar is."""
    lines = [line.rstrip("\r") if line.startswith("***") else line for line in text.split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    begin = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if not lines or lines[begin].strip() != BEGIN:
        raise invalid(begin + 1, f"it does not begin with {BEGIN!r}", f"write it like this:\n{_EXAMPLE}")
    if lines[-1].strip() != END:
        raise invalid(len(lines), f"the patch is cut off: {END!r} is missing", "send the whole patch")
    reader = _Reader(lines[:-1], begin + 1)
    files: list[FilePatch] = []
    while reader.more():
        files += reader.file()
        refuse_many(reader.at, files=len(files), hunks=reader.hunks)
    if not files:
        raise invalid(len(lines), "no file section was found", f"write it like this:\n{_EXAMPLE}")
    return Patch(tuple(files))


class _Reader:
    def __init__(self, lines: list[str], at: int) -> None:
        self.lines, self.at, self.hunks = lines, at, 0

    def more(self) -> bool:
        return self.at < len(self.lines)

    def file(self) -> list[FilePatch]:
        """The section that begins here; none for a blank line between sections."""
        line, first = self.lines[self.at], self.at + 1
        self.at += 1
        if not line.strip():
            return []
        for mark, read in ((_ADD, self._add), (_UPDATE, self._update), (_DELETE, self._delete)):
            if line.startswith(mark):
                return [read(_name(line, mark, first), first)]
        raise invalid(
            first,
            f"{line[:60]!r} begins no section",
            f"begin a section with '{_ADD} path', '{_UPDATE} path' or '{_DELETE} path'",
        )

    def _add(self, path: str, first: int) -> FilePatch:
        added: list[HunkLine] = []
        while self.more() and self.lines[self.at].startswith(("+", "\\")):
            self._take(added)
        self._refuse_rest("begin each line of an added file with '+'")
        hunks = (made_hunk(added, first + 1, HunkHeader()),) if added else ()
        return FilePatch(PatchAction.ADD, path, first, hunks=hunks)

    def _delete(self, path: str, first: int) -> FilePatch:
        self._refuse_rest("leave out what follows a deleted file's name")
        return FilePatch(PatchAction.DELETE, path, first)

    def _update(self, path: str, first: int) -> FilePatch:
        target = None
        if self.more() and self.lines[self.at].startswith(_MOVE):
            target = _name(self.lines[self.at], _MOVE, self.at + 1)
            self.at += 1
        hunks: list[Hunk] = []
        while self.more() and not self._at_border():
            if self._only_blank_follows():
                break
            hunks.append(self._hunk())
            self.hunks += 1
            refuse_many(self.at, hunks=self.hunks)
        self._refuse_rest("begin each line of a hunk with ' ' (unchanged), '-' (old) or '+' (new)")
        if target is not None:
            return FilePatch(PatchAction.MOVE, target, first, from_path=path, hunks=tuple(hunks))
        if not hunks:
            raise invalid(first, f"the section of {path!r} changes nothing", "give it a hunk that begins with @@")
        return FilePatch(PatchAction.MODIFY, path, first, hunks=tuple(hunks))

    def _hunk(self) -> Hunk:
        first = self.at + 1
        anchors: list[str] = []
        header = HunkHeader()
        while self.more() and (found := read_header(self.lines[self.at].rstrip("\r"))):
            if found.anchor:
                anchors.append(found.anchor)
                if len(anchors) > MAX_ANCHORS:
                    raise invalid(
                        self.at + 1,
                        f"more than {MAX_ANCHORS} @@ lines before one hunk",
                        "the innermost ones are enough",
                    )
            elif found.old:
                header = found
            self.at += 1
        body: list[HunkLine] = []
        blank_end = 0
        while self.more() and (not self.lines[self.at].strip("\r") or self.lines[self.at][0] in " +-\\"):
            blank_end = 0 if self.lines[self.at].strip("\r") else blank_end + 1
            self._take(body)
        at_end = self.more() and self.lines[self.at].strip() == _END_OF_FILE
        if at_end:
            self.at += 1
        elif blank_end:  # blank lines before the next section are layout, not context
            del body[-blank_end:]
        if not body and self.more() and not self._at_border():
            self._refuse_rest("begin each line of a hunk with ' ' (unchanged), '-' (old) or '+' (new)")
        return made_hunk(body, first, header, anchors=tuple(anchors), at_end=at_end)

    def _take(self, body: list[HunkLine]) -> None:
        line = self.lines[self.at]
        self.at += 1
        if line.startswith("\\"):
            if not body or line.rstrip() != NO_NEWLINE:
                raise invalid(self.at, f"{line[:60]!r} is no line of a hunk", f"only {NO_NEWLINE!r} begins like this")
            body[-1] = body[-1]._replace(ends=False)
        elif not line.strip("\r"):
            body.append(HunkLine(Op.CONTEXT, line))
        else:
            body.append(HunkLine(OPS[line[0]], line[1:]))

    def _at_border(self) -> bool:
        return self.lines[self.at].startswith("***")

    def _only_blank_follows(self) -> bool:
        """Blank is a line without anything: one with a space is an unchanged empty line."""
        ahead = self.at
        while ahead < len(self.lines) and not self.lines[ahead].strip("\r"):
            ahead += 1
        return ahead > self.at and (ahead == len(self.lines) or self.lines[ahead].startswith("***"))

    def _refuse_rest(self, hint: str) -> None:
        """A section ends before the next one, or before nothing; blank lines may come between."""
        ahead = self.at
        while ahead < len(self.lines) and not self.lines[ahead].strip():
            ahead += 1
        if ahead < len(self.lines) and not self.lines[ahead].startswith("***"):
            raise invalid(ahead + 1, f"{self.lines[ahead][:60]!r} does not belong here", hint)
        self.at = ahead


def _name(line: str, mark: str, number: int) -> str:
    name = line[len(mark) :].strip()
    if not name:
        raise invalid(number, "a name is missing", f"write '{mark} path'")
    return not_too_long(name, number)
