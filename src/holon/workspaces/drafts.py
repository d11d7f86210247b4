"""Drafts: what the files would be if a patch were applied. Everything is tried in memory; the disk is only read.

Sections happen in the order of the patch, each on what the ones before it left. A name that is taken when a file
arrives at it must be given up by another section, earlier or later: so files can change places, as in git.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from holon.workspaces.effort import BYTES, LINE, Effort, TooMuchWork
from holon.workspaces.hunks import Diagnostic, FilePatch, Hunk, PatchAction
from holon.workspaces.lines import BOM, Line, is_binary, join, split
from holon.workspaces.mismatches import MAX_POOL, NotSearched, most_like
from holon.workspaces.names import printable
from holon.workspaces.placing import Placement, edit, place
from holon.workspaces.roots import ExecutionRoot, RootViolation
from holon.workspaces.snapshots import Snapshot, Unsuitable, take

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024
MAX_LINES = 200_000
#: Folders are opened one in the other, each time anew.
MAX_DEPTH = 64
#: Folders that do not exist yet; each is synced.
MAX_FOLDERS = 400


@dataclass
class DraftFile:
    """One name: what is on disk, and what will be."""

    path: PurePosixPath
    before: Snapshot | None
    after: bytes | None
    #: Whose mode and owner the file will have.
    like: Snapshot | None
    came_from: PurePosixPath | None = None
    #: The section that put a file here while another one still had the name.
    crowded_by: FilePatch | None = None
    #: A section failed here: what others say about this file means nothing any more.
    broken: bool = False


class Draft:
    def __init__(self, root: ExecutionRoot, effort: Effort | None = None) -> None:
        self.root, self.effort = root, effort or Effort()
        self.files: dict[PurePosixPath, DraftFile] = {}
        self.notes: list[Diagnostic] = []
        self.problems: list[Diagnostic] = []
        self.violation: RootViolation | None = None
        self._bytes = 0

    def carry_out(self, section: FilePatch) -> None:
        """One section, or the problems that it has."""
        try:
            source = self._file(section.from_path or section.path)
            target = source if section.from_path is None else self._file(section.path)
            if section.refusal:
                raise _Refused(*section.refusal, source)
            if source.broken or target.broken:
                return
            match section.action:
                case PatchAction.ADD if source is target:
                    self._arrive(section, target, self._added(section, target), None)
                case PatchAction.ADD:
                    self._arrive(section, target, self._edited(section, source, _original(source)), source.before)
                case PatchAction.MODIFY:
                    self._modify(section, target)
                case PatchAction.DELETE:
                    self._delete(section, target)
                case PatchAction.MOVE:
                    self._move(section, source, target)
        except _Refused as refused:
            self._refuse(refused)
        except RootViolation as violation:
            self.violation = self.violation or violation
            self._problem(section.path, violation.code, violation.message)
        except OSError as error:
            self._problem(section.path, "unreadable", f"cannot be read: {error.strerror}")

    def finish(self) -> None:
        """What can be told only when all sections were carried out: names that nobody gave up, or that are folders."""
        self._refuse_size()
        alive = {path for path, file in self.files.items() if file.after is not None and not file.broken}
        for file in self.files.values():
            if file.crowded_by and not file.broken and file.before is not None:
                self._refuse(_taken(file, file.after == file.before.content))
            if outer := next((path for path in file.path.parents if path in alive and file.path in alive), None):
                self._refuse(_Refused("not_a_folder", f"is in {printable(outer)}, which the patch makes a file", file))
            if file.after is not None and file.before is not None and file.after != file.before.content:
                self._tell_of_links(file)

    def _refuse_size(self) -> None:
        """Of all files together, as the patch would leave them: each copy of a file counts."""
        changed = [file for file in self.files.values() if file.after is not None and not file.broken]
        size, folders = 0, set[PurePosixPath]()
        for file in changed:
            size += len(file.after or b"")
            if file.before is None:
                folders.update(file.path.parents)
            if size > MAX_TOTAL_BYTES:
                words = f"and the files before it would have more than {MAX_TOTAL_BYTES:,} bytes: send it in parts"
                return self._refuse(_Refused("too_large", words, file))
            if len(folders) > MAX_FOLDERS:
                words = f"and the files before it are new in more than {MAX_FOLDERS} folders: send it in parts"
                return self._refuse(_Refused("too_large", words, file))
        return None

    def _modify(self, section: FilePatch, file: DraftFile) -> None:
        if file.after is None and section.hunks and not any(hunk.old for hunk in section.hunks):
            self._arrive(section, file, self._added(section, file), None)
            self._note(file, "taken_as_add", "was not there and the patch only adds lines: it was added")
        else:
            file.after = self._edited(section, file, file.after)

    def _delete(self, section: FilePatch, file: DraftFile) -> None:
        content = _original(file) if file.crowded_by else file.after
        if content is None:
            raise _Refused("already_applied", "is not there: it was deleted already, or another path is meant", file)
        if section.shows_all and self._edited(section, file, content):
            raise _Refused(
                "lines_left",
                "has lines that the patch does not delete: show all of them, or use '*** Delete File:'",
                file,
            )
        self._leave(file)

    def _move(self, section: FilePatch, source: DraftFile, target: DraftFile) -> None:
        if source is target:
            source.after = self._edited(section, source, source.after)
            return
        content = _original(source) if source.crowded_by else source.after
        if content is None and target.before is not None and self._is_result(section, target):
            raise _Refused("already_applied", f"was moved to {printable(target.path)} already", source)
        content = self._edited(section, source, content)
        like, origin = (source.before, None) if source.crowded_by else (source.like, source.came_from)
        self._leave(source)
        self._arrive(section, target, content, like)
        target.came_from = origin or source.path

    def _arrive(self, section: FilePatch, file: DraftFile, content: bytes, like: Snapshot | None) -> None:
        if file.after is not None:
            if file.crowded_by or file.after != _original(file) or file.came_from:
                raise _Refused("file_exists", "is put there twice by the patch", file)
            file.crowded_by = section
        file.after, file.like = content, like

    @staticmethod
    def _leave(file: DraftFile) -> None:
        if file.crowded_by:
            file.crowded_by = None
        else:
            file.after, file.came_from = None, None

    def _added(self, section: FilePatch, file: DraftFile) -> bytes:
        lines = [line for hunk in section.hunks for line in hunk.lines]
        if any(hunk.old for hunk in section.hunks) or not all(line.ends for line in lines[:-1]):
            raise _Refused("not_only_additions", "is new, so the patch may have only whole '+' lines for it", file)
        return self._bounded(join(Line(line.text, "\n" if line.ends else "") for line in lines), file)

    def _edited(self, section: FilePatch, file: DraftFile, content: bytes | None) -> bytes:
        if content is None:
            raise _Refused("missing_file", f"is not there{self._suggestion(section, file)}", file)
        if not section.hunks:
            return content
        if is_binary(content):
            raise _Refused("binary_file", "is binary: a patch works on text; use a command", file)
        if content.count(b"\n") > MAX_LINES:
            raise _Refused("too_large", f"has more than {MAX_LINES:,} lines: change it with a command", file)
        placement, mark, lines = self._placed(section.hunks, content, file)
        if placement.misfits:
            raise _Misfits(placement, file)
        for note in placement.notes:
            self._note(file, note.kind, note.message)
        self._tell_of_end(section.hunks, placement, lines, file)
        return self._bounded(mark + join(edit(lines, placement.placed)), file)

    def _bounded(self, content: bytes, file: DraftFile) -> bytes:
        if is_binary(content):
            raise _Refused("binary_content", "would get NUL characters: a patch works on text; use a command", file)
        if len(content) > MAX_FILE_BYTES:
            raise _Refused("too_large", f"would have more than {MAX_FILE_BYTES:,} bytes: use a command", file)
        return content

    def _file(self, given: str) -> DraftFile:
        path = self.root.locate(given, field="patch")
        if len(path.parts) > MAX_DEPTH:
            raise _Refused("too_deep", f"is in more than {MAX_DEPTH - 1} folders", DraftFile(path, None, None, None))
        if path not in self.files:
            try:
                before = take(self.root, path, MAX_FILE_BYTES)
            except Unsuitable as error:
                raise _Refused(error.kind, error.message, DraftFile(path, None, None, None)) from error
            file = DraftFile(path, before, before.content if before else None, before)
            self._refuse_double(file)
            self.files[path] = file
            self._bytes += len(before.content) if before else 0
            if self._bytes > MAX_TOTAL_BYTES:
                raise _Refused("too_large", f"and the files before it have more than {MAX_TOTAL_BYTES:,} bytes", file)
        return self.files[path]

    def _refuse_double(self, file: DraftFile) -> None:
        """One file under two names that are not hard links: the file system takes both spellings for the same."""
        if file.before is None or file.before.names > 1:
            return
        for other in self.files.values():
            if other.before and other.before.identity == file.before.identity:
                other.broken = True
                raise _Refused("same_file", f"is the same file as {printable(other.path)}: name it in one way", file)

    def _suggestion(self, section: FilePatch, file: DraftFile) -> str:
        """A file that may be meant instead."""
        given = section.from_path or section.path
        try:
            meant = self.root.locate(f"/{given}")
            if not given.startswith("/") and take(self.root, meant, MAX_FILE_BYTES):
                return f"; an absolute path is written without 'a/': perhaps {printable(meant)} is meant"
        except (RootViolation, Unsuitable):
            pass
        try:
            with self.root.folder(file.path.parent) as folder, os.scandir(folder) as entries:
                names = sorted(entry.name for entry in islice(entries, MAX_POOL))
        except (OSError, RootViolation):
            return f"; nor is its folder {printable(file.path.parent)}"
        try:
            close = most_like(file.path.name, names, self.effort)
        except NotSearched:
            return ""
        return _perhaps(file.path.parent / close) if close else ""

    def _is_result(self, section: FilePatch, file: DraftFile) -> bool:
        if not section.hunks:
            return True
        content = _original(file) or b""
        return not is_binary(content) and self._placed(section.hunks, content, file)[0].already_applied

    def _placed(self, hunks: Sequence[Hunk], content: bytes, file: DraftFile) -> tuple[Placement, bytes, list[Line]]:
        try:
            self.effort.place(len(content) // BYTES + content.count(b"\n") * LINE)
            return _placed(hunks, content, self.effort)
        except TooMuchWork as error:
            words = "is too much for one patch, with what comes before it: too many lines would have to be compared"
            raise _Refused("too_much_work", f"{words}; send it in parts, or use a command", file) from error

    def _tell_of_end(self, hunks: Sequence[Hunk], placement: Placement, lines: list[Line], file: DraftFile) -> None:
        last = placement.placed[-1] if placement.placed else None
        if last and lines and not lines[-1].eol and last.end == len(lines) and not hunks[-1].speaks_of_the_end:
            self._note(
                file, "final_newline_kept", "has no newline at its end; the patch does not say so, and it stays so"
            )

    def _tell_of_links(self, file: DraftFile) -> None:
        if file.before is not None and file.before.names > 1:
            self._note(
                file, "hard_link_parted", f"had {file.before.names} names (hard links); the others keep the old text"
            )

    def _refuse(self, refused: _Refused) -> None:
        refused.file.broken = True
        for kind, message in refused.problems:
            self._problem(refused.file.path, kind, message)

    def _problem(self, path: str | PurePosixPath, kind: str, message: str) -> None:
        self.problems.append(Diagnostic(path=printable(path), kind=kind, message=message))

    def _note(self, file: DraftFile, kind: str, message: str) -> None:
        self.notes.append(Diagnostic(path=printable(file.path), kind=kind, message=message))


class _Refused(Exception):
    def __init__(self, kind: str, message: str, file: DraftFile) -> None:
        super().__init__(message)
        self.problems, self.file = [(kind, message)], file


class _Misfits(_Refused):
    def __init__(self, placement: Placement, file: DraftFile) -> None:
        super().__init__("misfits", "hunks do not fit", file)
        self.problems = [(misfit.kind, misfit.message) for misfit in placement.misfits]


def _original(file: DraftFile) -> bytes | None:
    return file.before.content if file.before else None


def _placed(hunks: Sequence[Hunk], content: bytes, effort: Effort) -> tuple[Placement, bytes, list[Line]]:
    """The hunks on a file's lines. A byte order mark that no hunk speaks of is set aside and kept."""
    mark = BOM.encode()
    speaks = any(line.text.startswith(BOM) for hunk in hunks for line in hunk.lines)
    if not content.startswith(mark) or speaks:
        mark = b""
    lines = split(content[len(mark) :])
    return place(hunks, lines, effort), mark, lines


def _perhaps(path: PurePosixPath) -> str:
    shown = printable(path)
    if shown == str(path):
        return f"; perhaps {shown} is meant"
    return f"; perhaps {shown} is meant, a name that is not UTF-8: rename the file or change it, with a command"


def _taken(file: DraftFile, same: bool) -> _Refused:
    if same:
        return _Refused("already_applied", "is there already, with this content", file)
    return _Refused("file_exists", "exists already: change it with a diff of its content, or choose another name", file)
