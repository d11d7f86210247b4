"""A place: where and how an agent's commands and patches act now. Made by `housing` for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holon.core.errors import AgentError
from holon.core.messages import MessageEnvelope
from holon.core.values import Value
from holon.core.workspaces import ActiveWorkspace
from holon.runtime.confinement import Backing
from holon.workspaces.policies import Action, permit
from holon.workspaces.roots import ExecutionRoot
from holon.workspaces.sandbox import Confined, SandboxSpec, confine

#: In the agent's home: what its commands wrote, and what their runners know of them.
TASK_OUTPUT = "task-output"
#: The environment of what starts a sandbox: it needs nothing of the command's, and could be read inside.
STARTING = {"PATH": "/usr/bin:/bin"}
FREE = Confined((), {}, ())


class Place(Value, frozen=True):
    """Where and how an agent's commands run now."""

    active: ActiveWorkspace
    #: With which a command is started. In the sandbox it gets that of its cell.
    env: Mapping[str, str]
    backing: Backing
    #: What is known of the agent's commands.
    records: Path
    #: What a sandboxed command sees; None on the host.
    cell: SandboxSpec | None = None
    #: How long a command may run.
    time_limit_s: float | None = None

    @property
    def root(self) -> Path:
        return Path(self.active.execution_root)

    @property
    def cwd(self) -> Path:
        return Path(self.active.cwd)

    def files(self) -> ExecutionRoot:
        """What the file tools may touch. What git and the runtime act on by themselves is none of it: a hook or a
        record that an agent writes would act outside of its place."""
        own = (TASK_OUTPUT,) if self.records.parent == self.root else ()
        return ExecutionRoot(self.root, closed=(".git", *own))

    def permit(self, action: Action, trigger: MessageEnvelope) -> None:
        """The one gate, with both things that it may decide by: the policy, and because of whom the agent acts."""
        permit(action, self.backing.profile, self.backing.policy, trigger)

    def confined(self, workdir: Path) -> Confined:
        """How a command starts there: as it is, or in a sandbox."""
        return confine(msgspec.structs.replace(self.cell, cwd=workdir)) if self.cell else FREE


class PlaceLost(AgentError):
    """The folder that the agent worked in is gone. Nothing was run: it was meant for there."""

    code = "workspace_lost"
    status = 409
