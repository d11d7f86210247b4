"""Execution policy: what the runtime guarantees about what an agent does on the machine, said honestly."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from holon.core.codec import Record


class Guarantee(StrEnum):
    HARD_ENFORCED = "hard_enforced"
    RUNTIME_SHAPED = "runtime_shaped"
    NOT_ENFORCED = "not_enforced"


class BackendChoice(StrEnum):
    """What an operator may choose for an agent."""

    #: The sandbox where it works, else the host.
    AUTO = "auto"
    HOST_LOCAL = "host_local"
    #: The sandbox or nothing.
    SANDBOXED = "sandboxed"


class BackendState(Record, frozen=True, kw_only=True, omit_defaults=False):
    """On which backend an agent's next command runs, who chose that, and what it comes to here, in words."""

    source: Literal["runtime_default", "agent_override"]
    choice: BackendChoice
    effective: str
    reason: str
    #: Whether its commands reach the machine's network: on the host always, in a sandbox where it was allowed.
    network: bool = False


class ExecutionProfile(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Which tools exist for an agent. It says what is possible, not how fast it was."""

    backend: str = "host_local"
    process_execution_exposed: bool = False
    allow_background_tasks: bool = False
    supports_managed_worktrees: bool = False


class ResourceAuthority(Record, frozen=True, kw_only=True, omit_defaults=False):
    message_ingress: Guarantee = Guarantee.HARD_ENFORCED
    agent_state: Guarantee = Guarantee.HARD_ENFORCED
    control_plane: Guarantee = Guarantee.HARD_ENFORCED
    workspace_projection: Guarantee = Guarantee.RUNTIME_SHAPED
    process_execution: Guarantee = Guarantee.NOT_ENFORCED


class ProcessGuarantees(Record, frozen=True, kw_only=True, omit_defaults=False):
    cwd_rooting: Guarantee = Guarantee.RUNTIME_SHAPED
    projection_rooting: Guarantee = Guarantee.RUNTIME_SHAPED
    path_confinement: Guarantee = Guarantee.NOT_ENFORCED
    write_confinement: Guarantee = Guarantee.NOT_ENFORCED
    network_confinement: Guarantee = Guarantee.NOT_ENFORCED
    secret_isolation: Guarantee = Guarantee.NOT_ENFORCED
    child_process_containment: Guarantee = Guarantee.NOT_ENFORCED


class ExecutionPolicy(Record, frozen=True, kw_only=True, omit_defaults=False):
    backend: str = "host_local"
    process_execution_exposed: bool = False
    managed_worktree_supported: bool = False
    resource_authority: ResourceAuthority = ResourceAuthority()
    process_execution: ProcessGuarantees = ProcessGuarantees()


class ExecutionSnapshot(Record, frozen=True, kw_only=True):
    """Where an agent would act now, and under which policy."""

    profile: ExecutionProfile
    policy: ExecutionPolicy
    workspace_id: str
    workspace_anchor: str
    execution_root: str
    cwd: str
    execution_root_id: str | None = None
    projection_kind: str | None = None
    backend: BackendState | None = None
