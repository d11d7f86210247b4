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
from holon.workspaces.sandbox import SandboxSpec, confine


class GitCell(Value, frozen=True, kw_only=True):
    """Whose git it is, and whose limits hold for it."""

    agent_home: Path
    holon_home: Path
    group: str

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
        )

        def prefix(environment: Mapping[str, str]) -> tuple[str, ...]:
            return confine(msgspec.structs.replace(spec, env=_inside(environment))).prefix

        token = CONFINED.set(prefix)
        try:
            yield
        finally:
            CONFINED.reset(token)
            with suppress(OSError):  # something is in it
                shelf.rmdir()


def _inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Git looks whom a repository belongs to, to protect its user; here there is nothing of the user's to protect."""
    count = int(environment["GIT_CONFIG_COUNT"])
    return {
        **environment,
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": "safe.directory",
        f"GIT_CONFIG_VALUE_{count}": "*",
    }
