"""Places that no agent's command may see: keys, credentials, the runtime's own state, other agents' homes, the system.

Judged by where a path really leads. A place counts whether it exists or not: it may exist tomorrow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from holon.core.workspaces import WorkspaceRefused

#: Below a person's home.
_CREDENTIALS = (
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".holon",
    ".kube",
    ".local/share/keyrings",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pypirc",
    ".ssh",
)
#: Nothing in them can be a workspace.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr/bin", "/usr/lib")
#: They hold many things that belong to others; a folder in them can be a workspace, they themselves cannot.
_SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr", "/usr/local", "/var", "/var/tmp")


def private_places(*, holon_home: Path | None = None, user_home: Path | None = None) -> tuple[Path, ...]:
    """What stays hidden, as real paths. Every command asks, and nobody moves them between two commands."""
    return _private(str(user_home or Path.home()), str(holon_home) if holon_home else None, int(time.monotonic() / 5))


@lru_cache(maxsize=8)
def _private(home: str, holon_home: str | None, _moment: int) -> tuple[Path, ...]:
    places = [f"{home}/{name}" for name in _CREDENTIALS] + ([holon_home] if holon_home else [])
    return tuple(Path(os.path.realpath(place)) for place in places)


def refuse_private(path: Path, private: Iterable[Path], *, own: Path | None = None) -> None:
    """Refuses a path that is, holds or lies in a private place; what lies in `own` (the agent's home) is its own. Both
    are real: every command asks, and following a path takes longer than all the rest."""
    wanted = str(path)
    if own is not None and lies_in(wanted, str(own)):
        return
    for place in private:
        if lies_in(wanted, str(place)) or lies_in(str(place), wanted):
            raise WorkspaceRefused(
                f"{path} would open {place}, which no agent's command may see",
                hint="choose a folder that holds only the project",
                field="path",
            )


def refuse_system(path: Path) -> None:
    """Refuses to make a part of the system, or a folder of everybody's, an agent's own. The path is real."""
    wanted = str(path)
    if wanted in _real(_SHARED) or any(lies_in(wanted, place) for place in _real(_SYSTEM)):
        raise WorkspaceRefused(
            f"{path} belongs to the system or to everybody on this machine, and cannot be a workspace",
            hint="choose a project's own folder",
            field="path",
        )


def real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def lies_in(path: str, place: str) -> bool:
    """By text, because every command asks this many times."""
    return path == place or path.startswith(place if place.endswith("/") else f"{place}/")


@cache
def _real(places: tuple[str, ...]) -> frozenset[str]:
    """The system's own folders do not move while it runs."""
    return frozenset(os.path.realpath(place) for place in places)
