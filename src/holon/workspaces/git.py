"""Git, run so that a repository cannot run anything: no hooks, no filters of its own, no network, no questions.

A repository is data that an agent, or a stranger, may have written, and its configuration can name programs. What the
operator has set for all repositories (the system's and the user's configuration) is trusted and stays in force. Where
an agent could change the configuration while git runs, git runs in a sandbox (`CONFINED`).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from holon.core.values import Value
from holon.workspaces.git_problems import GitFailed, GitProblem, explain
from holon.workspaces.locks import HELD

TIMEOUT_S = 30.0
#: Git's environment -> what stands before git. Set by `git_cell`, for whatever is run meanwhile.
CONFINED: ContextVar[Callable[[Mapping[str, str]], Sequence[str]] | None] = ContextVar("confined", default=None)
#: What git may take to end after it was asked to: it removes what it had begun.
_GRACE_S = 5.0


class Repository(Value, frozen=True, kw_only=True):
    """Where git acts. A worktree is named from outside: nothing in it is asked where its repository is."""

    git_dir: Path
    work_tree: Path | None = None

    @property
    def options(self) -> list[str]:
        tree = [f"--work-tree={self.work_tree}"] if self.work_tree else []
        return [f"--git-dir={self.git_dir}", *tree]


async def git(
    where: Repository | Path, *arguments: str, timeout_s: float = TIMEOUT_S, config: Mapping[str, str] | None = None
) -> str:
    """What git printed. `config` is set for this run, over everything else."""
    if isinstance(where, Repository):
        place, directory = where.options, where.work_tree or where.git_dir
    else:
        place, directory = ["-C", str(where)], where
    answer = await _run([*place, *_SETTINGS, *arguments], directory, timeout_s, config or {})
    if answer.code != 0:
        raise explain(answer.stderr, arguments[0], where=directory)
    return answer.stdout


async def own_filters(where: Repository | Path) -> dict[str, str]:
    """Settings that switch off each filter which the repository configures for itself."""
    try:
        listing = await git(where, "config", "--list", "--show-scope", "--name-only", "-z", "--includes")
    except GitFailed as failed:
        if failed.problem is GitProblem.OTHER:  # a configuration that cannot be read configures nothing
            return {}
        raise
    fields = listing.split("\0")
    drivers = {
        found[1]
        for scope, key in zip(fields[::2], fields[1::2], strict=False)
        if scope in ("local", "worktree") and (found := _FILTER.fullmatch(key))
    }
    return {
        f"filter.{driver}.{setting}": value
        for driver in sorted(drivers)
        for setting, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }


_SETTINGS = [
    argument
    for setting in (
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.quotePath=false",
        "status.showUntrackedFiles=normal",
        "submodule.recurse=false",
        "gc.auto=0",
        "maintenance.auto=false",
    )
    for argument in ("-c", setting)
]
_FILTER = re.compile(r"filter\.(.+)\.(?:clean|smudge|process|required)", re.DOTALL)

#: Taken over from our own environment. Everything else could point git at another repository or at a program.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "TMPDIR", "SSL_CERT_FILE")
_ENVIRONMENT = {
    "LC_ALL": "C",  # `explain` reads English
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_OPTIONAL_LOCKS": "0",  # looking must not wait for, or break, somebody else's command
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks, through programs that it names itself
    "GIT_NO_LAZY_FETCH": "1",
}


class _Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str


async def _run(arguments: list[str], directory: Path, timeout_s: float, config: Mapping[str, str]) -> _Answer:
    environment, confined = _environment(config), CONFINED.get()
    prefix = confined(environment) if confined else ()
    try:
        process = await asyncio.create_subprocess_exec(
            *prefix,
            "git",
            *arguments,
            cwd=directory,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=HELD.get(),
        )
    except OSError as error:
        raise _not_started(error, directory) from error
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        raise GitFailed(
            GitProblem.TIMEOUT,
            f"git did not end within {timeout_s:g} s in {directory}",
            hint="look for a slow disk or another git command that holds the repository, then try again",
        ) from error
    finally:
        await _end(process)
    return _Answer(process.returncode or 0, os.fsdecode(stdout), stderr.decode(errors="replace"))


def _not_started(error: OSError, directory: Path) -> GitFailed:
    if not directory.is_dir():
        return GitFailed(
            GitProblem.NOT_A_REPOSITORY, f"the folder {directory} is gone", hint="choose a workspace with UseWorkspace"
        )
    if isinstance(error, FileNotFoundError):
        return GitFailed(
            GitProblem.MISSING_PROGRAM, "there is no 'git' on this machine", hint="an operator installs git"
        )
    return GitFailed(
        GitProblem.OTHER, f"git cannot be started in {directory}: {error.strerror}", hint="see whose folder it is"
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """Asks git and what it started to end, so that git can remove what it had begun; then makes them."""
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, wanted)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)


def _environment(config: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    settings = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return inherited | _ENVIRONMENT | settings
