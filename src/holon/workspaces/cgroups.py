"""Control groups: limits for all of an agent's confined processes together, where the machine lets us set them.

Needed beside the limits of single processes: those do not add up, and the number of processes is not limited for root
at all. One group an agent stays for as long as there are commands in it; `clear` removes those that are empty.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

_PREFIX = "holon-"


class Controllers(NamedTuple):
    """The folders under which groups can be made; None where that is not allowed."""

    memory: Path | None = None
    processes: Path | None = None


NO_GROUPS = Controllers()


class Door(NamedTuple):
    """A group's, and the one back to where we are: a process that writes 0 to it goes through."""

    enter: str
    leave: str


@cache
def controllers() -> Controllers:
    """Found by making a group, setting its limit and joining it, once."""
    return Controllers(memory=_usable("memory"), processes=_usable("pids"))


def doors(found: Controllers, name: str, *, memory_bytes: int, processes: int) -> list[Door]:
    """The doors of the groups of this name, made if they are not there, with these limits; none where that is not
    allowed."""
    wanted = (("memory", found.memory, memory_bytes), ("pids", found.processes, processes))
    joined: dict[Door, None] = {}
    for controller, base, value in wanted:
        if base is not None:
            folder = f"{base}/{_PREFIX}{_plain(name)}"
            if _limited.get((folder, controller)) != value or not os.path.isdir(folder):
                os.makedirs(folder, exist_ok=True)
                _limit(Path(folder), controller, value)
                _limited[folder, controller] = value
            joined[Door(_file(folder), _back(controller))] = None
    return list(joined)


#: What was set last, by group and controller: every command asks, and the answer seldom changes.
_limited: dict[tuple[str, str], int] = {}


def clear(found: Controllers, name: str = "*") -> None:
    """Removes groups without processes: of one name, or of all that a `*` stands for. For when no command is about to
    start in them."""
    for base in {base for base in found if base is not None}:
        for folder in base.glob(_PREFIX + "*".join(map(_plain, name.split("*")))):
            with suppress(OSError):  # the kernel refuses where processes are left
                folder.rmdir()


def _file(folder: str) -> str:
    """In the first version a thread can join alone; in the second only a whole process can."""
    return tasks if os.path.exists(tasks := f"{folder}/tasks") else f"{folder}/cgroup.procs"


@cache
def _back(controller: str) -> str:
    own = _own_group(controller)
    assert own is not None, "a group was found usable before"
    return _file(str(own))


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "-", name)


def _limit(folder: Path, controller: str, value: int) -> None:
    """Sets the limit in the words of whichever version of control groups this is; swap does not widen it."""
    if controller == "pids":
        (folder / "pids.max").write_text(str(value))
    elif (folder / "memory.max").exists():
        (folder / "memory.max").write_text(str(value))
        _write_if_there(folder / "memory.swap.max", 0)
    else:
        # The sum with swap is never below the limit itself, also not on the way.
        _write_if_there(folder / "memory.memsw.limit_in_bytes", -1)
        (folder / "memory.limit_in_bytes").write_text(str(value))
        _write_if_there(folder / "memory.memsw.limit_in_bytes", value)


def _write_if_there(file: Path, value: int) -> None:
    if file.exists():
        file.write_text(str(value))


def _usable(controller: str) -> Path | None:
    for base in _candidates(controller):
        folder = base / f"{_PREFIX}probe-{os.getpid()}-{controller}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            _limit(folder, controller, {"memory": 1 << 30, "pids": 1 << 10}[controller])
            through = f"echo 0 > '{_file(str(folder))}' && echo 0 > '{_back(controller)}'"
            subprocess.run(["/bin/sh", "-c", through], check=True, capture_output=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
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
    group = _own_group(controller)
    if group is None:
        return []
    if (group / "tasks").exists():
        return [group]
    return [base for base in (group.parent, group) if _hands_down(base, controller)]


def _own_group(controller: str) -> Path | None:
    own, mounts = _own_groups(), _mounts()
    name = next((name for name in (controller, "") if name in own and name in mounts), None)
    return None if name is None else mounts[name] / own[name].lstrip("/")


def _own_groups() -> dict[str, str]:
    """Our group by controller; the empty name is the second version's."""
    found: dict[str, str] = {}
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
