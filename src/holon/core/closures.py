"""Closures and continuations: the words in which the runtime says where an agent stands and why it goes on."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from holon.core.codec import Record
from holon.core.messages import TriggerKind


class ClosureOutcome(StrEnum):
    COMPLETED = "completed"
    CONTINUABLE = "continuable"
    FAILED = "failed"
    WAITING = "waiting"


class WaitingReason(StrEnum):
    AWAITING_OPERATOR_INPUT = "awaiting_operator_input"
    AWAITING_EXTERNAL_CHANGE = "awaiting_external_change"
    AWAITING_TASK_RESULT = "awaiting_task_result"
    AWAITING_TIMER = "awaiting_timer"


class RuntimePosture(StrEnum):
    AWAKE = "awake"
    SLEEPING = "sleeping"


class WorkSignal(Record, frozen=True, kw_only=True):
    """Persisted work that warrants going on without a new outside trigger."""

    work_item_id: str
    status: Literal["active", "queued"]
    reactivation_mode: Literal["continue_active", "activate_queued"]


class ClosureDecision(Record, frozen=True, kw_only=True):
    """Where an agent stands. The source of truth for done, going on, waiting or failed; its status is not."""

    outcome: ClosureOutcome
    runtime_posture: RuntimePosture
    waiting_reason: WaitingReason | None = None
    work_signal: WorkSignal | None = None
    evidence: list[str] = msgspec.field(default_factory=list)


class ContinuationClass(StrEnum):
    RESUME_EXPECTED_WAIT = "resume_expected_wait"
    RESUME_OVERRIDE = "resume_override"
    LOCAL_CONTINUATION = "local_continuation"
    LIVENESS_ONLY = "liveness_only"


class ContinuationResolution(Record, frozen=True, kw_only=True):
    """Whether, and as what, a message that woke the agent leads to a model turn."""

    trigger_kind: TriggerKind
    class_: ContinuationClass = msgspec.field(name="class")
    model_visible: bool
    prior_closure_outcome: ClosureOutcome
    prior_waiting_reason: WaitingReason | None = None
    matched_waiting_reason: bool = False
    evidence: list[str] = msgspec.field(default_factory=list)


class SchedulerDecisionKind(StrEnum):
    START_MODEL_TURN = "start_model_turn"
    REDUCE_MESSAGE_ONLY = "reduce_message_only"
    EMIT_SYSTEM_TICK = "emit_system_tick"
    WAIT_FOR_TASK = "wait_for_task"
    WAIT_FOR_EXTERNAL_CHANGE = "wait_for_external_change"
    WAIT_FOR_TIMER = "wait_for_timer"
    WAIT_FOR_OPERATOR = "wait_for_operator"
    SLEEP = "sleep"
    STAY_IDLE = "stay_idle"
    STOP = "stop"
    NOOP = "noop"


class SchedulerBoundary(StrEnum):
    """Where in the loop a decision was taken."""

    MESSAGE_PROCESSING = "message_processing"
    RUN_LOOP_IDLE = "run_loop_idle"
    IDLE_TICK = "idle_tick"
    RUN_LOOP = "run_loop"


class SchedulerDecision(Record, frozen=True, kw_only=True):
    kind: SchedulerDecisionKind
    boundary: SchedulerBoundary
    reason: str
    evidence: list[str] = msgspec.field(default_factory=list)


class SchedulingPosture(StrEnum):
    """One word for a list of agents: the first that applies, in this order."""

    ARCHIVED = "archived"
    ACTIVE_TURN = "active_turn"
    HAS_QUEUED_INPUT = "has_queued_input"
    HAS_RUNNABLE_WORK = "has_runnable_work"
    WAITING_FOR_TASK = "waiting_for_task"
    WAITING_FOR_EXTERNAL = "waiting_for_external"
    WAITING_FOR_OPERATOR = "waiting_for_operator"
    BLOCKED = "blocked"
    IDLE = "idle"
