"""The world outside the store: what was asked, what was promised, and which tool calls really ran.

Each line is on disk before its writer goes on, so it tells the truth about a process that died right after it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from holon.core.codec import Record, dumps, loads
from tests.crash.deeds import Deed

T = TypeVar("T")

#: The project that agents work on.
REPOSITORY = "repository"


class Answer(Record, frozen=True, kw_only=True):
    """What the runtime answered to a deed: the id of what it made, or the code of its refusal."""

    n: int
    id: str | None = None
    refused: str | None = None


class Stamp(Record, frozen=True, kw_only=True):
    """One run of a tool, written by the tool itself."""

    call_id: str
    pid: int


class Outside:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def intend(self, deed: Deed) -> None:
        self._note("intents", deed)

    def acknowledge(self, answer: Answer) -> None:
        self._note("answers", answer)

    def stamp(self, call_id: str) -> None:
        self._note("stamps", Stamp(call_id=call_id, pid=os.getpid()))

    def intents(self) -> dict[int, Deed]:
        return {deed.n: deed for deed in self._lines("intents", Deed)}

    def answers(self) -> dict[int, Answer]:
        return {answer.n: answer for answer in self._lines("answers", Answer)}

    def stamps(self) -> list[Stamp]:
        return self._lines("stamps", Stamp)

    def commands(self) -> list[str]:
        """What commands wrote when they ran: a tag and a word, each."""
        path = self.folder / "commands"
        return path.read_text().splitlines() if path.exists() else []

    def worktrees(self) -> dict[str, set[str]]:
        """What there is of each task's worktree: its folder, the repository's record of it, its branch."""
        git, found = self.folder / REPOSITORY / ".git", dict[str, set[str]]()
        for what, entries in (
            ("folder", (self.folder / f".holon-worktrees-{REPOSITORY}").glob("holon-*")),
            ("record", (git / "worktrees").glob("holon-*")),
            ("branch", (git / "refs" / "heads" / "holon").glob("*")),
        ):
            for entry in entries:
                if entry.suffix == ".lock":  # of a git that outlives the process that was killed
                    continue
                found.setdefault(entry.name.removeprefix("holon-"), set()).add(what)
        return found

    def unanswered(self) -> list[Deed]:
        """Deeds whose outcome is unknown: the process died between the asking and the answer."""
        answers = self.answers()
        return [deed for n, deed in sorted(self.intents().items()) if n not in answers]

    def _note(self, book: str, line: msgspec.Struct) -> None:
        file = os.open(self.folder / f"{book}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (dumps(line) + "\n").encode())
            os.fsync(file)
        finally:
            os.close(file)

    def _lines(self, book: str, type_: type[T]) -> list[T]:
        path = self.folder / f"{book}.jsonl"
        return [loads(line, type_) for line in path.read_text().splitlines()] if path.exists() else []
