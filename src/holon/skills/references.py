"""References: files that a skill's author listed, loaded by name and by nothing else.

A request is compared with the allowlist letter for letter; no path is ever built from it. What was listed is then
resolved through all links and must still be a plain file inside the skill's folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from holon.core.skills import ReferenceNotAllowedError, ReferenceNotFoundError, ReferenceUnreadableError
from holon.core.tokens import estimate
from holon.core.values import Value
from holon.skills.bodies import version_of
from holon.skills.descriptors import SkillDescriptor

#: One page of a long reference, in characters (about 8,000 tokens); and what is not read at all.
PAGE_CHARS = 32_000
MAX_BYTES = 4 * 1024 * 1024


class Reference(Value, frozen=True):
    path: str
    text: str
    version: str

    @property
    def pages(self) -> int:
        return max(1, -(-len(self.text) // PAGE_CHARS))

    def page(self, number: int) -> str:
        return self.text[(number - 1) * PAGE_CHARS : number * PAGE_CHARS]

    @property
    def tokens(self) -> int:
        return estimate(self.text)


def find_reference(skill: SkillDescriptor, reference: str) -> str:
    """The listed path that is meant: itself, or the only one with this file name. Nothing is read here."""
    if reference in skill.references:
        return reference
    named = [path for path in skill.references if path.rpartition("/")[2] == reference]
    if len(named) == 1:
        return named[0]
    why = "is the file name of several" if named else "is none"
    raise ReferenceNotAllowedError(
        f"{reference[:100]!r} {why} of the references of skill {skill.name!r}",
        hint=_choices(skill),
        skill=skill.name,
        references=list(skill.references),
    )


def read_reference(skill: SkillDescriptor, listed: str) -> Reference:
    """The file behind a listed path, unchanged."""
    data = _read(skill, listed, _resolve(skill, listed))
    if b"\0" in data[:8_192]:
        raise _unreadable(skill, listed, "is binary")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(skill, listed, "is no UTF-8 text") from error
    return Reference(listed, text, version_of(text))


class ReferenceCache:
    """What was read in a turn. A second load in the same turn reads nothing; the next turn sees a changed file."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._turns: dict[str, dict[tuple[Path, str], tuple[Reference, set[int]]]] = {}

    def get(
        self,
        turn_id: str,
        skill: SkillDescriptor,
        listed: str,
        read: Callable[[SkillDescriptor, str], Reference] = read_reference,
    ) -> tuple[Reference, set[int]]:
        """The reference, and which pages of it this turn was shown; whoever shows one adds it."""
        if turn_id not in self._turns:
            while len(self._turns) >= self._capacity:  # turns end without telling; the oldest ones are over
                del self._turns[next(iter(self._turns))]
            self._turns[turn_id] = {}
        known = self._turns[turn_id]
        key = (skill.folder, listed)
        if key not in known:
            known[key] = (read(skill, listed), set())
        return known[key]


def _resolve(skill: SkillDescriptor, listed: str) -> Path:
    try:
        root = skill.folder.resolve(strict=True)
        resolved = (skill.folder / listed).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ReferenceNotFoundError(
            f"reference {listed!r} of skill {skill.name!r} is listed, but it is not on disk",
            hint=_choices(skill),
            skill=skill.name,
            references=list(skill.references),
        ) from error
    if not resolved.is_relative_to(root):
        raise ReferenceNotAllowedError(
            f"reference {listed!r} of skill {skill.name!r} is a link that leaves the skill",
            hint="ask the skill's author to put the file itself into references/",
            skill=skill.name,
            references=list(skill.references),
        )
    return resolved


def _read(skill: SkillDescriptor, listed: str, path: Path) -> bytes:
    """Reads a plain file that no link leads to any more. Devices and pipes are not opened for good."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(skill, listed, f"cannot be read ({error.strerror})") from error
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        os.close(handle)
        raise _unreadable(skill, listed, "is no file")
    with os.fdopen(handle, "rb") as file:
        if info.st_size > MAX_BYTES:
            raise _unreadable(skill, listed, f"is {info.st_size} bytes long, and the limit is {MAX_BYTES}")
        return file.read(MAX_BYTES + 1)


def _unreadable(skill: SkillDescriptor, listed: str, why: str) -> ReferenceUnreadableError:
    return ReferenceUnreadableError(
        f"reference {listed!r} of skill {skill.name!r} {why}",
        hint="look at it with a command if you need it",
        skill=skill.name,
        references=list(skill.references),
    )


def _choices(skill: SkillDescriptor) -> str:
    if not skill.references:
        return f"skill {skill.name!r} has no references"
    return "use one of: " + ", ".join(skill.references[:20])
