"""Closure: where an agent stands, decided from runtime facts alone.

Pure: `standing` reads the facts from the store. What an agent's text says about being done decides nothing here.
"""

from __future__ import annotations

from collections.abc import Callable

from holon.core.agents import AgentStatus
from holon.core.closures import ClosureDecision, ClosureOutcome, RuntimePosture, WaitingReason, WorkSignal
from holon.core.turns import TerminalKind
from holon.core.values import Value


class ClosureFacts(Value, frozen=True, kw_only=True):
    """What the runtime knows of one agent at one moment."""

    status: AgentStatus
    #: The last turn failed, and none has completed since.
    runtime_error_active: bool
    turn_in_progress: bool
    #: How the last settled turn ended; `None` before the first one.
    last_terminal: TerminalKind | None
    #: A turn was started at some time, settled or not.
    ever_started: bool
    #: Runnable work: the current item, else the first queued one.
    work_signal: WorkSignal | None = None
    #: The model asked the operator something and rests until there is an answer.
    awaits_operator: bool = False
    #: A task that something waits for. One that merely runs in the background is a `live_task`.
    blocking_task: bool = False
    live_task: bool = False
    #: The agent as a whole (no single work item) waits for the outside.
    external_wait: bool = False
    #: A bounded `Sleep` that has not ended.
    sleep_job_active: bool = False
    timer_active: bool = False
    #: What the current work item waits for, if its scheduling state says that it waits.
    current_work_wait: WaitingReason | None = None


def decide_closure(facts: ClosureFacts) -> ClosureDecision:
    """The first rule that applies. Posture is told beside the outcome and never changes it."""
    for rule in RULES:
        if rule.applies(facts):
            return ClosureDecision(
                outcome=rule.outcome,
                runtime_posture=posture_of(facts.status),
                waiting_reason=rule.waiting_reason,
                work_signal=facts.work_signal if rule.outcome is ClosureOutcome.CONTINUABLE else None,
                evidence=[rule.evidence, _BACKGROUND] if facts.live_task else [rule.evidence],
            )
    raise AssertionError("RULES end with a rule that always applies")


def posture_of(status: AgentStatus) -> RuntimePosture:
    return RuntimePosture.AWAKE if status.awake else RuntimePosture.SLEEPING


class ClosureRule(Value, frozen=True):
    applies: Callable[[ClosureFacts], bool]
    outcome: ClosureOutcome
    waiting_reason: WaitingReason | None
    evidence: str


_COMPLETED, _CONTINUABLE = ClosureOutcome.COMPLETED, ClosureOutcome.CONTINUABLE
_FAILED, _WAITING = ClosureOutcome.FAILED, ClosureOutcome.WAITING
_OPERATOR, _EXTERNAL = WaitingReason.AWAITING_OPERATOR_INPUT, WaitingReason.AWAITING_EXTERNAL_CHANGE
_TASK, _TIMER = WaitingReason.AWAITING_TASK_RESULT, WaitingReason.AWAITING_TIMER

#: "TaskResult … is independent from scheduler blocking": a live task is told, and makes nobody wait.
_BACKGROUND = "a background task is live; the agent does not wait for it"

RULES: tuple[ClosureRule, ...] = (
    ClosureRule(lambda f: f.runtime_error_active, _FAILED, None, "the last turn failed and none has completed since"),
    # Blocking waits exist only inside a turn, so the wait for a task is asked for before the turn that contains it.
    ClosureRule(
        lambda f: f.turn_in_progress and f.blocking_task, _WAITING, _TASK, "the turn in progress waits for a task"
    ),
    ClosureRule(lambda f: f.turn_in_progress, _WAITING, _EXTERNAL, "a turn is in progress"),
    # Before the work signal: work whose turn was aborted is not taken up again by the runtime itself.
    ClosureRule(lambda f: f.last_terminal is TerminalKind.ABORTED, _FAILED, None, "the last turn was aborted"),
    ClosureRule(
        lambda f: f.ever_started and f.last_terminal is None,
        _WAITING,
        _EXTERNAL,
        "a turn was started and has no terminal record",
    ),
    # An agent that put itself to sleep until a moment is taken at its word: its work warrants no tick before then.
    ClosureRule(
        lambda f: f.work_signal is not None and not f.sleep_job_active, _CONTINUABLE, None, "there is runnable work"
    ),
    # First among the waits, because it is the only one that outside evidence must not get past.
    ClosureRule(lambda f: f.awaits_operator, _WAITING, _OPERATOR, "the agent asked the operator"),
    # Before timers: many agents have one that merely recurs, and a task that is waited for must match its result.
    ClosureRule(lambda f: f.blocking_task, _WAITING, _TASK, "a blocking task is outstanding"),
    ClosureRule(lambda f: f.external_wait, _WAITING, _EXTERNAL, "the agent waits for an external change"),
    ClosureRule(lambda f: f.sleep_job_active, _WAITING, _TIMER, "a bounded sleep has not ended"),
    ClosureRule(lambda f: f.timer_active, _WAITING, _TIMER, "a timer is active"),
    ClosureRule(lambda f: f.current_work_wait is _TASK, _WAITING, _TASK, "the current work item waits for a task"),
    ClosureRule(
        lambda f: f.current_work_wait is _EXTERNAL,
        _WAITING,
        _EXTERNAL,
        "the current work item waits for an external change",
    ),
    ClosureRule(lambda f: f.current_work_wait is _TIMER, _WAITING, _TIMER, "the current work item waits for a timer"),
    ClosureRule(
        lambda f: f.current_work_wait is _OPERATOR, _WAITING, _OPERATOR, "the current work item waits for the operator"
    ),
    # `completed` needs an observed terminal turn, so a new agent is waiting: for its first message, whoever sends it.
    # That is nothing in particular, hence no reason; a named one would keep some of its first events from it.
    ClosureRule(lambda f: f.last_terminal is None, _WAITING, None, "no turn yet"),
    ClosureRule(lambda f: True, _COMPLETED, None, "the last turn completed and nothing is awaited"),
)
