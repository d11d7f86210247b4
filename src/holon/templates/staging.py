"""Staging: folders beside the agents' homes in which new homes are made completely before they take their place.

A folder belongs to the creation that made it. Once the creation is committed, its errand moves the home into place,
as often as it takes; a folder that no errand names is the rest of a creation that never was, and is swept away.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from holon.core.ids import new_id
from holon.templates.places import AGENTS_MD

_FOLDER = ".staging"  # no id of an agent begins with a dot
PROVENANCE = "template.json"
#: Folders that a home and a template both fill. Whatever else is there already stays as it is.
_SHARED = ("memory", "skills", ".holon", "state")


class Staging:
    def __init__(self, agents_dir: Path) -> None:
        self._root = agents_dir / _FOLDER
        self._lock = threading.Lock()  # the last one out removes the folder of all

    def begin(self) -> str:
        """A new place; its name is what an errand remembers."""
        token = new_id("home")
        with self._lock:
            self.home(token).mkdir(parents=True)
        return token

    def home(self, token: str) -> Path:
        return self._root / token / "home"

    def scratch(self, token: str) -> Path:
        """Where a repository may be cloned to. It goes with the place."""
        return self._root / token / "source"

    def move_in(self, token: str, home: Path) -> None:
        """Puts a finished home into its place. Safe to do twice; what stands there already is not overwritten."""
        staged = self.home(token)
        try:
            os.rename(staged, home)
            _sync(home.parent)
        except FileNotFoundError:
            if not home.is_dir():
                raise
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            merge(staged, home)
        self.discard(token)

    def discard(self, token: str) -> None:
        with self._lock:
            shutil.rmtree(self._root / token, ignore_errors=True)
            with suppress(OSError):
                self._root.rmdir()

    def left(self) -> set[str]:
        """The places that are there."""
        with suppress(OSError):
            return set(os.listdir(self._root))
        return set()


def merge(staged: Path, home: Path) -> None:
    """Adds what a home does not have yet. AGENTS.md comes last: a home that has one is complete."""
    for name in sorted(os.listdir(staged), key=lambda name: (name == AGENTS_MD, name)):
        source, target = staged / name, home / name
        if name == PROVENANCE or not os.path.lexists(target):
            os.replace(source, target)
        elif name in _SHARED and target.is_dir():
            merge(source, target)


def sync_tree(folder: Path) -> None:
    """Brings a finished home to the disk: the commit that follows must not outlive it."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(parent) / name)
        _sync(Path(parent))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
