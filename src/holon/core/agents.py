"""Agents: who they are, where they stand, and what operators are told about them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from holon.core.closures import (
    ClosureDecision,
    ContinuationResolution,
    SchedulingPosture,
    WaitingReason,
)
from holon.core.codec import Record
from holon.core.failures import RuntimeFailure
from holon.core.guidance import LoadedGuidance
from holon.core.policy import BackendChoice, ExecutionProfile, ExecutionSnapshot
from holon.core.triggers import TriggerSummary
from holon.core.turns import TurnTerminal
from holon.core.usage import AgentTokenUsage, TokenUsage
from holon.core.workspaces import ActiveWorkspace


class AgentKind(StrEnum):
    DEFAULT = "default"
    NAMED = "named"
    CHILD = "child"


class Visibility(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"


class Ownership(StrEnum):
    SELF_OWNED = "self_owned"
    PARENT_SUPERVISED = "parent_supervised"


class ProfilePreset(StrEnum):
    PUBLIC_NAMED = "public_named"
    PRIVATE_CHILD = "private_child"


class RegistryStatus(StrEnum):
    ACTIVE = "active"
    ARCHIVED = "archived"


class AgentStatus(StrEnum):
    BOOTING = "booting"
    AWAKE_IDLE = "awake_idle"
    AWAKE_RUNNING = "awake_running"
    AWAITING_TASK = "awaiting_task"
    ASLEEP = "asleep"
    PAUSED = "paused"
    STOPPED = "stopped"

    @property
    def awake(self) -> bool:
        """The two high-level modes: processing or waiting on a result, or deliberately at rest."""
        return self in (
            AgentStatus.BOOTING,
            AgentStatus.AWAKE_IDLE,
            AgentStatus.AWAKE_RUNNING,
            AgentStatus.AWAITING_TASK,
        )

    @property
    def at_rest(self) -> bool:
        """Free to be woken: a wake hint becomes a tick at once."""
        return self in (AgentStatus.AWAKE_IDLE, AgentStatus.ASLEEP)


class AgentIdentity(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    agent_home: str
    kind: AgentKind
    visibility: Visibility
    ownership: Ownership
    profile_preset: ProfilePreset
    status: RegistryStatus
    created_at: datetime
    is_default_agent: bool = False
    parent_agent_id: str | None = None
    lineage_parent_agent_id: str | None = None
    delegated_from_task_id: str | None = None
    archived_at: datetime | None = None


class ToolLatency(Record, frozen=True, kw_only=True, omit_defaults=False):
    tool_name: str
    total_calls: int = 0
    total_duration_ms: int = 0


class SleepNote(Record, frozen=True, kw_only=True):
    """Since when and why the agent rests, and what is expected to wake it."""

    since: datetime
    reason: str
    expected_wake: str | None = None


class RunBudget(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How many turns a run was given (`holon run --max-turns`), and how many of them are left."""

    turns: int
    left: int


class AgentState(Record, frozen=True, kw_only=True):
    """The durable state of one agent. Identity, counters of the log and the queue stand beside it, not in it."""

    id: str
    status: AgentStatus = AgentStatus.BOOTING
    sleeping_until: datetime | None = None
    sleep: SleepNote | None = None
    current_run_id: str | None = None
    current_turn_id: str | None = None
    pending: int = 0
    active_task_ids: list[str] = msgspec.field(default_factory=list)
    last_wake_reason: str | None = None
    last_brief_at: datetime | None = None
    #: A legacy fallback: read, shown, never written anew.
    context_summary: str | None = None
    compacted_message_count: int = 0
    total_message_count: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    total_model_rounds: int = 0
    tool_latency: list[ToolLatency] = msgspec.field(default_factory=list)
    execution_profile: ExecutionProfile = ExecutionProfile()
    model_override: str | None = None
    #: The backend that an operator chose for this agent; without one it is the runtime's.
    execution_backend: BackendChoice | None = None
    #: Likewise, whether its sandboxed commands share the machine's network.
    execution_network: bool | None = None
    attached_workspaces: list[str] = msgspec.field(default_factory=list)
    active_workspace_id: str = "agent_home"
    #: The execution root that the agent has entered; without one it is its own home.
    active_workspace: ActiveWorkspace | None = None
    cwd: str | None = None
    worktree_session: dict[str, Any] | None = None
    pending_wake_hints: int = 0
    turn_index: int = 0
    #: For a child: the task through which its parent supervises it.
    supervision_task_id: str | None = None
    current_work_item_id: str | None = None
    last_turn_token_usage: TokenUsage | None = None
    #: The turn that the usage above belongs to.
    usage_turn_id: str | None = None
    last_continuation: ContinuationResolution | None = None
    last_turn_terminal: TurnTerminal | None = None
    last_runtime_failure: RuntimeFailure | None = None
    #: The failure above stands until a turn completes: it is what closure reads, not a window over the log.
    runtime_error_active: bool = False
    #: Set when the model asked the operator something and rests until there is an answer.
    awaits_operator: bool = False
    #: The transcript entry after which the model's window begins, and the epoch that it belongs to (0: none yet).
    window_after: int = 0
    epoch: int = 0
    #: The chain of epochs since the agent's creation or reset; none before its first prompt.
    session_id: str | None = None
    #: Fingerprints of the prompt's sections as the model last saw them.
    known_sections: dict[str, str] = msgspec.field(default_factory=dict)
    #: Answered rounds in the current epoch and in all epochs before it, for what a session usually needs.
    epoch_calls: int = 0
    total_epochs: int = 0
    last_call_at: datetime | None = None
    #: The limit that holds the agent back now, so that it is announced once.
    held_by: str | None = None
    #: Wake hints that were counted instead of kept, because too many came.
    coalesced_wake_hints: int = 0
    #: Turns that the runtime woke by itself (ticks, follow-ups) since the last outside evidence, for the back-off.
    self_turns: int = 0
    #: What the run under way may still take. Used up, it holds back what the agent queued for itself.
    run_budget: RunBudget | None = None


class LifecycleHint(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What an operator must do before the agent takes messages again."""

    resume_required: bool
    accepts_external_messages: bool
    wake_requires_resume: bool
    operator_hint: str | None = None
    resume_cli_hint: str | None = None
    resume_control_path: str | None = None


class PostureView(Record, frozen=True, kw_only=True):
    posture: SchedulingPosture
    reason: str
    run_id: str | None = None


class AgentModelState(Record, frozen=True, kw_only=True):
    """Which model the agent's next turn begins with, and why. A turn that runs keeps the one it began with."""

    source: Literal["runtime_default", "agent_override"]
    runtime_default_model: str
    effective_model: str
    effective_fallback_models: list[str]
    override_model: str | None = None


class AgentListEntry(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One line of a list of agents: enough to choose one, no more."""

    identity: AgentIdentity
    status: AgentStatus
    scheduling_posture: PostureView
    lifecycle: LifecycleHint
    pending: int
    current_run_id: str | None
    waiting_reason: WaitingReason | None
    model: AgentModelState
    active_workspace_id: str


class ChildSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A private child, as its parent sees it."""

    identity: AgentIdentity
    status: AgentStatus
    pending: int
    active_task_count: int
    observability: dict[str, Any]
    current_run_id: str | None = None


class AgentSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One agent, for people and scripts."""

    identity: AgentIdentity
    agent: AgentState
    mode: str
    scheduling_posture: PostureView
    lifecycle: LifecycleHint
    closure: ClosureDecision
    model: AgentModelState
    token_usage: AgentTokenUsage
    execution: ExecutionSnapshot
    active_task_count: int
    active_timer_count: int
    active_external_triggers: list[TriggerSummary]
    newest_event_seq: int
    #: Which instruction files are in force: where they are, never what they say.
    loaded_agents_md: LoadedGuidance = LoadedGuidance()
    active_children: list[ChildSummary] = msgspec.field(default_factory=list)
