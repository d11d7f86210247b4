"""Control groups: limits that hold for all of an agent's confined processes together, where the machine lets us set them.

Needed beside the limits of single processes: those do not add up, and the number of processes is not limited for root at
all. One group an agent stays for as long as the agent has confined commands; `clear` removes those that are empty.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PREFIX = "holon-"
#: Joins each group before `--`, then becomes the command after it. The number of the process stays the same.
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'


class Controllers(NamedTuple):
    """The folders under which groups can be made; None where that is not allowed."""

    memory: Path | None
    processes: Path | None


@cache
def controllers() -> Controllers:
    """Found by making a group, setting its limit and joining it, once."""
    return Controllers(memory=_usable("memory"), processes=_usable("pids"))


def joining(name: str, *, memory_bytes: int, processes: int) -> list[str]:
    """The beginning of a command line that runs the rest in the agent's group; empty where there are no groups."""
    limits = {"memory": memory_bytes, "pids": processes}
    found = controllers()
    folders: dict[Path, None] = {}
    for controller, base in (("memory", found.memory), ("pids", found.processes)):
        if base is not None:
            folder = base / f"{_PREFIX}{re.sub('[^A-Za-z0-9_-]', '-', name)}"
            folder.mkdir(exist_ok=True)
            _limit(folder, controller, limits[controller])
            folders[folder] = None
    return _joining(list(folders)) if folders else []


def clear() -> None:
    """Removes the groups without processes; the kernel refuses to remove the others."""
    for base in {base for base in controllers() if base is not None}:
        for folder in base.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                folder.rmdir()


def _joining(folders: list[Path]) -> list[str]:
    return ["/bin/sh", "-c", _JOIN, "sh", *map(str, folders), "--"]


def _limit(folder: Path, controller: str, value: int) -> None:
    """Writes the first limit file that this version of control groups has, and forbids swapping around it."""
    names = {"pids": ("pids.max",), "memory": ("memory.max", "memory.limit_in_bytes")}[controller]
    present = next(name for name in names if (folder / name).exists())
    (folder / present).write_text(str(value))
    for name, amount in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", value)):
        if controller == "memory":
            with suppress(OSError):
                (folder / name).write_text(str(amount))


def _usable(controller: str) -> Path | None:
    for base in _candidates(controller):
        folder = base / f"{_PREFIX}probe-{os.getpid()}-{controller}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            _limit(folder, controller, 1 << 30)
            subprocess.run([*_joining([folder]), "true"], check=True, capture_output=True, timeout=10)
        except (OSError, StopIteration, subprocess.SubprocessError):
            continue
        else:
            return base
        finally:
            with suppress(OSError):
                folder.rmdir()
    return None


def _candidates(controller: str) -> list[Path]:
    """Where a group of ours may stand.

    In the first version below our own group. In the second beside it, because there a group has either processes or
    groups in it; only where the controller is handed down already.
    """
    own = _own_groups()
    mounts = _mounts()
    if controller in own and controller in mounts:
        return [mounts[controller] / own[controller].lstrip("/")]
    if "" in own and "" in mounts:
        group = mounts[""] / own[""].lstrip("/")
        return [base for base in (group.parent, group) if _hands_down(base, controller)]
    return []


def _own_groups() -> dict[str, str]:
    """Our group by controller; the empty name is the second version's."""
    found = {}
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            found |= dict.fromkeys(names.split(","), path)
    return found


def _mounts() -> dict[str, Path]:
    found: dict[str, Path] = {}
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            point = Path(left.split(" ")[4])
            if kind == "cgroup2":
                found.setdefault("", point)
            elif kind == "cgroup":
                found |= {name: point for name in options.split(",") if name in ("memory", "pids")}
    return found


def _hands_down(base: Path, controller: str) -> bool:
    with suppress(OSError):
        return controller in (base / "cgroup.subtree_control").read_text().split()
    return False
