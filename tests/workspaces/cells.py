"""A cell: a sandbox with an execution root, and around it everything that a command would like to get at."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holon.workspaces import cgroups, sandbox
from holon.workspaces.sandbox import SandboxProbe, SandboxSpec

SECRET = "the secret that nobody may see"
#: The interpreter that runs the tests, as it is reached inside.
PYTHON = os.path.realpath(sys.executable)


def needs_sandbox() -> pytest.MarkDecorator:
    found = sandbox.probe()
    return pytest.mark.skipif(not found.available, reason=f"no sandbox here: {found.reason}")


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
            group=f"test-{os.getpid()}-{folder.name}",
        )
        return cls(folder, replace(spec, **changes))

    @property
    def root(self) -> Path:
        return self.spec.root

    def with_(self, **changes: Any) -> Cell:
        return replace(self, spec=replace(self.spec, **changes))

    def command(self, *command: str) -> list[str]:
        return [*sandbox.argv_prefix(self.spec, self.found), *command]

    def run(self, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self.command(*command),
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=timeout,
                start_new_session=True,
            )
        finally:
            cgroups.clear(self.found.groups, self.spec.group)

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/sh", "-c", script)

    def python(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a script that prints what it managed to do."""
        return self.run(PYTHON, "-I", "-c", textwrap.dedent(script), *arguments)
