"""Posture: one word for where an agent stands in a list, and what an operator must do before it goes on.

Pure, and for people only: nothing is scheduled from it.
"""

from __future__ import annotations

from collections.abc import Callable

from holon.core.agents import AgentStatus, LifecycleHint, PostureView, RegistryStatus
from holon.core.closures import ClosureDecision, ClosureOutcome, SchedulingPosture, WaitingReason
from holon.core.values import Value


class PostureFacts(Value, frozen=True, kw_only=True):
    registry: RegistryStatus
    status: AgentStatus
    closure: ClosureDecision
    #: Messages that wait in the queue.
    queued: int
    #: The run of the turn in progress.
    run_id: str | None = None
    #: An open work item is blocked by something that nobody waits for by name.
    blocked_work: bool = False


def scheduling_posture(facts: PostureFacts) -> PostureView:
    """The first row that applies. A paused agent keeps its word; the reason says that nothing moves until resume."""
    for rule in RULES:
        if rule.applies(facts):
            paused = facts.status is AgentStatus.PAUSED and rule.posture is not SchedulingPosture.ARCHIVED
            return PostureView(
                posture=rule.posture,
                reason=f"{rule.reason}; paused until resume" if paused else rule.reason,
                run_id=facts.run_id if rule.posture is SchedulingPosture.ACTIVE_TURN else None,
            )
    raise AssertionError("RULES end with a rule that always applies")


def lifecycle_hint(agent_id: str, status: AgentStatus) -> LifecycleHint:
    """What an operator must do before the agent works again. `wake` overrides neither `stopped` nor `paused`."""
    command, path = f"holon agent resume {agent_id}", f"/control/agents/{agent_id}/resume"
    match status:
        case AgentStatus.STOPPED:
            return LifecycleHint(
                resume_required=True,
                accepts_external_messages=False,
                wake_requires_resume=True,
                operator_hint=f"agent '{agent_id}' is stopped: resume is required before new prompts, and wake does"
                f" not override it; run '{command}'",
                resume_cli_hint=command,
                resume_control_path=path,
            )
        case AgentStatus.PAUSED:
            return LifecycleHint(
                resume_required=True,
                accepts_external_messages=True,
                wake_requires_resume=True,
                operator_hint=f"agent '{agent_id}' is paused: messages are admitted and wait until resume; run"
                f" '{command}'",
                resume_cli_hint=command,
                resume_control_path=path,
            )
        case _:
            return LifecycleHint(resume_required=False, accepts_external_messages=True, wake_requires_resume=False)


class PostureRule(Value, frozen=True):
    applies: Callable[[PostureFacts], bool]
    posture: SchedulingPosture
    reason: str


_P = SchedulingPosture

RULES: tuple[PostureRule, ...] = (
    PostureRule(lambda f: f.registry is RegistryStatus.ARCHIVED, _P.ARCHIVED, "archived"),
    # The list has no word of its own for `stopped`: like an archived agent it takes part in nothing.
    PostureRule(lambda f: f.status is AgentStatus.STOPPED, _P.ARCHIVED, "stopped: resume is required"),
    PostureRule(lambda f: f.run_id is not None, _P.ACTIVE_TURN, "a turn is in progress"),
    PostureRule(lambda f: f.queued > 0, _P.HAS_QUEUED_INPUT, "messages wait in the queue"),
    PostureRule(lambda f: f.closure.work_signal is not None, _P.HAS_RUNNABLE_WORK, "there is runnable work"),
    PostureRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_TASK_RESULT,
        _P.WAITING_FOR_TASK,
        "waits for a task's result",
    ),
    PostureRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_EXTERNAL_CHANGE,
        _P.WAITING_FOR_EXTERNAL,
        "waits for an external change",
    ),
    PostureRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_OPERATOR_INPUT,
        _P.WAITING_FOR_OPERATOR,
        "waits for the operator",
    ),
    PostureRule(lambda f: f.blocked_work, _P.BLOCKED, "its work is blocked"),
    PostureRule(lambda f: f.status is AgentStatus.PAUSED, _P.BLOCKED, "nothing to do"),
    # The vocabulary has no posture for a timer: the agent rests, and something will wake it.
    PostureRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_TIMER, _P.IDLE, "rests until a timer fires"
    ),
    PostureRule(
        lambda f: f.closure.outcome is ClosureOutcome.FAILED, _P.IDLE, "the last turn failed; the next message goes on"
    ),
    PostureRule(lambda f: True, _P.IDLE, "nothing to do"),
)
