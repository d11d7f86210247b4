"""Policies: what an agent may do on the machine, what holds it to that, and the one gate that everything passes.

The snapshot is honest. `host_local` runs commands as the operator would, and says that nothing confines them.
`sandboxed` says `hard_enforced` only of what the kernel does, on a machine where it was seen to work. An agent that
must be sandboxed and cannot be runs no commands: it is never let out quietly.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from holon.core.errors import AgentError
from holon.core.messages import MessageEnvelope
from holon.core.policy import (
    BackendChoice,
    ExecutionPolicy,
    ExecutionProfile,
    Guarantee,
    ProcessGuarantees,
    ResourceAuthority,
)
from holon.core.values import Value
from holon.core.workspaces import WorkspaceRefused
from holon.workspaces.anchors import Detected
from holon.workspaces.places import private_places, real, refuse_private, refuse_system
from holon.workspaces.sandbox import SandboxProbe


class ExecutionBackend(StrEnum):
    HOST_LOCAL = "host_local"
    SANDBOXED = "sandboxed"


class Action(StrEnum):
    PROCESS = "process"
    BACKGROUND_TASK = "background_task"
    WORKTREE = "worktree"


class Attacher(StrEnum):
    """Who wants a folder to become a workspace."""

    OPERATOR = "operator"
    AGENT = "agent"


class ToolDenied(AgentError):
    """The execution policy does not allow it."""

    code = "execution_denied"
    status = 403


class PolicyOptions(Value, frozen=True, kw_only=True):
    """What an operator has set for one agent."""

    #: Which of the three actions exist for it.
    processes: bool = True
    background_tasks: bool = True
    worktrees: bool = True
    #: Whether its sandboxed commands share the machine's network.
    network: bool = False
    #: What its sandboxed commands may read beside the system: compilers, caches.
    readable: tuple[Path, ...] = ()
    #: What those of one agent may use together, and how long each of them may run.
    memory_bytes: int = 4096 << 20
    process_count: int = 512
    time_limit_s: float | None = None
    #: Below these an agent may attach workspaces by itself. None: anywhere, which a sandboxed agent never may.
    workspace_roots: tuple[Path, ...] | None = None


class Chosen(NamedTuple):
    backend: ExecutionBackend
    #: Why this one, in words for an operator.
    reason: str


def choose(choice: BackendChoice, probe: SandboxProbe | None) -> Chosen:
    """The backend that a choice comes to on this machine. Without a probe nothing can be confined."""
    probe = probe or _NOT_LOOKED_AT
    match choice:
        case BackendChoice.HOST_LOCAL:
            return Chosen(ExecutionBackend.HOST_LOCAL, "chosen: commands are not confined")
        case BackendChoice.SANDBOXED:
            return Chosen(ExecutionBackend.SANDBOXED, "chosen" if probe.available else f"chosen, but {probe.reason}")
        case BackendChoice.AUTO if probe.available:
            return Chosen(ExecutionBackend.SANDBOXED, probe.reason)
        case BackendChoice.AUTO:
            return Chosen(ExecutionBackend.HOST_LOCAL, f"commands are not confined: {probe.reason}")


_NOT_LOOKED_AT = SandboxProbe(available=False, reason="nobody has looked whether they could be")


def profile_for(backend: ExecutionBackend, options: PolicyOptions) -> ExecutionProfile:
    """Which tools exist."""
    return ExecutionProfile(
        backend=backend,
        process_execution_exposed=options.processes,
        allow_background_tasks=options.processes and options.background_tasks,
        supports_managed_worktrees=options.worktrees,
    )


def policy_for(backend: ExecutionBackend, options: PolicyOptions, probe: SandboxProbe | None = None) -> ExecutionPolicy:
    """What holds. A sandbox needs the probe that has seen it work; without one nothing runs and nothing is claimed."""
    if backend is ExecutionBackend.HOST_LOCAL:
        return ExecutionPolicy(
            backend=backend,
            process_execution_exposed=options.processes,
            managed_worktree_supported=options.worktrees,
        )
    if probe is None or not probe.available:
        return ExecutionPolicy(
            backend=backend, process_execution_exposed=False, managed_worktree_supported=options.worktrees
        )
    hard = Guarantee.HARD_ENFORCED
    return ExecutionPolicy(
        backend=backend,
        process_execution_exposed=options.processes,
        managed_worktree_supported=options.worktrees,
        resource_authority=ResourceAuthority(workspace_projection=hard, process_execution=hard),
        process_execution=ProcessGuarantees(
            cwd_rooting=hard,
            projection_rooting=hard,
            path_confinement=hard,
            write_confinement=hard,
            network_confinement=Guarantee.NOT_ENFORCED if options.network else hard,
            secret_isolation=hard,
            child_process_containment=hard,
        ),
    )


def permit(
    action: Action, profile: ExecutionProfile, policy: ExecutionPolicy, trigger: MessageEnvelope | None = None
) -> None:
    """The one gate for processes, background tasks and worktrees. Returns, or says what is missing.

    `trigger` is the message because of which the agent acts: where it came from is part of what was decided on.
    """
    if (rule := _broken(action, profile, policy)) is not None:
        labels = {"trust": trigger.trust, "authority_class": trigger.authority_class} if trigger else {}
        raise ToolDenied(
            f"{_DOING[action]} is not allowed: {rule.reason}",
            hint=rule.hint,
            action=str(action),
            backend=policy.backend,
            **labels,
        )


def permitted(action: Action, profile: ExecutionProfile, policy: ExecutionPolicy) -> bool:
    """What the gate would say, for who decides what to offer."""
    return _broken(action, profile, policy) is None


def permit_attachment(
    found: Detected,
    by: Attacher,
    backend: ExecutionBackend,
    options: PolicyOptions,
    *,
    agent_home: Path,
    holon_home: Path,
) -> None:
    """Whether what was found may become a workspace: its root and its anchor, because commits are written there.

    In a sandbox the workspace is what can be written: an agent that could choose any folder would not be confined.
    """
    for path in dict.fromkeys((found.execution_root, found.anchor)):
        if path.is_relative_to(real(agent_home)):
            continue
        refuse_system(real(path))
        refuse_private(real(path), private_places(holon_home=holon_home))
        if by is Attacher.AGENT:
            _refuse_foreign(path, backend, options.workspace_roots)


def _refuse_foreign(path: Path, backend: ExecutionBackend, roots: tuple[Path, ...] | None) -> None:
    if roots is None and backend is ExecutionBackend.HOST_LOCAL:
        return
    if not any(path.is_relative_to(real(root)) for root in roots or ()):
        allowed = ", ".join(str(root) for root in roots or ()) or "none"
        raise WorkspaceRefused(
            f"this agent may not attach {path} by itself",
            hint=f"use an attached workspace, or a folder below: {allowed}; an operator can attach others",
            field="path",
        )


class _Rule(NamedTuple):
    holds: Callable[[ExecutionProfile, ExecutionPolicy], bool]
    reason: str
    hint: str = "an operator changes the agent's execution settings"


def _broken(action: Action, profile: ExecutionProfile, policy: ExecutionPolicy) -> _Rule | None:
    return next((rule for rule in _RULES[action] if not rule.holds(profile, policy)), None)


_SAME_BACKEND = _Rule(
    lambda profile, policy: profile.backend == policy.backend,
    "the agent's profile and the policy in force name different backends",
)
_PROCESSES = (
    _SAME_BACKEND,
    _Rule(lambda profile, _: profile.process_execution_exposed, "this agent runs no commands"),
    _Rule(
        lambda _, policy: policy.process_execution_exposed,
        "the backend cannot run commands here",
        "an operator makes the sandbox work, or chooses host_local for this agent",
    ),
)
#: All must hold, from the first to the last.
_RULES: dict[Action, tuple[_Rule, ...]] = {
    Action.PROCESS: _PROCESSES,
    Action.BACKGROUND_TASK: (
        *_PROCESSES,
        _Rule(
            lambda profile, _: profile.allow_background_tasks,
            "this agent has no background tasks",
            "run it in the foreground; for more, an operator changes the agent's execution settings",
        ),
    ),
    Action.WORKTREE: (
        _SAME_BACKEND,
        _Rule(lambda profile, _: profile.supports_managed_worktrees, "this agent makes no worktrees"),
        _Rule(lambda _, policy: policy.managed_worktree_supported, "the backend makes no worktrees"),
    ),
}
_DOING = {
    Action.PROCESS: "running a command",
    Action.BACKGROUND_TASK: "starting a background task",
    Action.WORKTREE: "making a worktree",
}
