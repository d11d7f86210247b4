"""Scheduler: what the loop does with a message that it has claimed, and what it does when there is none.

Pure: ticks are described here and admitted by `resting`. Only the runtime makes them; no model can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from holon.core.clock import iso, to_ms
from holon.core.closures import (
    ClosureDecision,
    ClosureOutcome,
    ContinuationResolution,
    SchedulerBoundary,
    SchedulerDecision,
    SchedulerDecisionKind,
    WaitingReason,
)
from holon.core.limits import Limits
from holon.core.messages import JsonBody, MessageEnvelope, MessageKind, Priority, TextBody
from holon.core.triggers import WakeHint
from holon.core.values import Value

#: Ticks that one work item gets without new evidence. Then it is left alone until something changes.
WORK_TICKS_WITHOUT_EVIDENCE = 3

FIRST_BACKOFF_MS = 1_000


class TickSubsystem(StrEnum):
    """Who in the runtime asks for another look: the `subsystem` of a tick's origin."""

    WAKE_HINT = "wake_hint"
    WORK_QUEUE = "work_queue"
    WORK_ITEM_RECHECK = "work_item_recheck"
    TASK_RESTART = "task_restart"


class Tick(Value, frozen=True, kw_only=True):
    """A system tick to be admitted. Two of the same key are the same tick."""

    subsystem: TickSubsystem
    priority: Priority
    reason: str
    idempotency_key: str
    work_item_id: str | None = None


class RunnableWork(Value, frozen=True, kw_only=True):
    work_item_id: str
    revision: int
    #: Ticks since the last new evidence about this item.
    ticks: int = 0

    @property
    def suppressed(self) -> bool:
        return self.ticks >= WORK_TICKS_WITHOUT_EVIDENCE


class DueRecheck(Value, frozen=True, kw_only=True):
    work_item_id: str
    recheck_at: datetime


class IdleFacts(Value, frozen=True, kw_only=True):
    """What there is for an agent that runs nothing, and that no operator holds."""

    closure: ClosureDecision
    #: Messages that wait in the queue.
    queued: int
    #: Wake hints that wait, oldest first, and the scope in which they are one tick (the agent).
    hints: Sequence[WakeHint] = ()
    scope: str = "agent"
    current_work: RunnableWork | None = None
    #: Queued runnable items, in the order in which they should be looked at.
    queued_work: Sequence[RunnableWork] = ()
    due_rechecks: Sequence[DueRecheck] = ()
    #: `self_turn_delay_ms` said that there are to be no more turns without new evidence from outside.
    self_turns_spent: bool = False
    #: Policy allows the agent to be suspended.
    may_suspend: bool = True


class IdleDecision(Value, frozen=True, kw_only=True):
    decision: SchedulerDecision
    #: With `emit_system_tick`, and only with it.
    tick: Tick | None = None
    #: What is expected to wake the agent, if known.
    expected_wake: str | None = None

    @property
    def sleeps(self) -> bool:
        """Whether the agent may be suspended now. One that needs a blocking task polled may not."""
        return self.decision.kind in _SLEEPING


def decide_message(resolution: ContinuationResolution, envelope: MessageEnvelope) -> SchedulerDecision:
    """What a claimed message leads to."""
    if _asks_to_stop(envelope):
        kind, reason = SchedulerDecisionKind.STOP, "a control message asks to stop"
    elif resolution.model_visible:
        kind, reason = SchedulerDecisionKind.START_MODEL_TURN, str(resolution.class_)
    else:
        kind, reason = SchedulerDecisionKind.REDUCE_MESSAGE_ONLY, str(resolution.class_)
    return SchedulerDecision(
        kind=kind, boundary=SchedulerBoundary.MESSAGE_PROCESSING, reason=reason, evidence=resolution.evidence
    )


def decide_idle(facts: IdleFacts) -> IdleDecision:
    """The first rule that applies."""
    for rule in IDLE_RULES:
        if rule.applies(facts):
            tick = rule.tick(facts) if rule.tick else None
            return IdleDecision(
                decision=SchedulerDecision(
                    kind=rule.kind,
                    boundary=SchedulerBoundary.IDLE_TICK if tick else SchedulerBoundary.RUN_LOOP_IDLE,
                    reason=rule.reason,
                    evidence=facts.closure.evidence,
                ),
                tick=tick,
                expected_wake=rule.expected_wake,
            )
    raise AssertionError("IDLE_RULES end with a rule that always applies")


def self_turn_delay_ms(self_turns: int, limits: Limits) -> int | None:
    """How long the next turn that the runtime wakes by itself waits, after so many in a row; `None`: it never comes.

    The first ones are free, then the wait doubles from one second up to the cap. New evidence from outside resets it.
    """
    if self_turns >= limits.self_turns:
        return None
    if self_turns < limits.self_turns_free:
        return 0
    doublings = min(self_turns - limits.self_turns_free, 48)  # far beyond any cap, and still a small number
    return min(FIRST_BACKOFF_MS << doublings, limits.self_turn_backoff_cap_ms)


class IdleRule(Value, frozen=True):
    applies: Callable[[IdleFacts], bool]
    kind: SchedulerDecisionKind
    reason: str
    tick: Callable[[IdleFacts], Tick] | None = None
    expected_wake: str | None = None


def _asks_to_stop(envelope: MessageEnvelope) -> bool:
    if envelope.kind is not MessageKind.CONTROL:
        return False
    match envelope.body:
        case JsonBody(value={"action": "stop"}) | TextBody(text="stop"):
            return True
        case _:
            return False


def _hint_tick(facts: IdleFacts) -> Tick:
    """One tick for all hints that wait; the newest gives it its name."""
    newest = facts.hints[-1]
    return Tick(
        subsystem=TickSubsystem.WAKE_HINT,
        priority=Priority.NEXT,
        reason=newest.reason,
        idempotency_key=f"{TickSubsystem.WAKE_HINT}:{facts.scope}:{_micros(newest.created_at)}",
    )


def _work_tick(reason: str, work: RunnableWork) -> Tick:
    return Tick(
        subsystem=TickSubsystem.WORK_QUEUE,
        priority=Priority.NORMAL,
        reason=reason,
        idempotency_key=f"{TickSubsystem.WORK_QUEUE}:{reason}:{work.work_item_id}:{work.revision}",
        work_item_id=work.work_item_id,
    )


def _current_tick(facts: IdleFacts) -> Tick:
    work = facts.current_work
    assert work is not None
    return _work_tick("continue_active", work)


def _queued_tick(facts: IdleFacts) -> Tick:
    """Shows that there is work to pick. It does not pick: the focus is the agent's to move."""
    return _work_tick("queued_available", next(work for work in facts.queued_work if not work.suppressed))


def _recheck_tick(facts: IdleFacts) -> Tick:
    due = ",".join(f"{recheck.work_item_id}@{iso(to_ms(recheck.recheck_at))}" for recheck in facts.due_rechecks)
    return Tick(
        subsystem=TickSubsystem.WORK_ITEM_RECHECK,
        priority=Priority.BACKGROUND,
        reason="recheck_due",
        idempotency_key=f"{TickSubsystem.WORK_ITEM_RECHECK}:{due}",
    )


def _micros(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _goes_on(facts: IdleFacts) -> bool:
    """Only a continuable closure warrants a turn without a new trigger: one that failed does not drive itself on."""
    return facts.closure.outcome is ClosureOutcome.CONTINUABLE and not facts.self_turns_spent


_K = SchedulerDecisionKind
_SLEEPING = frozenset({_K.SLEEP, _K.WAIT_FOR_OPERATOR, _K.WAIT_FOR_EXTERNAL_CHANGE, _K.WAIT_FOR_TIMER})

#: The idle order. Hints stand before work, so that keep-working ticks can never starve them.
IDLE_RULES: tuple[IdleRule, ...] = (
    IdleRule(lambda f: f.queued > 0, _K.NOOP, "has queued input"),
    IdleRule(lambda f: bool(f.hints), _K.EMIT_SYSTEM_TICK, "wake hints wait", _hint_tick),
    IdleRule(
        lambda f: _goes_on(f) and f.current_work is not None and not f.current_work.suppressed,
        _K.EMIT_SYSTEM_TICK,
        "the current work item is runnable",
        _current_tick,
    ),
    IdleRule(
        lambda f: _goes_on(f) and not all(work.suppressed for work in f.queued_work),
        _K.EMIT_SYSTEM_TICK,
        "queued work is runnable",
        _queued_tick,
    ),
    IdleRule(lambda f: bool(f.due_rechecks), _K.EMIT_SYSTEM_TICK, "blocked work is due for a look", _recheck_tick),
    # Work remains, so the agent does not sleep; but nothing new can be hoped for from asking again.
    IdleRule(
        lambda f: f.closure.outcome is ClosureOutcome.CONTINUABLE and f.self_turns_spent,
        _K.STAY_IDLE,
        "the limit of turns without new evidence is met: send the agent a message, or raise limits.self_turns",
        expected_wake="new evidence from outside",
    ),
    IdleRule(
        lambda f: f.closure.outcome is ClosureOutcome.CONTINUABLE,
        _K.STAY_IDLE,
        "the runnable work was ticked without result: change it, or send the agent a message",
        expected_wake="a change of its work",
    ),
    IdleRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_TASK_RESULT,
        _K.WAIT_FOR_TASK,
        "waits for a task's result",
        expected_wake="a task's result",
    ),
    IdleRule(lambda f: not f.may_suspend, _K.STAY_IDLE, "policy forbids suspension"),
    IdleRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_EXTERNAL_CHANGE,
        _K.WAIT_FOR_EXTERNAL_CHANGE,
        "waits for an external change",
        expected_wake="an external event",
    ),
    IdleRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_TIMER,
        _K.WAIT_FOR_TIMER,
        "waits for a timer",
        expected_wake="a timer",
    ),
    IdleRule(
        lambda f: f.closure.waiting_reason is WaitingReason.AWAITING_OPERATOR_INPUT,
        _K.WAIT_FOR_OPERATOR,
        "waits for the operator",
        expected_wake="operator input",
    ),
    IdleRule(lambda f: True, _K.SLEEP, "nothing to do"),
)
