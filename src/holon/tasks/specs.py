"""What a command is: the words, where and how they run, and what they may use. A value; `commands` starts it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from holon.core.tasks import command_digest
from holon.core.values import Value
from holon.tasks.failures import CommandSpawnFailed, ShellMissing
from holon.tasks.protocol import Order

MIB = 1_048_576

#: Shells that read their profile when they are asked to be a login shell. For others `login` says nothing.
LOGIN_SHELLS = frozenset({"bash", "zsh", "ksh", "mksh", "fish"})


class CommandSpec(Value, frozen=True, kw_only=True):
    cmd: str
    workdir: Path
    #: Its own, for ever: output, status and the runner's socket. Made if it is not there.
    folder: Path
    #: All that the command sees of an environment.
    env: Mapping[str, str]
    shell: str | None = None
    login: bool = True
    tty: bool = False
    accepts_input: bool = False
    #: Put before the shell, such as a sandbox and its arguments.
    argv_prefix: tuple[str, ...] = ()
    #: What the kernel holds each of its processes to (`RLIMIT_…` -> value); the runner lives with it, too.
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    #: The control groups that it is born in, each by the files to enter and to leave it.
    groups: tuple[tuple[str, str], ...] = ()
    #: Kept of each stream: its beginning and its end.
    head_bytes: int = 7 * MIB
    tail_bytes: int = 1 * MIB
    #: With less free disk than this, only 64 KiB of each end are kept.
    disk_floor_bytes: int = 256 * MIB
    #: Between asking it to end and ending it.
    grace_s: float = 5.0
    #: The runner stops it then, whether anybody watches or not.
    time_limit_s: float | None = None
    rows: int = 24
    columns: int = 120

    @property
    def found_shell(self) -> str:
        """The program that will read it, whether one was asked for or not."""
        return shell_argv(self.shell, self.login, self.env)[0]

    def digest(self) -> str:
        """Two commands with the same digest do the same thing in the same place."""
        return command_digest(
            cmd=self.cmd, workdir=str(self.workdir), shell=self.found_shell, login=self.login, tty=self.tty
        )

    def order(self) -> Order:
        """As the runner is told. Raises what can be known without trying."""
        argv = [*self.argv_prefix, *shell_argv(self.shell, self.login, self.env), self.cmd]
        if self.argv_prefix:
            argv[0] = _find(self.argv_prefix[0], self.env) or self.argv_prefix[0]
        env = {"TERM": "xterm-256color", **self.env} if self.tty else dict(self.env)
        if any("\0" in text for text in (*argv, str(self.workdir), *env, *env.values())):
            raise CommandSpawnFailed(
                "a command cannot hold a NUL character", hint="write such bytes with printf '\\0' inside the command"
            )
        return Order(
            folder=str(self.folder.absolute()),
            argv=argv,
            cwd=str(self.workdir),
            env=env,
            tty=self.tty,
            accepts_input=self.accepts_input,
            rows=self.rows,
            columns=self.columns,
            head_bytes=self.head_bytes,
            tail_bytes=self.tail_bytes,
            disk_floor_bytes=self.disk_floor_bytes,
            grace_s=self.grace_s,
            time_limit_s=self.time_limit_s,
            limits=dict(self.limits),
            groups=list(self.groups),
        )


def shell_argv(shell: str | None, login: bool, env: Mapping[str, str]) -> list[str]:
    """`bash -lc` where there is a bash, else `sh -c`; or the shell that was asked for."""
    found = _find(shell, env) if shell else _find("bash", env) or _find("sh", env)
    if found is None:
        raise ShellMissing(
            f"there is no shell '{shell or 'sh'}' on this machine",
            hint="leave shell out to get the default one",
            shell=shell,
        )
    return [found, "-lc" if login and Path(found).name in LOGIN_SHELLS else "-c"]


def _find(name: str, env: Mapping[str, str]) -> str | None:
    path = env.get("PATH", os.defpath)
    found = _found(name, path)
    if found is None or not os.access(found, os.X_OK):  # installed or removed since
        _found.cache_clear()
        found = _found(name, path)
    return found


@lru_cache(maxsize=64)
def _found(name: str, path: str) -> str | None:
    return shutil.which(name, path=path)
