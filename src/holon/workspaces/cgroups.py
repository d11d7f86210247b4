"""Control groups: limits for all of an agent's confined processes together, where the machine lets us set them.

Needed beside the limits of single processes: those do not add up, and the number of processes is not limited for root
at all. One group an agent stays for as long as there are commands in it; `clear` removes those that are empty.
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
#: Shell: joins through each file that is named before `--`, then becomes the command after it, under the same process
#: number. 0 is the writer itself: that it may join a group as a single thread spares the kernel a wait of some 10 ms.
JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'


class Controllers(NamedTuple):
    """The folders under which groups can be made; None where that is not allowed."""

    memory: Path | None = None
    processes: Path | None = None


NO_GROUPS = Controllers()


@cache
def controllers() -> Controllers:
    """Found by making a group, setting its limit and joining it, once."""
    return Controllers(memory=_usable("memory"), processes=_usable("pids"))


def doors(found: Controllers, name: str, *, memory_bytes: int, processes: int) -> list[Path]:
    """The files by which to join the groups of this name with these limits, made if they are not there; none where that
    is not allowed."""
    wanted = (("memory", found.memory, memory_bytes), ("pids", found.processes, processes))
    joined: dict[Path, None] = {}
    for controller, base, value in wanted:
        if base is not None:
            folder = base / f"{_PREFIX}{_plain(name)}"
            folder.mkdir(exist_ok=True)
            _limit(folder, controller, value)
            joined[_door(folder)] = None
    return list(joined)


def clear(found: Controllers, name: str = "*") -> None:
    """Removes groups without processes: of one name, or of all that a `*` stands for. For when no command is about to
    start in them."""
    for base in {base for base in found if base is not None}:
        for folder in base.glob(_PREFIX + "*".join(map(_plain, name.split("*")))):
            with suppress(OSError):  # the kernel refuses where processes are left
                folder.rmdir()


def _door(folder: Path) -> Path:
    """In the first version a thread can join alone; in the second only a whole process can."""
    return tasks if (tasks := folder / "tasks").exists() else folder / "cgroup.procs"


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
            subprocess.run(
                ["/bin/sh", "-c", JOIN, "sh", _door(folder), "--", "true"], check=True, capture_output=True, timeout=10
            )
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
