"""Settings: a few files of /etc, copied to one folder that confined commands see as theirs.

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
    """Commands that run see the old or the new, never half of one. What cannot be read is not there."""
    leads_to = os.path.realpath(original)
    try:
        if leads_to.startswith(_SEEN) and os.path.exists(leads_to):
            _replace(copy, lambda fresh: os.symlink(leads_to, fresh))
        elif os.path.isdir(leads_to):
            _mirror_folder(original, copy)
        else:
            _replace(copy, lambda fresh: shutil.copyfile(leads_to, fresh))
    except OSError:
        _remove(copy)


def _mirror_folder(original: Path, copy: Path) -> None:
    if copy.is_symlink() or not copy.is_dir():
        _remove(copy)
        copy.mkdir()
    # A folder behind a link could be the one that it is in.
    names = {each.name for each in os.scandir(original) if each.is_file() or each.is_dir(follow_symlinks=False)}
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
