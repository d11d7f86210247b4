"""Lines: a file's text as lines that know how they end, so that what a patch does not touch stays byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

BOM = "\ufeff"


class Line(NamedTuple):
    text: str
    #: "\n", "\r\n", or nothing at the end of a file without a final newline.
    eol: str

    @property
    def raw(self) -> str:
        """As a diff shows it: a carriage return belongs to the text."""
        return self.text + self.eol.removesuffix("\n")


def split(content: bytes) -> list[Line]:
    """Only line feeds end a line: form feeds, U+2028 and their like are text. Bytes that are no UTF-8 survive."""
    parts = content.decode("utf-8", "surrogateescape").split("\n")
    last = parts.pop()
    lines = [Line(part[:-1], "\r\n") if part.endswith("\r") else Line(part, "\n") for part in parts]
    return [*lines, Line(last, "")] if last else lines


def join(lines: Iterable[Line]) -> bytes:
    return "".join([line.text + line.eol for line in lines]).encode("utf-8", "surrogateescape")


def usual_eol(lines: Sequence[Line]) -> str:
    """What most lines end with."""
    counted = Counter(line.eol for line in lines if line.eol)
    return "\r\n" if counted["\r\n"] > counted["\n"] else "\n"


def is_binary(content: bytes) -> bool:
    return b"\0" in content
