"""Names as diffs write them: quoted like C strings, followed by a time, with `a/` and `b/` before them."""

from __future__ import annotations

import re

from holon.workspaces.hunks import InvalidPatch, invalid
from holon.workspaces.roots import MAX_PATH_BYTES

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
#: What git puts before names, by setting: old side and new side.
_PREFIXES = {("a", "b"), ("i", "w"), ("c", "i"), ("c", "w"), ("o", "w"), ("1", "2")}


def read_name(text: str, line: int) -> str:
    """The name in a header line; what follows a tab is a time."""
    text = text.rstrip("\r")
    if text.startswith('"'):
        quoted = _QUOTED.match(text)
        name = _unquoted(quoted.group(), line) if quoted else None
        if name is None:
            raise invalid(line, f"the quoted name {text[:60]} cannot be read", "write the name without quotes")
    else:
        name = text.split("\t")[0] if "\t" in text else text.rstrip(" ")
    if not name:
        raise invalid(line, "a name is missing", "write '--- a/path' and '+++ b/path'")
    return not_too_long(name, line)


def not_too_long(name: str, line: int) -> str:
    """The name, if any file can have it: errors and results repeat it."""
    if len(name) > MAX_PATH_BYTES:
        raise _too_long(name, line)
    return name


def read_pair(text: str, line: int) -> tuple[str, str] | None:
    """Both names of a `diff --git` line, which separates them by a space and does not quote spaces; None if unclear."""
    if '"' in text:
        pair = _read_quoted_pair(text, line)
    else:
        # Names that agree, but for one letter before each, have the same length.
        middle = len(text) // 2
        old, new = text[:middle], text[middle + 1 :]
        prefixed = old[1:2] == new[1:2] == "/" and old[2:] == new[2:] and (old[0], new[0]) in _PREFIXES
        pair = (old, new) if text[middle : middle + 1] == " " and (old == new or prefixed) else None
    return pair and (not_too_long(pair[0], line), not_too_long(pair[1], line))


def without_prefixes(old: str, new: str) -> tuple[str | None, str | None]:
    """Without `a/` and `b/`, which belong to the diff; None for /dev/null. A real folder `a` or `b` is left alone."""
    first, second = (None if name == "/dev/null" else name for name in (old, new))
    if first is None and second is not None:
        return None, second.removeprefix("b/")
    if second is None and first is not None:
        return first.removeprefix("a/"), None
    if first is None or second is None:
        return None, None
    if first[1:2] == second[1:2] == "/" and (first[0], second[0]) in _PREFIXES:
        same = first[2:] == second[2:]
        return (first[2:], second[2:]) if same or (first[0], second[0]) == ("a", "b") else (first, second)
    if first == f"a/{second}" or second == f"b/{first}":
        shorter = min(first, second, key=len)
        return shorter, shorter
    return first, second


def _too_long(name: str, line: int) -> InvalidPatch:
    return invalid(line, f"the name {name[:60]!r}… has more than {MAX_PATH_BYTES:,} characters", "shorten it")


def _read_quoted_pair(text: str, line: int) -> tuple[str, str] | None:
    pieces: list[str | None] = []
    if begins := re.fullmatch(rf'({_QUOTED.pattern}|[^" ]+) ({_QUOTED.pattern}|[^" ]+)', text):
        pieces = [_unquoted(piece, line) if piece.startswith('"') else piece for piece in begins.groups()]
    if len(pieces) == 2 and pieces[0] is not None and pieces[1] is not None:
        return pieces[0], pieces[1]
    return None


def _unquoted(text: str, line: int) -> str | None:
    if len(text) > MAX_PATH_BYTES * len(r"\000"):  # it may be all escapes, which are longer than what they stand for
        raise _too_long(text, line)
    inner = text[1:-1].encode()
    if re.search(rb"\\", _ESCAPE.sub(b"", inner)):
        return None

    def byte(match: re.Match[bytes]) -> bytes:
        escape = match.group(1).decode()
        return bytes([_ESCAPES[escape] if escape in _ESCAPES else int(escape, 8)])

    try:
        return _ESCAPE.sub(byte, inner).decode()
    except UnicodeDecodeError as error:
        raise invalid(
            line,
            f"the quoted name {text[:60]} cannot be read: it is not UTF-8, and a patch names files in UTF-8 only",
            "rename the file with a command first, or change it with a command",
        ) from error
