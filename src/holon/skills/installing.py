"""Installing: a skill from a folder, an archive or a git repository into a root, with its provenance.

Everything is copied file by file into a folder beside its place, checked there, and then renamed. Nothing of it is
executed, links are not followed and not kept, and no secret of a URL is written down.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from holon.core.codec import InvalidJson, Record, dumps, loads
from holon.core.errors import Conflict, InvalidInput, NotFound
from holon.skills.archives import MAX_BYTES, SUFFIXES, check_size, unpack
from holon.skills.format import ENTRYPOINT, check_body, check_fields, read_skill, valid_name
from holon.skills.plain_files import disk_errors_told, read_plain
from holon.skills.repositories import Checkout, clone, is_git_url, without_secrets

PROVENANCE = ".holon-skill.json"
#: Folders of a source that are looked through for skills.
MAX_FOLDERS = 2_000
_DEPTH = 4


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
    with disk_errors_told(root):
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".install-", dir=root) as staging, _opened(source, ref) as opened:
            folder, kind, commit = opened
            chosen = _choose(folder, skill)
            staged = Path(staging) / "skill"
            files, size, digest = _copy(chosen, staged)
            name, warnings = _checked(staged)
            provenance = Provenance(
                source=without_secrets(source),
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
    with disk_errors_told(root), tempfile.TemporaryDirectory(prefix=".remove-", dir=root) as aside:
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
        elif path.is_file() and path.name.endswith(SUFFIXES):
            folder = Path(scratch) / "archive"
            folder.mkdir()
            unpack(path, folder)
            yield folder, "archive", None
        else:
            raise NotFound(
                f"{source!r} is neither a folder, nor an archive ({', '.join(SUFFIXES)}), nor a git URL",
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
    try:
        data = read_plain(folder / ENTRYPOINT, MAX_BYTES) or b""
    except OSError as error:
        raise InvalidInput(
            f"{ENTRYPOINT} cannot be read ({error.strerror})", hint="put the file itself there"
        ) from error
    return read_skill(data.decode("utf-8", "replace"), folder.name).front.name


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
            check_size(files, size)
            data = path.read_bytes()
            digest.update(f"{here / name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
            (target / here / name).write_bytes(data)
            (target / here / name).chmod(0o755 if info.st_mode & 0o100 else 0o644)
    return files, size, digest.hexdigest()


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
