"""Hunks: what a patch says, whichever form it was written in. Values only; `unified` and `freeform` make them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from holon.core.codec import Record
from holon.core.errors import AgentError
from holon.core.values import Value

MAX_FILES, MAX_HUNKS = 200, 2_000


class InvalidPatch(AgentError):
    """The text is not a patch in any form that is understood."""

    code = "invalid_patch_syntax"


class PatchAction(StrEnum):
    ADD = "add"
    MODIFY = "modify"
    DELETE = "delete"
    MOVE = "move"


class Op(StrEnum):
    CONTEXT = " "
    REMOVE = "-"
    ADD = "+"


#: By the character that begins a line; `Op(character)` is slower.
OPS = {op.value: op for op in Op}


class IgnoredMetadata(Record, frozen=True, kw_only=True):
    """Something that the patch says and that is not acted on, such as a change of mode."""

    path: str
    kind: str
    value: str


class Diagnostic(Record, frozen=True, kw_only=True):
    """Something that the reader should know about one file: a problem, or how a doubt was settled."""

    path: str
    kind: str
    message: str


class HunkLine(NamedTuple):
    op: Op
    #: Without its line feed; a carriage return before it belongs to the text.
    text: str
    #: False if the patch says that no newline follows.
    ends: bool = True


@dataclass(frozen=True)  # without slots: what is derived is kept
class Hunk:
    lines: tuple[HunkLine, ...]
    #: The line of the patch on which the hunk begins, from 1.
    patch_line: int
    #: The line of the file that the header names, from 1; None if it names none.
    old_start: int | None = None
    new_start: int | None = None
    #: Lines of the file after which the hunk comes (`@@ def greet():`).
    anchors: tuple[str, ...] = ()
    #: Whether the hunk ends where the file ends.
    at_end: bool = False
    #: What was wrong with its header, if the body settled it.
    note: str | None = None

    @cached_property
    def old(self) -> list[HunkLine]:
        return [line for line in self.lines if line.op is not Op.ADD]

    @cached_property
    def new(self) -> list[HunkLine]:
        return [line for line in self.lines if line.op is not Op.REMOVE]

    @cached_property
    def speaks_of_returns(self) -> bool:
        """Whether carriage returns are part of what it says. If not, the file's own line ends are kept."""
        return any(line.text.endswith("\r") for line in self.lines)

    @cached_property
    def speaks_of_the_end(self) -> bool:
        """Whether it says where a final newline is missing. If not, the file's own end is kept."""
        return not all(line.ends for line in self.lines)

    def undone(self) -> Hunk:
        """The hunk that takes this one back."""
        turned = {Op.ADD: Op.REMOVE, Op.REMOVE: Op.ADD, Op.CONTEXT: Op.CONTEXT}
        lines = tuple(line._replace(op=turned[line.op]) for line in self.lines)
        return replace(self, lines=lines, old_start=self.new_start, new_start=self.old_start)


class FilePatch(Value, frozen=True):
    """What is to happen to one file. An `ADD` with `from_path` is a copy."""

    action: PatchAction
    path: str
    patch_line: int
    from_path: str | None = None
    hunks: tuple[Hunk, ...] = ()
    #: A deletion that shows all lines which it deletes; they must be all that the file has.
    shows_all: bool = False
    #: Why this cannot be applied at all, known from the patch alone: (kind, message).
    refusal: tuple[str, str] | None = None
    ignored: tuple[IgnoredMetadata, ...] = ()


class Patch(Value, frozen=True):
    files: tuple[FilePatch, ...]
    ignored: tuple[IgnoredMetadata, ...] = ()


class HunkHeader(NamedTuple):
    """`@@ -3,4 +3,5 @@` in numbers, or `@@ def greet():` as an anchor, or neither."""

    old: tuple[int, int] | None = None
    new: tuple[int, int] | None = None
    anchor: str | None = None


def read_header(line: str) -> HunkHeader | None:
    """The header of a hunk; None if the line is none. What follows the second `@@` of a numbered one is decoration."""
    if numbered := _NUMBERED.match(line):
        old, old_count, new, new_count = numbered.groups()
        return HunkHeader((int(old), int(old_count or 1)), (int(new), int(new_count or 1)))
    if line != "@@" and not line.startswith("@@ "):
        return None
    anchor = line[2:].strip().removesuffix("@@").strip()
    return HunkHeader(anchor=anchor if anchor.strip(". …") else None)


_NUMBERED = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
NO_NEWLINE = "\\ No newline at end of file"


def made_hunk(lines: list[HunkLine], patch_line: int, header: HunkHeader, **more: Any) -> Hunk:
    """A hunk, checked for what neither form may say."""
    hunk = Hunk(
        tuple(lines),
        patch_line,
        old_start=header.old[0] if header.old else None,
        new_start=header.new[0] if header.new else None,
        **more,
    )
    if not lines:
        raise invalid(
            patch_line, "the hunk that begins here has no lines", "give it lines that begin with ' ', '+' or '-'"
        )
    if not all(line.ends for side in (hunk.old, hunk.new) for line in side[:-1]):
        raise invalid(
            patch_line,
            f"{NO_NEWLINE!r} stands in the middle of the hunk that begins here",
            "put it after the last old line, the last new line, or both",
        )
    return hunk


def refuse_many(line: int, *, files: int = 0, hunks: int = 0) -> None:
    """As soon as there are too many: the rest need not be read."""
    if files > MAX_FILES or hunks > MAX_HUNKS:
        raise invalid(line, f"it has more than {MAX_FILES} files or {MAX_HUNKS:,} hunks", "send it in parts")


def invalid(line: int, message: str, hint: str) -> InvalidPatch:
    return InvalidPatch(f"line {line} of the patch: {message}", hint=hint, field="patch", line=line)
