"""Seeding: the templates that come with Holon, copied to where people can see and change them.

A small file remembers what was put there. A copy that is still as it was put is replaced by a newer version; one that
somebody changed is theirs. Nothing here may keep the runtime from starting.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holon.core.codec import InvalidJson, Record, dumps, loads
from holon.templates.places import BUILTIN, user_folder

log = logging.getLogger("holon.templates")

MARKER = ".holon-templates.json"
_LOCK = ".holon-templates.lock"
_BESIDE = ".holon-seeding-"
#: A folder with more than this in it is not what was put there; it is not read to the end.
_MAX_FILES, _MAX_BYTES = 100, 4 * 1024 * 1024


class Seeded(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What was put there last: all of it, and each template by its id."""

    bundle: str
    templates: dict[str, str]


def seed(user_home: Path | None, bundled: Path = BUILTIN) -> list[str]:
    """Brings the user's copies up to date; the ids of those that were written. Costs a few small reads if none is."""
    root = user_folder(user_home)
    if root is None:
        return []
    try:
        return _seed(root, bundled)
    except Exception as error:  # whatever is wrong with that folder: agents live without it
        log.warning("the templates in %s were not brought up to date (%s): make it writable", root, error)
        return []


def builtin_ids(bundled: Path = BUILTIN) -> list[str]:
    return sorted(entry.name for entry in os.scandir(bundled) if entry.is_dir())


def digest_of(folder: Path) -> str | None:
    """Of the names and contents of all files; `None` for what is no plain, small folder."""
    digest = hashlib.sha256()
    files = size = 0
    if folder.is_symlink() or not folder.is_dir():
        return None
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            files += 1
            if files > _MAX_FILES or path.is_symlink() or not path.is_file():
                return None
            size += path.stat().st_size
            if size > _MAX_BYTES:
                return None
            data = path.read_bytes()
            digest.update(f"{path.relative_to(folder)}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return digest.hexdigest()


def last_seeded(root: Path) -> Seeded:
    try:
        return loads((root / MARKER).read_bytes(), Seeded)
    except (OSError, InvalidJson):
        return Seeded(bundle="", templates={})


def _seed(root: Path, bundled: Path) -> list[str]:
    bundle = digest_of(bundled) or ""
    ids = builtin_ids(bundled)
    if last_seeded(root).bundle == bundle and all(os.path.lexists(root / id_) for id_ in ids):
        return []
    root.mkdir(parents=True, exist_ok=True)
    with _alone(root) as alone:
        if not alone:
            return []  # another Holon of this user is at it
        return _write(root, bundled, bundle, ids)


def _write(root: Path, bundled: Path, bundle: str, ids: list[str]) -> list[str]:
    for stale in root.glob(f"{_BESIDE}*"):
        shutil.rmtree(stale, ignore_errors=True)
    before = last_seeded(root).templates
    now, written = dict(before), []
    with tempfile.TemporaryDirectory(prefix=_BESIDE, dir=root) as beside:
        for id_ in ids:
            newest = digest_of(bundled / id_) or ""
            there = os.path.lexists(root / id_)
            found = digest_of(root / id_) if there else None
            if there and found == newest:
                now[id_] = newest
            elif there and (found is None or found != before.get(id_)):
                log.info("template %s was changed here: it stays as it is", root / id_)
            else:
                _replace(bundled / id_, root / id_, Path(beside) / id_)
                now[id_] = newest
                written.append(id_)
    new = root / f"{MARKER}.new"
    new.write_text(dumps(Seeded(bundle=bundle, templates=now)) + "\n", encoding="utf-8")
    os.replace(new, root / MARKER)
    return written


def _replace(source: Path, place: Path, beside: Path) -> None:
    """A reader sees the old one, for an instant none, or the new one; never half of one."""
    shutil.copytree(source, beside, copy_function=shutil.copyfile)
    if os.path.lexists(place):
        place.rename(beside.with_name(f"{place.name}.before"))
    beside.rename(place)


@contextmanager
def _alone(root: Path) -> Iterator[bool]:
    """Whether no other process seeds this folder now."""
    with open(root / _LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
