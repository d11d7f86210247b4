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
from holon.workspaces.cgroups import Controllers, Door


class Limits(Value, frozen=True, kw_only=True):
    memory_bytes: int
    processes: int
    open_files: int
    cpu_seconds: int | None
    #: Whose limits they are.
    group: str


def doors(limits: Limits, groups: Controllers) -> tuple[Door, ...]:
    """Of the agent's groups, which hold all of its commands together to their limits. None where there are none."""
    found = cgroups.doors(groups, limits.group, memory_bytes=limits.memory_bytes, processes=limits.processes)
    return tuple(found)


def each_process(limits: Limits) -> dict[str, int]:
    """For whoever starts the command to take on itself. Data instead of address space: many runtimes reserve far more
    addresses than they ever use."""
    return {"RLIMIT_CORE": 0, "RLIMIT_DATA": limits.memory_bytes, "RLIMIT_NOFILE": limits.open_files}


def inside(limits: Limits, groups: Controllers) -> list[str]:
    """What stands first in the sandbox: limits that nobody outside could live with. Processes are counted there where
    no group counts them: only the sandbox's own, and nobody in it has the right to raise a limit."""
    wanted = {
        **({"cpu": limits.cpu_seconds} if limits.cpu_seconds else {}),
        **({"nproc": limits.processes} if groups.processes is None else {}),
    }
    if not wanted:
        return []
    if program := shutil.which("prlimit", path="/usr/bin:/bin"):
        return [program, *(f"--{name}={value}:{value}" for name, value in wanted.items())]
    script = "; ".join(_IN_SHELL[name].format(value) for name, value in wanted.items())
    return ["/bin/sh", "-c", f'{script}; exec "$@"', "sh"]


#: bash calls the number of processes u, dash p.
_IN_SHELL = {"cpu": "ulimit -t {0}", "nproc": "ulimit -u {0} 2>/dev/null || ulimit -p {0}"}


def memory_guarantee(groups: Controllers) -> Guarantee:
    """Without a group each process is limited, and so is their number, but not their sum."""
    return Guarantee.HARD_ENFORCED if groups.memory else Guarantee.RUNTIME_SHAPED


def process_guarantee(groups: Controllers) -> Guarantee:
    """Without a group the kernel does not limit root's processes, not even root's in a namespace."""
    counted = groups.processes is not None or os.geteuid() != 0
    return Guarantee.HARD_ENFORCED if counted else Guarantee.NOT_ENFORCED
