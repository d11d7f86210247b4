"""Previews of what a command wrote: its beginning and its end, within a budget, and the paths of the rest.

Reads files only, so it works the same while the command runs, after it has ended and after its runner is lost.
"""

from __future__ import annotations

import re
from pathlib import Path

from holon.core.codec import Record
from holon.core.tasks import ToolArtifactRef
from holon.tasks.folder import OUTPUT, STDERR, STDOUT, TAIL

DEFAULT_TOKENS = 8_000
MAX_TOKENS = 64_000
CHARS_PER_TOKEN = 4

_LEFT_OUT = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")
#: Characters that no reader wants: a terminal would obey them, a database refuse them.
_CONTROLS = {code: "\ufffd" for code in range(32) if chr(code) not in "\t\n\r\x1b"}


class Excerpt(Record, frozen=True, kw_only=True, omit_defaults=False):
    text: str
    #: Something is missing, here or in the file.
    truncated: bool
    #: What was written, kept or not.
    total_bytes: int


class OutputPreview(Record, frozen=True, kw_only=True, omit_defaults=False):
    stdout: str
    stderr: str
    truncated: bool
    stdout_bytes: int
    stderr_bytes: int


class Artifacts(Record, frozen=True, kw_only=True):
    """Paths only, and which of them is what."""

    artifacts: list[ToolArtifactRef]
    output_artifact: int | None = None
    stdout_artifact: int | None = None
    stderr_artifact: int | None = None


def budget_chars(asked_tokens: int | None, default_tokens: int = DEFAULT_TOKENS, max_tokens: int = MAX_TOKENS) -> int:
    """Characters of output that may enter the conversation."""
    tokens = default_tokens if asked_tokens is None else asked_tokens
    return max(0, min(tokens, max_tokens)) * CHARS_PER_TOKEN


def preview(folder: Path, max_chars: int, *, tty: bool = False) -> OutputPreview:
    """Both streams within one budget. Each may use half, and what the other does not need."""
    if not (folder / STDERR).exists():
        whole = excerpt(folder / OUTPUT, max_chars, tty=tty)
        return OutputPreview(
            stdout=whole.text,
            stderr="",
            truncated=whole.truncated,
            stdout_bytes=whole.total_bytes,
            stderr_bytes=0,
        )
    stderr = excerpt(folder / STDERR, max_chars // 2)
    stdout = excerpt(folder / STDOUT, max_chars - len(stderr.text))
    if stderr.truncated and len(stdout.text) < max_chars // 2:
        stderr = excerpt(folder / STDERR, max_chars - len(stdout.text))
    return OutputPreview(
        stdout=stdout.text,
        stderr=stderr.text,
        truncated=stdout.truncated or stderr.truncated,
        stdout_bytes=stdout.total_bytes,
        stderr_bytes=stderr.total_bytes,
    )


def combined(folder: Path, max_chars: int, *, tty: bool = False) -> Excerpt:
    """Everything in the order in which it was written."""
    return excerpt(folder / OUTPUT, max_chars, tty=tty)


def artifacts(folder: Path) -> Artifacts:
    """Where the output is, as far as it was kept."""
    apart = (folder / STDERR).exists()
    names = [OUTPUT, STDOUT, STDERR] if apart else [OUTPUT]
    return Artifacts(
        artifacts=[ToolArtifactRef(path=str(folder / name)) for name in names],
        output_artifact=0,
        stdout_artifact=1 if apart else 0,
        stderr_artifact=2 if apart else None,
    )


def excerpt(path: Path, max_chars: int, *, tty: bool = False) -> Excerpt:
    """The beginning and the end of a file. One that is not there has no text."""
    kept = _Kept.read(path, 4 * max_chars)
    text = _decode(kept.head + kept.tail, tty) if kept.whole else None
    if text is not None and len(text) <= max_chars:
        return Excerpt(text=text, truncated=kept.left_out > 0, total_bytes=kept.total)
    half = max_chars // 2
    head = text[:half] if text is not None else _decode(kept.head, tty)[:half]
    tail = text[len(text) - half :] if text is not None else _decode(kept.tail, tty)[-half:] if half else ""
    return Excerpt(text=f"{head}{_gap(kept.total, head, tail)}{tail}", truncated=True, total_bytes=kept.total)


class _Kept:
    """What is on disk of a stream: its file, and while it runs perhaps a newer end beside it."""

    def __init__(self, head: bytes, tail: bytes, whole: bool, left_out: int, total: int) -> None:
        self.head, self.tail, self.whole, self.left_out, self.total = head, tail, whole, left_out, total

    @classmethod
    def read(cls, path: Path, limit: int) -> _Kept:
        """At most `limit` bytes of each end; whole if together they are everything that is on disk."""
        beside = _ends(path.with_name(path.name + TAIL), limit)
        first = _ends(path, limit)
        whole = first.whole and beside.whole and first.size + beside.size <= limit
        tail = beside.last if beside.size else first.last
        head = first.first
        if whole:
            head, tail = first.first + beside.first, b""
        found = _LEFT_OUT.search(beside.first or first.first) or _LEFT_OUT.search(tail)
        return cls(head, tail, whole, 0, first.size + beside.size)
