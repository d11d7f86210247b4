"""Standard input, output and error as they may be: closed, full, or of another encoding. Little is loaded for it."""

from __future__ import annotations

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, TextIO


def prepare() -> None:
    """Once, before anything else.

    A character that a terminal cannot show is escaped: an answer that was worked for must not be lost to it. A closed
    descriptor is filled, or the next file that is opened would take its number, and whatever is printed would go there.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout = TextIOWrapper(
            BufferedWriter(_Output(1, "wb", closefd=False)),
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
            line_buffering=sys.stdout.line_buffering,
        )
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


class _Output(FileIO):
    """Remembers that it failed: whoever printed may not know, and a second attempt does not fail again."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise  # a reader that has had enough is no failure
        except OSError as error:
            self.failure = error
            raise


def output_fails() -> str | None:
    """Why nothing more can be written to standard output, if that is so."""
    if sys.stdout is None:
        return "it is closed"
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = raw.failure if isinstance(raw, _Output) else None
    return (failure.strerror or str(failure)) if failure else None


def silence(stream: TextIO) -> None:
    """What is still in the stream's buffer, and what comes, goes nowhere: or its end would fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
