"""Continuation: whether a message that woke the agent leads to a model turn.

Pure: reads the closure that stood before the message and the message itself. The loop acts on the result.

Only a named wait restrains anything: an agent that failed, or that has had no turn yet, waits for nothing in
particular. `local_continuation` leaves a wait standing: the question to the operator stays open, the timer stays set.
"""

from __future__ import annotations

from collections.abc import Callable

from holon.core.closures import ClosureDecision, ContinuationClass, ContinuationResolution, WaitingReason
from holon.core.messages import MessageEnvelope, MessageKind, SystemOrigin, TriggerKind
from holon.core.provenance import TRIGGERS
from holon.core.values import Value
from holon.runtime.scheduler import TickSubsystem


def resolve(
    prior: ClosureDecision, message: MessageEnvelope, *, contentful: bool | None = None, terminal_task: bool = False
) -> ContinuationResolution:
    """The first rule that applies.

    `contentful` overrules what the message says of itself; `terminal_task`: the task of a `task_result` has ended.
    """
    case = Case(
        kind=message.kind,
        trigger=TRIGGERS[message.kind],
        subsystem=message.origin.subsystem if isinstance(message.origin, SystemOrigin) else None,
        awaits=prior.waiting_reason,
        contentful=says_something(message) if contentful is None else contentful,
        terminal_task=terminal_task,
    )
    for rule in RULES:
        if rule.applies(case):
            return ContinuationResolution(
                trigger_kind=case.trigger,
                class_=rule.class_,
                model_visible=rule.class_ is not ContinuationClass.LIVENESS_ONLY,
                prior_closure_outcome=prior.outcome,
                prior_waiting_reason=prior.waiting_reason,
                matched_waiting_reason=rule.class_ is ContinuationClass.RESUME_EXPECTED_WAIT,
                evidence=[rule.evidence, f"message: {case.kind}", f"prior closure: {_standing(prior)}"],
            )
    raise AssertionError("RULES end with a rule that always applies")


def says_something(message: MessageEnvelope) -> bool:
    """Whether there is anything to think about.

    The body of a wake-hint tick lists its hints, also plain ones; whether one of them brought a payload stands in the
    tick's metadata. Every other message speaks through its body.
    """
    if isinstance(message.origin, SystemOrigin) and message.origin.subsystem == TickSubsystem.WAKE_HINT:
        return (message.metadata or {}).get("contentful") is True
    return message.contentful


class Case(Value, frozen=True, kw_only=True):
    """A message and the wait that it meets, as the rules read them."""

    kind: MessageKind
    trigger: TriggerKind
    subsystem: str | None
    awaits: WaitingReason | None
    contentful: bool
    terminal_task: bool

    @property
    def from_outside(self) -> bool:
        """Whether the world speaks: an event, or a tick that only carries the world's hints."""
        return self.trigger is TriggerKind.EXTERNAL_EVENT or self.subsystem == TickSubsystem.WAKE_HINT


class Rule(Value, frozen=True):
    applies: Callable[[Case], bool]
    class_: ContinuationClass
    evidence: str


_EXPECTED, _OVERRIDE = ContinuationClass.RESUME_EXPECTED_WAIT, ContinuationClass.RESUME_OVERRIDE
_LOCAL, _LIVENESS = ContinuationClass.LOCAL_CONTINUATION, ContinuationClass.LIVENESS_ONLY

_OBSERVED = frozenset({MessageKind.TASK_STATUS, MessageKind.CONTROL, MessageKind.BRIEF_ACK, MessageKind.BRIEF_RESULT})

RULES: tuple[Rule, ...] = (
    Rule(lambda c: c.kind in _OBSERVED, _LIVENESS, "this kind is observed and never continues anything"),
    # "operator_input remains the only default override trigger for waiting state": the one rule with that class.
    Rule(
        lambda c: c.trigger is TriggerKind.OPERATOR_INPUT and c.awaits is WaitingReason.AWAITING_OPERATOR_INPUT,
        _EXPECTED,
        "the operator answers",
    ),
    Rule(
        lambda c: c.trigger is TriggerKind.OPERATOR_INPUT and c.awaits is not None,
        _OVERRIDE,
        "the operator speaks while something else is awaited",
    ),
    Rule(lambda c: c.trigger is TriggerKind.OPERATOR_INPUT, _LOCAL, "the operator speaks"),
    Rule(lambda c: c.trigger is TriggerKind.TASK_RESULT and not c.terminal_task, _LIVENESS, "the task has not ended"),
    Rule(
        lambda c: c.trigger is TriggerKind.TASK_RESULT and c.awaits is WaitingReason.AWAITING_TASK_RESULT,
        _EXPECTED,
        "the awaited task has ended",
    ),
    # A result that nothing waited for is still shown (results of siblings must not be lost), and overrides no wait.
    Rule(lambda c: c.trigger is TriggerKind.TASK_RESULT, _LOCAL, "a task has ended"),
    Rule(
        lambda c: c.trigger is TriggerKind.TIMER_FIRE and c.awaits is WaitingReason.AWAITING_TIMER,
        _EXPECTED,
        "the awaited timer fired",
    ),
    # Nobody asks whether the timer is still in the active set. Nor does an open question to the operator silence it:
    # a timer is the agent's own schedule, not outside authority, and a nightly job must not end with the first
    # question that nobody answers. The wait stands: what the tick starts is local work beside it.
    Rule(lambda c: c.trigger is TriggerKind.TIMER_FIRE, _LOCAL, "a timer fired"),
    Rule(lambda c: c.trigger is TriggerKind.INTERNAL_FOLLOWUP, _LOCAL, "the agent follows up on its own work"),
    # From here on: events from outside, and system ticks.
    Rule(lambda c: not c.contentful, _LIVENESS, "a sign of life without content"),
    Rule(
        lambda c: c.from_outside and c.awaits is WaitingReason.AWAITING_OPERATOR_INPUT,
        _LIVENESS,
        "only the operator ends a wait for the operator",
    ),
    # With runnable work the closure would be continuable, not waiting: the work was taken away behind the tick.
    Rule(
        lambda c: c.subsystem == TickSubsystem.WORK_QUEUE and c.awaits is not None,
        _LIVENESS,
        "no runnable work is behind the tick any more",
    ),
    Rule(
        lambda c: c.awaits is WaitingReason.AWAITING_EXTERNAL_CHANGE,
        _EXPECTED,
        "there may be news of the awaited change",
    ),
    # Also while a timer or a task is awaited: an agent with an hourly timer is always "waiting", and must not be deaf
    # to what its webhooks say in between. Likewise a recheck or restart tick: it is the runtime's own and comes once.
    Rule(lambda c: True, _LOCAL, "there is content to think about"),
)


def _standing(prior: ClosureDecision) -> str:
    return f"{prior.outcome}, {prior.waiting_reason}" if prior.waiting_reason else str(prior.outcome)
