"""Unified diffs, as `diff -u` and `git diff` write them and as models write them from memory.

What the hunks show is taken literally. Numbers are hints, and counts that the body contradicts are corrected, unless
the patch may have been cut off. Modes, hashes and similarities are not acted on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice

from holon.workspaces.hunks import (
    OPS,
    FilePatch,
    Hunk,
    HunkHeader,
    HunkLine,
    IgnoredMetadata,
    Op,
    Patch,
    PatchAction,
    invalid,
    made_hunk,
    read_header,
    refuse_many,
)
from holon.workspaces.quoting import read_name, read_pair, without_prefixes

#: For a custom tool whose input is a unified diff (Lark, as the providers' grammar tools take it).
GRAMMAR = r"""start: file+
file: git_line note* (old_file new_file hunk+)? | old_file new_file hunk+
git_line: "diff --git " TEXT LF
note: NOTE TEXT LF
NOTE: /(old mode|new mode|new file mode|deleted file mode|similarity index|rename from|rename to|index) /
old_file: "--- " TEXT LF
new_file: "+++ " TEXT LF
hunk: "@@ -" range " +" range " @@" heading? LF line+
range: INT ("," INT)?
heading: " " TEXT
line: (" " | "+" | "-") TEXT? LF no_newline?
no_newline: "\\ No newline at end of file" LF
TEXT: /[^\n]+/
%import common.INT
%import common.LF
"""

_EXAMPLE = "--- a/path\n+++ b/path\n@@ -1,2 +1,2 @@\n unchanged line\n-old line\n+new line\n"


def parse_unified(text: str) -> Patch:
    """The patch that a unified diff is. Prose around its sections is passed over and reported."""
    return _Reader(text).read()


#: Lines between `diff --git` and the hunks: what they begin with, and what becomes of the rest.
_NOTES: list[tuple[str, str]] = [
    ("old mode ", "old_mode"),
    ("new mode ", "new_mode"),
    ("new file mode ", "new_file_mode"),
    ("deleted file mode ", "deleted_file_mode"),
    ("rename from ", "rename_from"),
    ("rename to ", "rename_to"),
    ("copy from ", "copy_from"),
    ("copy to ", "copy_to"),
    ("similarity index ", "similarity_index"),
    ("dissimilarity index ", "dissimilarity_index"),
    ("index ", "index"),
]
_REPORTED = ("old_mode", "new_mode", "similarity_index", "dissimilarity_index")
_NOTE_CHARS = 80
_BINARY = ("GIT binary patch", "Binary files ")
#: Lines that tools put around their sections; nobody misses them.
_DECORATION = re.compile(r"(Index: |={5,}|From |Date: |Subject: |Only in |diff |-- ?$|\d+\.\d+|---$|```|\s*$| .+\|)")


@dataclass
class _Section:
    line: int
    names: tuple[str, str] | None = None
    notes: dict[str, str] = field(default_factory=dict)
    old: str | None = None
    new: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    binary: bool = False


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self.at = 0
        #: The last two lines that are not blank, from the end.
        self.last = list(islice((index for index in reversed(range(len(self.lines))) if self.lines[index].strip()), 2))
        self.hunks = 0
        self.passed: list[IgnoredMetadata] = []

    def read(self) -> Patch:
        files: list[FilePatch] = []
        while self.at < len(self.lines):
            if self._starts_file():
                files.append(_made_file(self._section()))
                refuse_many(self.at, files=len(files))
                continue
            if read_header(self.lines[self.at]):
                raise invalid(self.at + 1, "a hunk without a file", "put '--- a/path' and '+++ b/path' before it")
            self._pass_over(files)
        if not files:
            raise invalid(1, "no file section was found", f"write it like this:\n{_EXAMPLE}")
        return Patch(tuple(files), ignored=tuple(self.passed))

    def _pass_over(self, files: list[FilePatch]) -> None:
        line = self.lines[self.at]
        if line.startswith("@@@"):
            raise invalid(self.at + 1, "a combined diff of a merge", "make a diff against one parent")
        if files and line.startswith(("+", "-")) and not (line == "---" or self._at_signature()):
            raise invalid(self.at + 1, f"{line[:60]!r} is in no hunk", "begin each hunk with a line '@@ -N,n +N,n @@'")
        if files and not _DECORATION.match(line) and len(self.passed) < 5:
            self.passed.append(IgnoredMetadata(path=files[-1].path, kind="text", value=line[:_NOTE_CHARS]))
        self.at += 1

    def _starts_file(self) -> bool:
        return self.lines[self.at].startswith("diff --git ") or self._starts_names()

    def _starts_names(self) -> bool:
        """`---` and `+++`: alone, either could be a line of a hunk."""
        following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        return self.lines[self.at].startswith("--- ") and following.startswith("+++ ")

    def _section(self) -> _Section:
        section = _Section(self.at + 1)
        if self.lines[self.at].startswith("diff --git "):
            section.names = read_pair(self.lines[self.at][len("diff --git ") :].rstrip("\r"), self.at + 1)
            self.at += 1
            self._read_notes(section)
        if self.at < len(self.lines) and self._starts_names():
            section.old = read_name(self.lines[self.at][4:], self.at + 1)
            section.new = read_name(self.lines[self.at + 1][4:], self.at + 2)
            self.at += 2
            self._read_hunks(section)
        return section

    def _read_notes(self, section: _Section) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at].rstrip("\r")
            known = next((note for note in _NOTES if line.startswith(note[0])), None)
            if known:
                value = line[len(known[0]) :]
                is_name = known[1].startswith(("rename", "copy"))
                section.notes[known[1]] = read_name(value, self.at + 1) if is_name else value[:_NOTE_CHARS]
            elif line.startswith(_BINARY):
                section.binary = True
                while self.at < len(self.lines) and not self._starts_file():
                    self.at += 1
                return
            else:
                return
            self.at += 1

    def _read_hunks(self, section: _Section) -> None:
        while self.at < len(self.lines):
            first = self.at + 1
            header = read_header(self.lines[self.at].rstrip("\r"))
            if header is None:
                break
            self.at += 1
            section.hunks.append(self._numbered(header, first) if header.old else self._unnumbered(header, first))
            self.hunks += 1
            refuse_many(first, hunks=self.hunks)
        if not section.hunks:
            raise invalid(section.line, "a file section without hunks", "give it at least one hunk that begins with @@")

    def _numbered(self, header: HunkHeader, first: int) -> Hunk:
        """By its counts; if the body goes on or stops short, by its body, and the hunk says so."""
        assert header.old
        assert header.new
        wanted = (header.old[1], header.new[1])
        body, counted = _Body(), (0, 0)
        while counted[0] < wanted[0] or counted[1] < wanted[1]:
            if self.at == len(self.lines) or not _is_body(self.lines[self.at]) or self._next_file(counted, wanted):
                break
            body.take(self.lines[self.at], self.at + 1)
            self.at += 1
            counted = body.counted()
        self._take_marks(body)
        if counted == wanted and not self._overflows():
            return made_hunk(body.lines, first, header)
        self._take_rest(body)
        counted = body.counted()
        says = (
            f"its header counts {wanted[0]} old and {wanted[1]} new lines, its body has {counted[0]} and {counted[1]}"
        )
        short = counted[0] < wanted[0] or counted[1] < wanted[1]
        if self.at < len(self.lines) and not self._at_border():
            raise self._unprefixed()
        if short and self.at == len(self.lines):
            raise invalid(first, f"the hunk is cut off: {says}", "send the whole patch, or correct the counts")
        return made_hunk(body.lines, first, header, note=f"{says}; the body was taken")

    def _unnumbered(self, header: HunkHeader, first: int) -> Hunk:
        body = _Body()
        self._take_rest(body)
        if self.at < len(self.lines) and not self._at_border():
            raise self._unprefixed()
        return made_hunk(body.lines, first, header, anchors=(header.anchor,) if header.anchor else ())

    def _take_rest(self, body: _Body) -> None:
        """Until something that is no line of a hunk. Blank lines at the end are layout, not context."""
        while self.at < len(self.lines) and _is_body(self.lines[self.at]) and not self._at_border():
            body.take(self.lines[self.at], self.at + 1)
            self.at += 1
        body.drop_blank_end()

    def _take_marks(self, body: _Body) -> None:
        while self.at < len(self.lines) and self.lines[self.at].startswith("\\"):
            body.take(self.lines[self.at], self.at + 1)
            self.at += 1

    def _at_border(self) -> bool:
        line = self.lines[self.at]
        return self._starts_file() or line.startswith(("@@", "```")) or self._at_signature()

    def _at_signature(self) -> bool:
        """Whether here is what mail programs and `git format-patch` end with, and not the removal of a dash."""
        if self.lines[self.at].rstrip() != "--":
            return False
        rest = [index for index in self.last if index > self.at]
        return len(rest) <= 1 and not any(self.lines[index][0] in " +-@" for index in rest)

    def _next_file(self, counted: tuple[int, int], wanted: tuple[int, int]) -> bool:
        """Whether `---` and `+++` inside the counts are the next file, because the header counted too many lines."""
        if not self._starts_names():
            return False
        third = self.lines[self.at + 2] if self.at + 2 < len(self.lines) else ""
        completes = (counted[0] + 1, counted[1] + 1) == wanted
        return read_header(third.rstrip("\r")) is not None and not completes

    def _overflows(self) -> bool:
        """Whether lines of the hunk go on after its counts are used up."""
        ahead = self.at
        while ahead < len(self.lines) and not self.lines[ahead].strip():
            ahead += 1
        here, self.at = self.at, ahead
        try:
            return ahead < len(self.lines) and self.lines[ahead][0] in " +-" and not self._at_border()
        finally:
            self.at = here

    def _unprefixed(self) -> Exception:
        shown = self.lines[self.at][:60]
        return invalid(
            self.at + 1,
            f"{shown!r} is in a hunk and begins with {shown[:1]!r}",
            "begin each line of a hunk with ' ' (unchanged), '-' (old) or '+' (new)",
        )


class _Body:
    """The lines of one hunk as they come in."""

    def __init__(self) -> None:
        self.lines: list[HunkLine] = []
        self.old = self.new = 0
        self.blank_end = 0

    def take(self, line: str, number: int) -> None:
        if line.startswith("\\"):
            if not self.lines:
                raise invalid(number, "it says that a newline is missing, but no line comes before it", "leave it out")
            self.lines[-1] = self.lines[-1]._replace(ends=False)
            return
        # Editors and models drop the space of an empty context line.
        blank = not line.strip("\r")
        op = Op.CONTEXT if blank else OPS[line[0]]
        self.lines.append(HunkLine(op, line if blank else line[1:]))
        self.old += op is not Op.ADD
        self.new += op is not Op.REMOVE
        self.blank_end = self.blank_end + 1 if blank else 0

    def counted(self) -> tuple[int, int]:
        return self.old, self.new

    def drop_blank_end(self) -> None:
        if self.blank_end:
            del self.lines[-self.blank_end :]
            self.old -= self.blank_end
            self.new -= self.blank_end
            self.blank_end = 0


def _is_body(line: str) -> bool:
    return not line.strip("\r") or line[0] in " +-\\"


def _made_file(section: _Section) -> FilePatch:
    notes = section.notes
    old, new = _names(section)
    if "rename_from" in notes:
        action, path, source = PatchAction.MOVE, new, old
    elif "copy_from" in notes:
        action, path, source = PatchAction.ADD, new, old
    elif old is None or "new_file_mode" in notes:
        action, path, source = PatchAction.ADD, new, None
    elif new is None or "deleted_file_mode" in notes:
        action, path, source = PatchAction.DELETE, old, None
    else:
        action, path, source = PatchAction.MODIFY, new, None
        if old != new:
            raise invalid(
                section.line,
                f"the old name {old!r} and the new name {new!r} differ",
                "name the same file in '---' and '+++'; to move a file, add 'rename from' and 'rename to' lines",
            )
        if not (section.hunks or section.binary or "new_mode" in notes):
            raise invalid(section.line, f"the section of {new!r} changes nothing", "give it a hunk that begins with @@")
    if path is None:
        raise invalid(section.line, "both names are /dev/null", "name the file that is added or deleted")
    return FilePatch(
        action,
        path,
        section.line,
        from_path=source,
        hunks=tuple(section.hunks),
        shows_all=True,
        refusal=_refusal(section),
        ignored=tuple(_ignored(path, notes)),
    )


def _names(section: _Section) -> tuple[str | None, str | None]:
    """The old and the new name without `a/` and `b/`; None stands for /dev/null."""
    notes = section.notes
    for kind in ("rename", "copy"):
        if f"{kind}_from" in notes or f"{kind}_to" in notes:
            if not (notes.get(f"{kind}_from") and notes.get(f"{kind}_to")):
                raise invalid(section.line, f"'{kind} from' without '{kind} to', or the reverse", "give both lines")
            source, target = notes[f"{kind}_from"], notes[f"{kind}_to"]
            if not (_agrees(section.old, source) and _agrees(section.new, target)):
                raise invalid(
                    section.line,
                    f"'---' and '+++' name other files than '{kind} from' and '{kind} to'",
                    "let both agree",
                )
            return source, target
    names = (section.old, section.new) if section.old and section.new else section.names
    if names is None:
        raise invalid(section.line, "the names after 'diff --git' are not clear", "add '---' and '+++' lines")
    if section.names and section.names[0] == section.names[1]:  # made with --no-prefix
        old, new = (None if name == "/dev/null" else name for name in names)
        return old, new
    return without_prefixes(*names)


def _agrees(name: str | None, other: str) -> bool:
    return name is None or name == other or name.endswith(f"/{other}")


def _refusal(section: _Section) -> tuple[str, str] | None:
    if section.binary:
        return "binary_patch", "is changed by a binary diff: a patch works on text; use a command"
    modes = [section.notes.get(kind, "") for kind in ("old_mode", "new_mode", "new_file_mode", "deleted_file_mode")]
    special = next((mode for mode in modes if mode[:3] in ("120", "160", "040")), None)
    if special:
        what = {"120": "a symbolic link", "160": "a submodule", "040": "a folder"}[special[:3]]
        return "special_mode", f"is {what} (mode {special}): a patch works on regular files; use a command"
    return None


def _ignored(path: str, notes: dict[str, str]) -> list[IgnoredMetadata]:
    kept = [(kind, notes[kind]) for kind in _REPORTED if kind in notes]
    mode = notes.get("new_file_mode", "100644")
    if mode != "100644":
        kept.append(("new_file_mode", mode))
    return [IgnoredMetadata(path=path, kind=kind, value=value) for kind, value in kept]
