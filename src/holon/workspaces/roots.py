"""Execution roots: the folder that an agent's file tools may touch, and the one way to reach what is in it.

A path is judged by where it leads after every link was followed, never by how it is spelled. Then files are opened
folder by folder from the root, without following links, so that a link which is put in the way later leads nowhere.
A root confines the file tools only: a command that the agent runs is not held by it.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from holon.core.errors import AgentError
from holon.workspaces.names import printable

MAX_LINKS = 40
#: What Linux takes; known before any folder on the way is made.
MAX_PATH_BYTES, MAX_NAME_BYTES = 4_096, 255
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RootViolation(AgentError):
    """A path leads out of the execution root, or cannot be followed safely."""

    code = "execution_root_violation"
    status = 403


class ExecutionRoot:
    """One folder, known by its identity and not only by its name. `closed` are names, at any depth, that its files
    do not include: whoever may change those can do more than change files."""

    def __init__(self, path: str | Path, *, closed: Iterable[str] = ()) -> None:
        self._closed = frozenset(name.casefold() for name in closed)
        try:
            self.path = Path(path).resolve(strict=True)
            found = os.stat(self.path, follow_symlinks=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise self._gone(path) from error
        if not stat.S_ISDIR(found.st_mode):
            raise RootViolation(
                f"the execution root {str(path)!r} is not a folder",
                hint="choose a folder with UseWorkspace",
                root=printable(path),
            )
        self._identity = (found.st_dev, found.st_ino)

    def __repr__(self) -> str:
        return f"ExecutionRoot({str(self.path)!r})"

    def resolve(self, given: str, *, field: str = "path") -> Path:
        """Where `given` (relative to the root, or absolute) really leads: a place in the root, there already or not."""
        return self.path / self._opened(self._relative(given, field), given, field)

    def locate(self, given: str, *, field: str = "path") -> PurePosixPath:
        """The entry that `given` names, relative to the root. Unlike `resolve`, it leaves a link at the end alone."""
        through = self._relative(given, field)
        head, _, last = given.rstrip("/").rpartition("/")
        self._opened(through, given, field)
        if last in ("", ".", ".."):
            return through
        folder = self._relative(head or ("/" if given.startswith("/") else "."), field)
        return self._opened(folder / last, given, field)

    @contextmanager
    def folder(self, relative: PurePosixPath) -> Iterator[int]:
        """A descriptor of a folder in the root, reached without following any link. FileNotFoundError if it is gone."""
        descriptor = self._open()
        try:
            for part in relative.parts:
                inner = self._step(descriptor, part, relative)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            with suppress(OSError):  # it was only read: nothing can be lost any more
                os.close(descriptor)

    def _relative(self, given: str, field: str) -> PurePosixPath:
        self._refuse_spelling(given, field)
        os.close(self._open())
        try:
            real = self._follow(given)
        except _Unfollowable as error:
            raise self._refused(given, field, str(error)) from error
        inside = self._inside(real)
        if inside is None:
            raise self._refused(given, field, "it leads out of the root")
        self._refuse_special(self.path / inside, given, field)
        return inside

    def _opened(self, inside: PurePosixPath, given: str, field: str) -> PurePosixPath:
        closed = next((part for part in inside.parts if part.casefold() in self._closed), None)
        if closed is not None:
            raise self._refused(given, field, f"{closed!r} is kept by git or by the runtime")
        return inside

    def _follow(self, given: str) -> str:
        """Every link followed, part by part; from the first part that is not there on, the rest is taken as written."""
        at = "/" if given.startswith("/") else str(self.path)
        pending = given.split("/")[::-1]
        links, missing = 0, False
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if missing:
                    raise _Unfollowable("a '..' comes after a part that is not there")
                at = os.path.dirname(at)
                continue
            at = os.path.join(at, part)
            if missing:
                continue
            try:
                is_link = stat.S_ISLNK(os.lstat(at).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                missing = True
                continue
            except OSError as error:
                inside = self._inside(os.path.dirname(at)) is not None
                reason = error.strerror or "it cannot be read"
                raise _Unfollowable(reason if inside else "it leads out of the root") from error
            if is_link:
                links += 1
                if links > MAX_LINKS:
                    raise _Unfollowable("its links go in a circle")
                target = os.readlink(at)
                at = "/" if target.startswith("/") else os.path.dirname(at)
                pending += target.split("/")[::-1]
        return at

    def _inside(self, real: str) -> PurePosixPath | None:
        """`real` relative to the root, or None. The folder itself decides where the spelling of its name differs, as it
        may on file systems that ignore case or unicode forms."""
        path = PurePosixPath(real)
        if path.is_relative_to(self.path):
            return path.relative_to(self.path)
        for outer in (path, *path.parents):
            try:
                found = os.lstat(outer)
            except OSError:
                continue
            if (found.st_dev, found.st_ino) == self._identity:
                return path.relative_to(outer)
        return None

    def _refuse_spelling(self, given: str, field: str) -> None:
        if not given:
            raise self._refused(given, field, "it is empty")
        if "\0" in given:
            raise self._refused(given, field, "it has a NUL character")
        if any("\ud800" <= character <= "\udfff" for character in given):
            raise self._refused(given, field, "it is not valid text")
        parts = given.split("/")
        if len(given.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
            raise self._refused(given, field, "it is too long")
        if any(_pretends(part) for part in parts):
            raise self._refused(given, field, "a part of it becomes '..' on file systems that normalise names")

    def _refuse_special(self, path: Path, given: str, field: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise self._refused(given, field, "it is a device, pipe or socket")

    def _open(self) -> int:
        try:
            descriptor = os.open(self.path, _FOLDER)
        except OSError as error:
            raise self._gone(self.path) from error
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != self._identity:
            os.close(descriptor)
            raise self._gone(self.path)
        return descriptor

    def _step(self, descriptor: int, part: str, relative: PurePosixPath) -> int:
        try:
            return os.open(part, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            # Systems differ in what they say of a link here: ELOOP or ENOTDIR.
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                mode = os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    raise self._refused(str(relative), "path", f"{part!r} became a link") from error
            raise

    def _refused(self, given: str, field: str, reason: str) -> RootViolation:
        shown = given if len(given) <= 200 else f"{given[:200]}…"
        return RootViolation(
            f"path {shown!r} is refused: {reason}",
            hint=f"use a path inside the execution root {printable(self.path)}, relative to it",
            field=field,
            given=printable(shown),
            root=printable(self.path),
        )

    @staticmethod
    def _gone(path: str | Path) -> RootViolation:
        return RootViolation(
            f"the execution root {str(path)!r} is gone",
            hint="choose a workspace with UseWorkspace",
            root=printable(path),
        )


class _Unfollowable(Exception):
    pass


def _pretends(part: str) -> bool:
    """Whether the name turns into a step upward once a file system has normalised it or dropped what is invisible."""
    if part.isascii():
        return False
    visible = "".join(character for character in part if unicodedata.category(character) != "Cf")
    return ".." in unicodedata.normalize("NFKC", visible).split("/")
