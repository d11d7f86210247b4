"""A cell for git: the runtime's own git commands, confined where an agent could have them run its programs.

A repository's configuration can name programs, and an agent that can write it could change it between a look and the
use of it. So for an agent that is confined itself, git sees the repository, the folder of its worktrees and the system,
and whatever the repository makes it run sees no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from holon.core.values import Value
from holon.workspaces.binds import GitAccess
from holon.workspaces.git import CONFINED
from holon.workspaces.places import lies_in, real
from holon.workspaces.sandbox import Confined, SandboxSpec, confine


class GitCell(Value, frozen=True, kw_only=True):
    """Whose git it is, and whose limits hold for it: the same as for the agent's commands, in the same groups."""

    agent_home: Path
    holon_home: Path
    group: str
    memory_bytes: int
    processes: int

    @contextmanager
    def around(self, common: Path, shelf: Path, *seen: Path) -> Iterator[None]:
        """While it lasts, git runs confined: it may change the repository and what is on the shelf, and read `seen`."""
        home = real(self.agent_home)
        own = lies_in(str(real(common)), str(home))  # then everything is in the agent's home, which it sees anyway
        if not common.is_dir() or not shelf.parent.is_dir():  # then there is nothing that git could do
            yield
            return
        if not own:
            shelf.mkdir(exist_ok=True)
        root = home if own else shelf
        spec = SandboxSpec(
            root=root,
            cwd=root,
            clean=True,
            readable=() if own else seen,
            agent_home=home if own else None,
            holon_home=self.holon_home,
            git_common_dir=None if own else common,
            git_access=GitAccess.MANAGE,
            group=self.group,
            memory_bytes=self.memory_bytes,
            processes=self.processes,
        )

        def prefix(environment: Mapping[str, str]) -> tuple[str, ...]:
            return _limited(confine(msgspec.structs.replace(spec, env=_inside(environment))))

        token = CONFINED.set(prefix)
        try:
            yield
        finally:
            CONFINED.reset(token)
            with suppress(OSError):  # something is in it
                shelf.rmdir()


def _limited(confined: Confined) -> tuple[str, ...]:
    """With a shell that takes limits and groups on itself: there is no runner here to do it."""
    units = {"RLIMIT_CORE": ("c", 1), "RLIMIT_DATA": ("d", 1024), "RLIMIT_NOFILE": ("n", 1)}
    taken = "; ".join(f"ulimit -{units[name][0]} {value // units[name][1]}" for name, value in confined.limits.items())
    join = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
    return (
        "/bin/sh",
        "-c",
        f"{taken}; {join}",
        "sh",
        *(door.enter for door in confined.groups),
        "--",
        *confined.prefix,
    )


def _inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Git looks whom a repository belongs to, to protect its user; here there is nothing of the user's to protect."""
    count = int(environment["GIT_CONFIG_COUNT"])
    return {
        **environment,
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": "safe.directory",
        f"GIT_CONFIG_VALUE_{count}": "*",
    }
