"""The lock under which worktrees of a repository are made and removed, across all processes of Holon.

Git inherits it: a git that outlives a killed Holon still holds it, and the next Holon waits for that git to end.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from holon.workspaces.git_problems import GitFailed, GitProblem

LOCK_TIMEOUT_S = 120.0
_POLL_S = 0.01

#: The descriptors of the locks that whoever runs here holds, for the programs that it starts.
HELD: ContextVar[tuple[int, ...]] = ContextVar("held", default=())


@asynccontextmanager
async def alone(common_dir: Path) -> AsyncIterator[None]:
    """One at a time makes or removes worktrees of a repository, in this process and in every other one of Holon's."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + LOCK_TIMEOUT_S
    try:
        descriptor = os.open(common_dir / "holon-worktrees.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise GitFailed(
            GitProblem.NOT_A_REPOSITORY,
            f"{common_dir} cannot be written: {error.strerror}",
            hint="see whether the repository is still there, and whose it is",
        ) from error
    try:
        while not _locked(descriptor):
            if clock() > deadline:
                raise GitFailed(
                    GitProblem.REPOSITORY_LOCKED,
                    f"another worktree of {common_dir} has been in the making for {LOCK_TIMEOUT_S:g} s",
                    hint="try again later",
                )
            await asyncio.sleep(_POLL_S)
        token = HELD.set((*HELD.get(), descriptor))
        try:
            yield
        finally:
            HELD.reset(token)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
