"""The kinds of events, each with its payload. Grouped by what they are about."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.events import EventCategory as C
from holon.core.events import EventLevel as L
from holon.core.events import EventPayload, event_kind

# Messages


@event_kind("message_admitted", L.VERBOSE, C.MESSAGE)
class MessageAdmitted(EventPayload, frozen=True, kw_only=True):
    """The labels of a message on its way in. Content stays in the message."""

    message_kind: str
    origin: dict[str, Any]
    trust: str
    authority_class: str
    priority: str
    trigger_kind: str
    delivery_surface: str
    admission_context: str
    preview: str = ""
    task_id: str | None = None
    work_item_id: str | None = None
    source_refs: dict[str, str] = msgspec.field(default_factory=dict)


@event_kind("message_processing_started", L.DEBUG, C.MESSAGE)
class MessageProcessingStarted(EventPayload, frozen=True, kw_only=True):
    run_id: str
    attempt: int
    queue_wait_ms: int
    priority: str


@event_kind("message_processing_aborted", L.VERBOSE, C.MESSAGE)
class MessageProcessingAborted(EventPayload, frozen=True, kw_only=True):
    reason: str


@event_kind("message_dropped", L.VERBOSE, C.MESSAGE)
class MessageDropped(EventPayload, frozen=True, kw_only=True):
    reason: str


@event_kind("operator_interjection_admitted", L.VERBOSE, C.MESSAGE)
class OperatorInterjectionAdmitted(EventPayload, frozen=True, kw_only=True):
    safe_point: str
    round: int


# Decisions


@event_kind("continuation_resolved", L.DEBUG, C.TRACE)
class ContinuationResolved(EventPayload, frozen=True, kw_only=True):
    trigger_kind: str
    class_: str = msgspec.field(name="class")
    model_visible: bool
    prior_closure_outcome: str
    prior_waiting_reason: str | None = None
    matched_waiting_reason: bool = False
    evidence: list[str] = msgspec.field(default_factory=list)


@event_kind("closure_decided", L.DEBUG, C.TRACE)
class ClosureDecided(EventPayload, frozen=True, kw_only=True):
    outcome: str
    runtime_posture: str
    waiting_reason: str | None = None
    evidence: list[str] = msgspec.field(default_factory=list)


@event_kind("scheduler_decision", L.DEBUG, C.TRACE)
class SchedulerDecided(EventPayload, frozen=True, kw_only=True):
    decision: str
    boundary: str
    reason: str
    evidence: list[str] = msgspec.field(default_factory=list)


@event_kind("system_tick_emitted", L.DEBUG, C.WAITING)
class SystemTickEmitted(EventPayload, frozen=True, kw_only=True):
    subsystem: str
    idempotency_key: str
    reason: str


@event_kind("system_tick_suppressed", L.DEBUG, C.WAITING)
class SystemTickSuppressed(EventPayload, frozen=True, kw_only=True):
    subsystem: str
    idempotency_key: str
    reason: str


# Turns


@event_kind("turn_context_built", L.DEBUG, C.TRACE)
class TurnContextBuilt(EventPayload, frozen=True, kw_only=True):
    turn_index: int
    run_id: str
    round: int
    duration_ms: float
    item_count: int
    rendered_tokens: int


@event_kind("epoch_opened", L.VERBOSE, C.TRACE)
class EpochOpened(EventPayload, frozen=True, kw_only=True):
    """The prompt was built anew. Between two of these it only grows."""

    epoch: int
    reason: str
    head_tokens: int
    kept_tokens: int
    sections: list[str]
    padding: str | None = None


@event_kind("prompt_drift", L.INFO, C.RUNTIME)
class PromptDrifted(EventPayload, frozen=True, kw_only=True):
    """A request was not the one before plus what is new. It should never happen; it costs what is named here."""

    position: int
    source: str
    was_source: str
    lost_tokens: int
    lost_nanodollars: int


@event_kind("provider_round_completed", L.DEBUG, C.ASSISTANT_PROGRESS)
class ProviderRoundCompleted(EventPayload, frozen=True, kw_only=True):
    """Telemetry only: what was said and asked for is in `assistant_round_recorded`."""

    turn_index: int
    run_id: str
    round: int
    model_ref: str
    stop_reason: str | None
    context_build_ms: float
    provider_round_ms: float
    provider_started_at: str
    provider_completed_at: str
    token_usage: dict[str, int]
    provider_attempt_timeline: dict[str, Any] | None = None


@event_kind("output_continued", L.VERBOSE, C.TRACE)
class OutputContinued(EventPayload, frozen=True, kw_only=True):
    """An answer was cut at the output limit; the model was asked to go on."""

    round: int


@event_kind("assistant_round_recorded", L.VERBOSE, C.ASSISTANT_PROGRESS)
class AssistantRoundRecorded(EventPayload, frozen=True, kw_only=True):
    round: int
    text_preview: str = ""
    tool_names: list[str] = msgspec.field(default_factory=list)


@event_kind("tool_executed", L.VERBOSE, C.TOOL)
class ToolExecuted(EventPayload, frozen=True, kw_only=True):
    tool_call_id: str
    tool_name: str
    turn_index: int
    run_id: str
    round: int
    status: str
    duration_ms: float
    summary: str
    #: How many commands the call ran, if it runs commands: a batch is one call and several commands.
    command_items: int | None = None
    error: str | None = None
    tool_error: dict[str, Any] | None = None


@event_kind("tool_call_interrupted", L.VERBOSE, C.TOOL)
class ToolCallInterrupted(EventPayload, frozen=True, kw_only=True):
    """A call had begun when the process died. It was not run again; the model is told."""

    tool_call_id: str
    tool_name: str
    round: int


@event_kind("turn_terminal", L.DEBUG, C.RUNTIME)
class TurnEnded(EventPayload, frozen=True, kw_only=True):
    turn_index: int
    run_id: str
    terminal: str
    duration_ms: int
    rounds: int
    reason: str | None = None


@event_kind("turn_resumed", L.VERBOSE, C.RUNTIME)
class TurnResumed(EventPayload, frozen=True, kw_only=True):
    """A turn that was open when the process died goes on where it stopped."""

    turn_index: int
    run_id: str
    attempt: int
    phase: str
    round: int


@event_kind("runtime_error", L.INFO, C.RUNTIME)
class RuntimeErrorRaised(EventPayload, frozen=True, kw_only=True):
    summary: str
    failure_artifact: dict[str, Any]
    provider_attempt_timeline: dict[str, Any] | None = None
    token_usage: dict[str, int] | None = None


@event_kind("message_quarantined", L.INFO, C.RUNTIME)
class MessageQuarantined(EventPayload, frozen=True, kw_only=True):
    attempts: int


@event_kind("limit_reached", L.INFO, C.RUNTIME)
class LimitReached(EventPayload, frozen=True, kw_only=True):
    limit: str
    value: float
    advice: str


@event_kind("agent_stalled", L.INFO, C.RUNTIME)
class AgentStalled(EventPayload, frozen=True, kw_only=True):
    """The watchdog: the agent has work and made no progress for too long."""

    pending: int
    stalled_ms: int
    last_progress: str
    advice: str


@event_kind("runtime_started", L.VERBOSE, C.RUNTIME)
class RuntimeStarted(EventPayload, frozen=True, kw_only=True):
    version: str
    fence: int
    resumed_turns: int
    quarantined: int


@event_kind("runtime_service_shutdown_requested", L.VERBOSE, C.RUNTIME)
class ShutdownRequested(EventPayload, frozen=True, kw_only=True):
    surface: str


@event_kind("retention_applied", L.VERBOSE, C.RUNTIME)
class RetentionApplied(EventPayload, frozen=True, kw_only=True):
    deleted: dict[str, int]
    reason: str


@event_kind("brief_created", L.INFO, C.BRIEF)
class BriefCreated(EventPayload, frozen=True, kw_only=True):
    brief_id: str
    brief_kind: str
    text: str
    work_item_id: str | None = None
    awaits_operator: bool = False
    completes_work: bool = False


# Agents


@event_kind("agent_created", L.VERBOSE, C.RUNTIME)
class AgentCreated(EventPayload, frozen=True, kw_only=True):
    agent_kind: str
    visibility: str
    ownership: str
    surface: str


@event_kind("agent_archived", L.VERBOSE, C.RUNTIME)
class AgentArchived(EventPayload, frozen=True, kw_only=True):
    reason: str


@event_kind("agent_model_override_set", L.VERBOSE, C.RUNTIME)
class AgentModelOverrideSet(EventPayload, frozen=True, kw_only=True):
    """The agent has a model of its own from its next turn on."""

    model: str
    before: str
    surface: str


@event_kind("agent_model_override_cleared", L.VERBOSE, C.RUNTIME)
class AgentModelOverrideCleared(EventPayload, frozen=True, kw_only=True):
    """The agent follows the runtime's default again, from its next turn on."""

    model: str
    before: str
    surface: str


@event_kind("agent_backend_set", L.VERBOSE, C.RUNTIME)
class AgentBackendSet(EventPayload, frozen=True, kw_only=True):
    """The agent's commands run on another backend, or with another network, from the next one on; `backend` is what the
    choice comes to here."""

    choice: str
    before: str
    backend: str
    reason: str
    network: bool
    surface: str


@event_kind("agent_state_changed", L.DEBUG, C.STATE_SYNC)
class AgentStateChanged(EventPayload, frozen=True, kw_only=True):
    """A transition from one status to another, and why: what woke the agent can be read from here."""

    before: str
    after: str
    reason: str
    run_id: str | None = None


@event_kind("control_applied", L.VERBOSE, C.RUNTIME)
class ControlApplied(EventPayload, frozen=True, kw_only=True):
    action: str
    surface: str
    detail: str | None = None


@event_kind("current_run_aborted", L.INFO, C.RUNTIME)
class CurrentRunAborted(EventPayload, frozen=True, kw_only=True):
    run_id: str
    mode: str


# Waiting and waking


@event_kind("agent_slept", L.DEBUG, C.WAITING)
class AgentSlept(EventPayload, frozen=True, kw_only=True):
    reason: str
    sleeping_until: str | None = None
    expected_wake: str | None = None


@event_kind("wake_requested", L.VERBOSE, C.WAITING)
class WakeRequested(EventPayload, frozen=True, kw_only=True):
    reason: str
    surface: str
    disposition: str


@event_kind("wake_hint_triggered", L.DEBUG, C.WAITING)
class WakeHintTriggered(EventPayload, frozen=True, kw_only=True):
    hint_ids: list[str]
    reasons: list[str]
    coalesced: int = 0


@event_kind("wake_hint_stored", L.DEBUG, C.WAITING)
class WakeHintStored(EventPayload, frozen=True, kw_only=True):
    hint_id: str
    reason: str
    pending: int
    coalesced: int = 0


@event_kind("timer_created", L.VERBOSE, C.WAITING)
class TimerCreated(EventPayload, frozen=True, kw_only=True):
    timer_id: str
    next_fire_at: str
    interval_ms: int | None = None
    summary: str | None = None


@event_kind("timer_fired", L.VERBOSE, C.WAITING)
class TimerFired(EventPayload, frozen=True, kw_only=True):
    timer_id: str
    fire_count: int
    coalesced: int = 0
    tick_queued: bool = True


@event_kind("timer_cancelled", L.VERBOSE, C.WAITING)
class TimerCancelled(EventPayload, frozen=True, kw_only=True):
    timer_id: str
    voided_ticks: int


@event_kind("external_trigger_created", L.VERBOSE, C.WAITING)
class TriggerCreated(EventPayload, frozen=True, kw_only=True):
    external_trigger_id: str
    reason: str


@event_kind("external_trigger_revoked", L.VERBOSE, C.WAITING)
class TriggerRevoked(EventPayload, frozen=True, kw_only=True):
    external_trigger_id: str
    reason: str


@event_kind("external_trigger_revealed", L.VERBOSE, C.WAITING)
class TriggerRevealed(EventPayload, frozen=True, kw_only=True):
    """Somebody asked to see the capability URL again."""

    external_trigger_id: str
    surface: str


@event_kind("callback_delivered", L.VERBOSE, C.WAITING)
class CallbackDelivered(EventPayload, frozen=True, kw_only=True):
    external_trigger_id: str
    delivery_mode: str
    disposition: str
    delivery_count: int
    descriptor_mode: str | None = None
    deprecated: bool = False
    source: str | None = None
    resource: str | None = None
    content_type: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None


@event_kind("task_created", L.VERBOSE, C.TASK)
class TaskCreated(EventPayload, frozen=True, kw_only=True):
    task_id: str
    task_kind: str
    summary: str | None = None
    due_at: str | None = None


@event_kind("task_status_updated", L.DEBUG, C.TASK)
class TaskStatusUpdated(EventPayload, frozen=True, kw_only=True):
    task_id: str
    status: str
    reason: str | None = None


@event_kind("operator_notification_requested", L.INFO, C.OPERATOR_NOTIFICATION)
class OperatorNotified(EventPayload, frozen=True, kw_only=True):
    """An agent tells its owner something before its turn ends; a private child tells its parent."""

    notification_id: str
    requested_by_agent_id: str
    target_operator_boundary: str
    message: str


# Workspaces and commands


@event_kind("workspace_used", L.VERBOSE, C.WORKSPACE)
class WorkspaceUsed(EventPayload, frozen=True, kw_only=True):
    workspace_id: str
    execution_root: str
    mode: str
    #: Through which surface an operator said so; none: the agent chose it.
    surface: str | None = None


@event_kind("workspace_detached", L.VERBOSE, C.WORKSPACE)
class WorkspaceDetached(EventPayload, frozen=True, kw_only=True):
    workspace_id: str
    surface: str


@event_kind("workspace_lost", L.INFO, C.WORKSPACE)
class WorkspaceLost(EventPayload, frozen=True, kw_only=True):
    """The folder that the agent worked in is gone; it goes on in `execution_root`."""

    workspace_id: str
    execution_root: str
    lost: str


@event_kind("repository_tampered", L.INFO, C.WORKSPACE)
class RepositoryTampered(EventPayload, frozen=True, kw_only=True):
    """A confined command made a file that would have had git run programs outside. It was moved aside."""

    path: str
    moved_to: str


@event_kind("worktree_created", L.VERBOSE, C.WORKSPACE)
class WorktreeCreated(EventPayload, frozen=True, kw_only=True):
    path: str
    branch: str


@event_kind("worktree_auto_cleaned_up", L.VERBOSE, C.WORKSPACE)
class WorktreeCleanedUp(EventPayload, frozen=True, kw_only=True):
    """A worktree is gone, with its branch: all that was in it exists elsewhere, or a person gave it up."""

    path: str
    branch: str
    #: Whose it was, if it was a task's.
    task_id: str | None = None
    discarded: bool = False


@event_kind("worktree_retained_for_review", L.INFO, C.WORKSPACE)
class WorktreeRetained(EventPayload, frozen=True, kw_only=True):
    """A task's worktree holds what exists nowhere else. It is kept until a person has looked."""

    task_id: str
    path: str
    branch: str
    reason: str
    changed_files: int = 0


@event_kind("worktree_auto_cleanup_failed", L.INFO, C.WORKSPACE)
class WorktreeCleanupFailed(EventPayload, frozen=True, kw_only=True):
    task_id: str
    path: str
    branch: str
    reason: str


@event_kind("task_reattached", L.VERBOSE, C.TASK)
class TaskReattached(EventPayload, frozen=True, kw_only=True):
    """A restart found a command that outlived the process which started it: `running`, `ended`, `lost`, or
    `unreachable` if its runner lives and does not answer. `reachable` when it does again."""

    task_id: str
    found: str


# Skills


@event_kind("session_created", L.DEBUG, C.TRACE)
class SessionCreated(EventPayload, frozen=True, kw_only=True):
    """A chain of epochs begins: the agent's first, or the first after a reset."""

    session_id: str
    epoch: int


@event_kind("skill_activated", L.VERBOSE, C.RUNTIME)
class SkillActivated(EventPayload, frozen=True, kw_only=True):
    """A skill came into the prompt. `skill.loaded` in exported traces. Never its text."""

    skill_id: str
    skill_version: str
    load_reason: str
    load_size_tokens: int
    source: str
    #: What triggered it; `entrypoint_path` is always the skill's SKILL.md.
    path: str
    entrypoint_path: str
    session_id: str | None = None
    triggered_by_tool_use_id: str | None = None


@event_kind("skill_installed", L.VERBOSE, C.RUNTIME)
class SkillInstalled(EventPayload, frozen=True, kw_only=True):
    """A skill was put into the agent's home, or (`removed`) taken out of it."""

    skill_id: str
    source: str
    surface: str
    commit: str | None = None
    removed: bool = False
