"""Previews of what a command wrote: its beginning and its end, within a budget, and the paths of the rest.

Reads files only, so it works the same while the command runs, after it has ended and after its runner is lost.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from holon.core.codec import Record
from holon.core.tasks import ToolArtifactRef
from holon.tasks.capture import mark_left_out, read_page
from holon.tasks.folder import OUTPUT, STDERR, STDOUT, pages_of, status_of
from holon.tasks.protocol import CommandStatus

DEFAULT_TOKENS = 8_000
MAX_TOKENS = 64_000
CHARS_PER_TOKEN = 4

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


def preview(folder: Path, max_chars: int, *, tty: bool = False, status: CommandStatus | None = None) -> OutputPreview:
    """Both streams within one budget. Each may use half, and what the other does not need. `status` for those who know
    it already: it may not be in the folder any more."""
    status = status or status_of(folder)
    if not (folder / STDERR).exists():
        whole = excerpt(folder / OUTPUT, max_chars, status and status.stdout_bytes + status.stderr_bytes, tty=tty)
        return OutputPreview(
            stdout=whole.text,
            stderr="",
            truncated=whole.truncated,
            stdout_bytes=whole.total_bytes,
            stderr_bytes=0,
        )
    stderr = excerpt(folder / STDERR, max_chars // 2, status and status.stderr_bytes)
    stdout = excerpt(folder / STDOUT, max_chars - len(stderr.text), status and status.stdout_bytes)
    if stderr.truncated and len(stdout.text) < max_chars // 2:
        stderr = excerpt(folder / STDERR, max_chars - len(stdout.text), status and status.stderr_bytes)
    return OutputPreview(
        stdout=stdout.text,
        stderr=stderr.text,
        truncated=stdout.truncated or stderr.truncated,
        stdout_bytes=stdout.total_bytes,
        stderr_bytes=stderr.total_bytes,
    )


def combined(folder: Path, max_chars: int, *, tty: bool = False, status: CommandStatus | None = None) -> Excerpt:
    """Everything in the order in which it was written."""
    status = status or status_of(folder)
    return excerpt(folder / OUTPUT, max_chars, status and status.stdout_bytes + status.stderr_bytes, tty=tty)


def artifacts(folder: Path) -> Artifacts:
    """Where the output is, as far as it was kept and is still there."""
    apart = (folder / STDERR).exists()
    names = [name for name in ((OUTPUT, STDOUT, STDERR) if apart else (OUTPUT,)) if (folder / name).exists()]
    place = {name: index for index, name in enumerate(names)}
    return Artifacts(
        artifacts=[ToolArtifactRef(path=str(folder / name)) for name in names],
        output_artifact=place.get(OUTPUT),
        stdout_artifact=place.get(STDOUT if apart else OUTPUT),
        stderr_artifact=place.get(STDERR),
    )


def is_lost(folder: Path, status: CommandStatus) -> bool:
    """Whether output that was kept is not there any more. What was left out because it was too much does not count."""
    written = status.stdout_bytes + status.stderr_bytes
    try:
        kept = (folder / OUTPUT).stat().st_size
    except OSError:
        return written > 0
    return kept < written and not status.truncated


def excerpt(path: Path, max_chars: int, written: int | None = None, *, tty: bool = False) -> Excerpt:
    """The beginning and the end of a file; one that is not there has no text. `written` is how much the command wrote,
    where that is known: the file may have less."""
    kept = _kept(path, 4 * max_chars)
    total = kept.bytes if written is None else written
    if kept.whole is not None and len(text := _decode(kept.whole, tty)) <= max_chars:
        return Excerpt(text=text, truncated=kept.left_out > 0 or total > kept.bytes, total_bytes=total)
    ends = (kept.whole, kept.whole) if kept.whole is not None else (kept.first, kept.last)
    room = max(0, max_chars - _NOTE_CHARS)
    head = _decode(ends[0], tty)[: room - room // 2]
    tail = _decode(ends[1], tty)[-(room // 2) :] if room // 2 else ""
    missing = max(0, total - len(head.encode("utf-8", "replace")) - len(tail.encode("utf-8", "replace")))
    note = f"\n[... {missing} bytes left out of this preview ...]\n"[:max_chars]
    return Excerpt(text=head + note + tail, truncated=True, total_bytes=total)


_TRIES = 20
#: Room for the line that says how much is missing.
_NOTE_CHARS = 64


class _Kept(NamedTuple):
    """What is on disk of a stream, as far as a preview needs it."""

    whole: bytes | None
    first: bytes
    last: bytes
    left_out: int
    #: Kept and left out, as far as the files say.
    bytes: int


def _kept(path: Path, limit: int) -> _Kept:
    """While the command runs, the newest output of a long stream is on pages beside; at its end they are joined."""
    older, newer = pages_of(path)
    for _ in range(_TRIES):  # a page is turned, or joined, while we read; a runner that was killed then leaves it so
        pages = [page for page in (_read(older), _read(newer)) if page]
        size, first, last = _ends(path, limit)
        if not pages or newer.exists():
            break
    position, left_out, end = size, 0, b""
    for start, page in map(read_page, pages):
        if start < position:
            continue  # a page that was turned while we read
        if gap := start - position:
            left_out += gap
            end += mark_left_out(gap)
        end += page
        position = start + len(page)
    if len(first) == size and len(first + end) <= limit:
        return _Kept(first + end, b"", b"", left_out, position)
    return _Kept(None, first, (last + end)[-limit:] if limit else b"", left_out, position)


def _ends(path: Path, limit: int) -> tuple[int, bytes, bytes]:
    """Size, first and last bytes; a short file is all three at once."""
    try:
        with path.open("rb") as file:
            first = file.read(limit)
            size = file.seek(0, os.SEEK_END)
            if size <= limit:
                return size, first, first
            file.seek(size - limit)
            return size, first, file.read(limit)
    except OSError:
        return 0, b"", b""


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _decode(data: bytes, tty: bool) -> str:
    text = data.decode("utf-8", "replace").translate(_CONTROLS)
    return text.replace("\r\n", "\n") if tty else text
