"""/etc: a few of its files, copied to one folder that confined commands see as theirs.

Chosen one by one, because /etc also has password hashes, host keys and tokens; copied, because each mount of a sandbox
costs every command time. A copy follows its original from command to command.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

_LOCAL = (
    "alternatives",
    "group",
    "hosts",
    "ld.so.cache",
    "localtime",
    "nsswitch.conf",
    "os-release",
    "passwd",
)
_NETWORK = (
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "resolv.conf",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
)
_ETC = Path("/etc")
#: What is seen inside under the same name: links there can stay links.
_SEEN = "/usr/"

#: What an original looked like when it was copied, by copy.
_copied: dict[Path, tuple[int, int, int] | None] = {}


def _chosen(*, network: bool) -> list[str]:
    return [*_LOCAL, *_NETWORK] if network else [*_LOCAL]


def copied(folder: Path, *, network: bool) -> Path:
    """Where the copies are, as new as the originals; below `folder`, which nobody else can write."""
    place = folder / ("etc-network" if network else "etc")
    if not place.is_dir():  # the first time, or somebody has cleared it away
        for copy in [copy for copy in _copied if copy.is_relative_to(place)]:
            del _copied[copy]
    for name in _chosen(network=network):
        original, copy = _ETC / name, place / name
        looks = _looks(original)
        if copy not in _copied or _copied[copy] != looks:
            copy.parent.mkdir(parents=True, exist_ok=True)
            _mirror(original, copy)
            _copied[copy] = looks
    return place


def _looks(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _mirror(original: Path, copy: Path) -> None:
    """Commands that run see the old or the new, never half of one. What cannot be read is not there; what cannot be
    written is an error."""
    leads_to = os.path.realpath(original)
    if leads_to.startswith(_SEEN) and os.path.exists(leads_to):
        _replace(copy, lambda fresh: fresh.symlink_to(leads_to))
        return
    try:
        names = _names(leads_to) if os.path.isdir(leads_to) else None
        content = Path(leads_to).read_bytes() if names is None else b""
    except OSError:
        _remove(copy)
        return
    if names is None:
        _replace(copy, lambda fresh: fresh.write_bytes(content))
    else:
        _mirror_folder(original, names, copy)


def _names(folder: str) -> set[str]:
    """A folder behind a link could be the one that it is in."""
    with os.scandir(folder) as entries:
        return {each.name for each in entries if each.is_file() or each.is_dir(follow_symlinks=False)}


def _mirror_folder(original: Path, names: set[str], copy: Path) -> None:
    if copy.is_symlink() or not copy.is_dir():
        _remove(copy)
        copy.mkdir()
    for gone in set(os.listdir(copy)) - names:
        _remove(copy / gone)
    for name in names:
        _mirror(original / name, copy / name)


def _replace(copy: Path, make: Callable[[Path], object]) -> None:
    fresh = copy.with_name(f"{copy.name}.fresh")
    _remove(fresh)
    make(fresh)
    if copy.is_dir() and not copy.is_symlink():
        _remove(copy)
    fresh.replace(copy)


def _remove(copy: Path) -> None:
    if copy.is_dir() and not copy.is_symlink():
        shutil.rmtree(copy)
    else:
        copy.unlink(missing_ok=True)
