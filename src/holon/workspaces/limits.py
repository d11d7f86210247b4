"""Limits of confined commands: memory, processes, open files and processor time.

Where control groups can be used, memory and processes are limited for an agent as a whole. Elsewhere each process has
limits of its own, and the number of processes is counted inside the sandbox.
"""

from __future__ import annotations

import os
import shutil

from holon.core.policy import Guarantee
from holon.core.values import Value
from holon.workspaces import cgroups
from holon.workspaces.cgroups import Controllers


class Limits(Value, frozen=True, kw_only=True):
    memory_bytes: int
    processes: int
    open_files: int
    cpu_seconds: int | None
    #: Whose limits they are.
    group: str


def outside(limits: Limits, groups: Controllers) -> list[str]:
    """What stands before the sandbox: joins the agent's groups, and limits each process. Nothing without groups."""
    doors = cgroups.doors(groups, limits.group, memory_bytes=limits.memory_bytes, processes=limits.processes)
    if not doors:
        return []
    return ["/bin/sh", "-c", f"{_shell_limits(limits)}; {cgroups.JOIN}", "sh", *map(str, doors), "--"]


def inside(limits: Limits, groups: Controllers) -> list[str]:
    """What stands first in the sandbox where processes are not counted by a group: only the sandbox's own are counted
    there, and nobody in it has the right to raise a limit."""
    if groups.processes is not None:
        return []
    if program := shutil.which("prlimit", path="/usr/bin:/bin"):
        values = {**_each_process(limits), "nproc": limits.processes}
        return [program, *(f"--{name}={value}:{value}" for name, value in values.items())]
    counted = f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes}"  # bash says u, dash says p
    return ["/bin/sh", "-c", f'{_shell_limits(limits)}; {counted}; exec "$@"', "sh"]


def memory_guarantee(groups: Controllers) -> Guarantee:
    """Without a group each process is limited, and so is their number, but not their sum."""
    return Guarantee.HARD_ENFORCED if groups.memory else Guarantee.RUNTIME_SHAPED


def process_guarantee(groups: Controllers) -> Guarantee:
    """Without a group the kernel does not limit root's processes, not even root's in a namespace."""
    counted = groups.processes is not None or os.geteuid() != 0
    return Guarantee.HARD_ENFORCED if counted else Guarantee.NOT_ENFORCED


#: How a shell calls a limit, and in which unit it takes it.
_IN_SHELL = {"core": ("c", 1), "data": ("d", 1024), "nofile": ("n", 1), "cpu": ("t", 1)}


def _each_process(limits: Limits) -> dict[str, int]:
    """Data instead of address space: many runtimes reserve far more addresses than they ever use."""
    timed = {"cpu": limits.cpu_seconds} if limits.cpu_seconds else {}
    return {"core": 0, "data": limits.memory_bytes, "nofile": limits.open_files, **timed}


def _shell_limits(limits: Limits) -> str:
    named = ((*_IN_SHELL[name], value) for name, value in _each_process(limits).items())
    return "; ".join(f"ulimit -{option} {value // unit}" for option, unit, value in named)
