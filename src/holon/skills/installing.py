"""Installing: a skill from a folder, an archive or a git repository into a root, with its provenance.

Everything is copied file by file into a folder beside its place, checked there, and then renamed. Nothing of it is
executed, links are not followed and not kept, and no path of an archive is ever used as it stands.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO

from holon.core.codec import InvalidJson, Record, dumps, loads
from holon.core.errors import Conflict, InvalidInput, NotFound
from holon.skills.format import ENTRYPOINT, check_body, check_fields, read_skill, valid_name
from holon.skills.repositories import Checkout, clone, is_git_url

PROVENANCE = ".holon-skill.json"
MAX_FILES = 2_000
MAX_BYTES = 50 * 1024 * 1024
#: Folders of a source that are looked through for skills.
MAX_FOLDERS = 2_000
_DEPTH = 4
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".skill")


class Provenance(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Where an installed skill came from. It stands beside its SKILL.md."""

    source: str
    kind: str
    installed_at: datetime
    sha256: str
    files: int
    bytes: int
    #: For git: what was asked for, and the commit that it was.
    ref: str | None = None
    commit: str | None = None


class Installed(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    folder: str
    provenance: Provenance
    #: What the format warns about. It was installed nevertheless.
    warnings: list[str]
    replaced: bool = False


def install(
    source: str,
    root: Path,
    installed_at: datetime,
    *,
    ref: str | None = None,
    skill: str | None = None,
    replace: bool = False,
) -> Installed:
    """Brings a skill into `root`. `skill` chooses one where the source has several."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".install-", dir=root) as staging, _opened(source, ref) as opened:
        folder, kind, commit = opened
        chosen = _choose(folder, skill)
        staged = Path(staging) / "skill"
        files, size, digest = _copy(chosen, staged)
        name, warnings = _checked(staged)
        provenance = Provenance(
            source=source,
            kind=kind,
            installed_at=installed_at,
            sha256=digest,
            files=files,
            bytes=size,
            ref=ref,
            commit=commit,
        )
        (staged / PROVENANCE).write_text(dumps(provenance) + "\n", encoding="utf-8")
        replaced = _put(staged, root / name, Path(staging) / "before", replace=replace)
    return Installed(name=name, folder=str(root / name), provenance=provenance, warnings=warnings, replaced=replaced)


def uninstall(name: str, root: Path, *, force: bool = False) -> Provenance | None:
    """Takes a skill out of `root`. One that was not installed is somebody's own work and needs `force`."""
    if not valid_name(name):
        raise InvalidInput(f"{name[:100]!r} is not the name of a skill", hint="see 'holon skills list'")
    folder = root / name
    if not os.path.lexists(folder):
        raise NotFound(f"there is no skill {name!r} in {root}", hint="see 'holon skills list'")
    found = provenance_of(folder)
    if found is None and not force:
        raise Conflict(f"skill {name!r} was not installed, but written here", hint="remove it with --force")
    if folder.is_symlink():
        folder.unlink()
        return found
    with tempfile.TemporaryDirectory(prefix=".remove-", dir=root) as aside:
        folder.rename(Path(aside) / name)
    return found


def provenance_of(folder: Path) -> Provenance | None:
    try:
        return loads((folder / PROVENANCE).read_bytes(), Provenance)
    except (OSError, InvalidJson):
        return None


@contextmanager
def _opened(source: str, ref: str | None) -> Iterator[tuple[Path, str, str | None]]:
    """The source as a folder, what kind of source it is, and its commit."""
    with tempfile.TemporaryDirectory(prefix="holon-skill-") as scratch:
        if is_git_url(source):
            checkout: Checkout = clone(source, ref, Path(scratch) / "clone")
            yield checkout.folder, "git", checkout.commit
            return
        if ref is not None:
            raise InvalidInput("a ref can only be given for a git URL", hint="leave --ref out", field="ref")
        path = Path(source).expanduser()
        if path.is_dir():
            yield path, "directory", None
        elif path.is_file() and path.name.endswith(_ARCHIVES):
            folder = Path(scratch) / "archive"
            folder.mkdir()
            _unpack(path, folder)
            yield folder, "archive", None
        else:
            raise NotFound(
                f"{source!r} is neither a folder, nor an archive ({', '.join(_ARCHIVES)}), nor a git URL",
                hint="give a path that exists, or a URL that begins with https://, ssh://, git@ or file://",
            )


def _choose(folder: Path, skill: str | None) -> Path:
    if skill is None and (folder / ENTRYPOINT).is_file():
        return folder
    found: dict[str, Path] = {}
    for number, (parent, folders, names) in enumerate(os.walk(folder)):
        if number >= MAX_FOLDERS:
            raise InvalidInput(f"{folder} has more than {MAX_FOLDERS} folders", hint="name the skill's own folder")
        here = Path(parent)
        deep = len(here.relative_to(folder).parts) >= _DEPTH
        folders[:] = (
            [] if deep or ENTRYPOINT in names else sorted(f for f in folders if f not in (".git", "node_modules"))
        )
        if ENTRYPOINT in names:
            found.setdefault(here.name if here != folder else _own_name(here), here)
    if skill is not None and skill in found:
        return found[skill]
    if skill is None and len(found) == 1:
        return next(iter(found.values()))
    named = ", ".join(sorted(found)) or "none"
    if not found:
        raise NotFound(f"the source has no {ENTRYPOINT}", hint="a skill is a folder with a SKILL.md in it")
    raise InvalidInput(
        f"the source has {'no skill ' + repr(skill) if skill else 'several skills'}",
        hint=f"choose one with --skill: {named[:500]}",
        field="skill",
    )


def _own_name(folder: Path) -> str:
    return read_skill((folder / ENTRYPOINT).read_text(encoding="utf-8", errors="replace"), folder.name).front.name


def _copy(source: Path, target: Path) -> tuple[int, int, str]:
    """Plain files only. A link or a device is refused, not skipped: half a skill is worse than none."""
    files, size = 0, 0
    digest = hashlib.sha256()
    target.mkdir()
    for parent, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__", "node_modules"))
        here = Path(parent).relative_to(source)
        (target / here).mkdir(exist_ok=True)
        for name in [*folders, *sorted(names)]:
            path = Path(parent) / name
            info = path.lstat()
            if stat.S_ISDIR(info.st_mode):
                continue
            if not stat.S_ISREG(info.st_mode):
                raise InvalidInput(
                    f"{here / name} is a link or no file; it is not installed", hint="put the file itself there"
                )
            if name == PROVENANCE:
                continue
            files, size = files + 1, size + info.st_size
            _check_size(files, size)
            data = path.read_bytes()
            digest.update(f"{here / name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
            (target / here / name).write_bytes(data)
            (target / here / name).chmod(0o755 if info.st_mode & 0o100 else 0o644)
    return files, size, digest.hexdigest()


def _check_size(files: int, size: int) -> None:
    if files > MAX_FILES or size > MAX_BYTES:
        raise InvalidInput(
            f"the skill has more than {MAX_FILES} files or {MAX_BYTES} bytes",
            hint="is this the right folder? name the skill's own one with --skill",
        )


def _checked(folder: Path) -> tuple[str, list[str]]:
    """The name that it gets, and what the format warns about. Without a valid name or description it is refused."""
    read = read_skill((folder / ENTRYPOINT).read_text(encoding="utf-8", errors="replace"), "")
    if problems := check_fields(read.front, read.front.name):
        raise InvalidInput(
            f"the skill's {ENTRYPOINT} breaks the format: {'; '.join(problems)}",
            hint="check it with 'holon skills lint'",
        )
    warnings = [text for text in read.warnings if "folder's name" not in text] + check_body(read.body)
    return read.front.name, warnings


def _put(staged: Path, place: Path, aside: Path, *, replace: bool) -> bool:
    replaced = os.path.lexists(place)
    if replaced and not replace:
        raise Conflict(f"there is already a skill {place.name!r} in {place.parent}", hint="replace it with --replace")
    if replaced:
        place.rename(aside)
    staged.rename(place)
    return replaced


def _unpack(archive: Path, folder: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        else:
            _untar(archive, folder)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"{archive} cannot be unpacked: {error}", hint="is it a whole archive?") from error


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for number, member in enumerate(opened.infolist(), 1):
            if member.is_dir():
                continue
            mode = member.external_attr >> 16
            if stat.S_ISLNK(mode):
                raise InvalidInput(f"the archive has a link ({member.filename[:100]!r})", hint="pack files only")
            with opened.open(member) as data:
                _extract(data, folder, member.filename, number, executable=bool(mode & 0o100))


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        for number, member in enumerate(opened, 1):
            if member.isdir():
                continue
            data = opened.extractfile(member) if member.isreg() else None
            if data is None:
                raise InvalidInput(f"the archive has a link or device ({member.name[:100]!r})", hint="pack files only")
            _extract(data, folder, member.name, number, executable=bool(member.mode & 0o100))


def _extract(data: IO[bytes], folder: Path, name: str, number: int, *, executable: bool) -> None:
    """Writes one member. Its name may not lead out of the folder by any spelling."""
    path = PurePosixPath(name.replace("\\", "/"))
    parts = [part for part in path.parts if part != "."]
    if path.is_absolute() or not parts or ".." in parts or ":" in parts[0] or "\0" in name:
        raise InvalidInput(f"the archive has a path that leaves it ({name[:100]!r})", hint="do not trust this archive")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with open(target, "xb") as file:
        while chunk := data.read(1024 * 1024):
            written += len(chunk)
            _check_size(number, written)
            file.write(chunk)
    if executable:
        target.chmod(0o755)
