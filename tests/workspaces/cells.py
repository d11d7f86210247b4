"""A cell: a sandbox with an execution root, and around it everything that a command would like to get at."""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holon.workspaces import cgroups, sandbox
from holon.workspaces.sandbox import SandboxProbe, SandboxSpec

SECRET = "the secret that nobody may see"
#: The interpreter that runs the tests, as it is reached inside.
PYTHON = os.path.realpath(sys.executable)


needs_sandbox = pytest.mark.skipif(not sandbox.probe().available, reason=f"no sandbox here: {sandbox.probe().reason}")


def clear_groups(found: SandboxProbe) -> None:
    """Removes this process's group; it is empty only some moments after the last command has ended."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        cgroups.clear(found.groups, f"test-{os.getpid()}")
        if not any(base and list(base.glob(f"holon-test-{os.getpid()}")) for base in found.groups):
            return
        time.sleep(0.02)
    raise AssertionError("processes were left in the control group of the tests")


@dataclass(frozen=True)
class Cell:
    folder: Path
    spec: SandboxSpec
    found: SandboxProbe = field(default_factory=sandbox.probe)

    @classmethod
    def build(cls, folder: Path, **changes: Any) -> Cell:
        """A person's home with keys, a Holon home with a database and two agents, a project beside another."""
        for name in (
            "person/.ssh/id_ed25519",
            "person/.aws/credentials",
            "holon/state/holon.sqlite3",
            "holon/config.json",
            "holon/agents/other/memory/self.md",
            "other-project/secret.txt",
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(SECRET)
        root, home = folder / "project", folder / "holon" / "agents" / "main"
        root.mkdir()
        home.mkdir()
        spec = SandboxSpec(
            root=root,
            cwd=root,
            agent_home=home,
            holon_home=folder / "holon",
            readable=(Path(sys.base_prefix),),
            group=f"test-{os.getpid()}",
        )
        return cls(folder, replace(spec, **changes))

    @property
    def root(self) -> Path:
        return self.spec.root

    def with_(self, **changes: Any) -> Cell:
        return dataclasses.replace(self, spec=replace(self.spec, **changes))

    def command(self, *command: str) -> list[str]:
        return [*sandbox.confine(self.spec, self.found).prefix, *command]

    def enter(self) -> None:
        """What a runner does before it starts the command."""
        confined = sandbox.confine(self.spec, self.found)
        for name, value in confined.limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))
        for door in confined.groups:
            Path(door.enter).write_text("0")

    def run(self, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        arguments = self.command(*command)
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=self.enter,
        )
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", script)

    def python(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a script that prints what it managed to do."""
        return self.run(PYTHON, "-I", "-c", textwrap.dedent(script), *arguments)
