"""Closure: each rule alone, the order between them, and what holds for every combination of facts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holon.core.agents import AgentStatus
from holon.core.closures import ClosureDecision, ClosureOutcome, RuntimePosture, WaitingReason, WorkSignal
from holon.core.turns import TerminalKind
from holon.runtime.closure import RULES, ClosureFacts, decide_closure

CURRENT = WorkSignal(work_item_id="work_1", status="active", reactivation_mode="continue_active")
QUEUED = WorkSignal(work_item_id="work_2", status="queued", reactivation_mode="activate_queued")

OPERATOR = WaitingReason.AWAITING_OPERATOR_INPUT
EXTERNAL = WaitingReason.AWAITING_EXTERNAL_CHANGE
TASK = WaitingReason.AWAITING_TASK_RESULT
TIMER = WaitingReason.AWAITING_TIMER

#: An agent whose last turn completed, and that has nothing else.
DONE = ClosureFacts(
    status=AgentStatus.ASLEEP,
    runtime_error_active=False,
    turn_in_progress=False,
    last_terminal=TerminalKind.COMPLETED,
    ever_started=True,
)

#: In the order of precedence: what is different from DONE, and the outcome, reason and evidence that follow from it.
CASES: list[tuple[dict[str, Any], ClosureOutcome, WaitingReason | None, str]] = [
    (
        {"runtime_error_active": True},
        ClosureOutcome.FAILED,
        None,
        "the last turn failed and none has completed since",
    ),
    (
        {"turn_in_progress": True, "blocking_task": True},
        ClosureOutcome.WAITING,
        TASK,
        "the turn in progress waits for a task",
    ),
    ({"turn_in_progress": True}, ClosureOutcome.WAITING, EXTERNAL, "a turn is in progress"),
    ({"last_terminal": TerminalKind.ABORTED}, ClosureOutcome.FAILED, None, "the last turn was aborted"),
    (
        {"last_terminal": None, "ever_started": True},
        ClosureOutcome.WAITING,
        EXTERNAL,
        "a turn was started and has no terminal record",
    ),
    ({"work_signal": CURRENT}, ClosureOutcome.CONTINUABLE, None, "there is runnable work"),
    ({"awaits_operator": True}, ClosureOutcome.WAITING, OPERATOR, "the agent asked the operator"),
    ({"blocking_task": True}, ClosureOutcome.WAITING, TASK, "a blocking task is outstanding"),
    ({"external_wait": True}, ClosureOutcome.WAITING, EXTERNAL, "the agent waits for an external change"),
    ({"sleep_job_active": True}, ClosureOutcome.WAITING, TIMER, "a bounded sleep has not ended"),
    ({"timer_active": True}, ClosureOutcome.WAITING, TIMER, "a timer is active"),
    ({"current_work_wait": TASK}, ClosureOutcome.WAITING, TASK, "the current work item waits for a task"),
    (
        {"current_work_wait": EXTERNAL},
        ClosureOutcome.WAITING,
        EXTERNAL,
        "the current work item waits for an external change",
    ),
    ({"current_work_wait": TIMER}, ClosureOutcome.WAITING, TIMER, "the current work item waits for a timer"),
    ({"current_work_wait": OPERATOR}, ClosureOutcome.WAITING, OPERATOR, "the current work item waits for the operator"),
    ({"last_terminal": None, "ever_started": False}, ClosureOutcome.WAITING, None, "no turn yet"),
    ({}, ClosureOutcome.COMPLETED, None, "the last turn completed and nothing is awaited"),
]

any_facts = st.builds(
    ClosureFacts,
    status=st.sampled_from(AgentStatus),
    runtime_error_active=st.booleans(),
    turn_in_progress=st.booleans(),
    last_terminal=st.none() | st.sampled_from(TerminalKind),
    ever_started=st.booleans(),
    work_signal=st.sampled_from([None, CURRENT, QUEUED]),
    awaits_operator=st.booleans(),
    blocking_task=st.booleans(),
    live_task=st.booleans(),
    external_wait=st.booleans(),
    sleep_job_active=st.booleans(),
    timer_active=st.booleans(),
    current_work_wait=st.none() | st.sampled_from(WaitingReason),
)


@pytest.mark.spec("RT-093", "RT-094", "RT-095", "RT-096")
@pytest.mark.parametrize(("facts", "outcome", "reason", "evidence"), CASES, ids=[case[3] for case in CASES])
def test_each_situation_has_its_outcome_and_reason(facts, outcome, reason, evidence):
    assert decide_closure(replace(DONE, **facts)) == ClosureDecision(
        outcome=outcome,
        runtime_posture=RuntimePosture.SLEEPING,
        waiting_reason=reason,
        work_signal=CURRENT if outcome is ClosureOutcome.CONTINUABLE else None,
        evidence=[evidence],
    )


def test_every_rule_has_a_case_and_the_cases_stand_in_the_order_of_the_rules():
    assert [case[1:] for case in CASES] == [(rule.outcome, rule.waiting_reason, rule.evidence) for rule in RULES]


def test_where_two_situations_meet_the_earlier_one_decides():
    met = 0
    for earlier, later in combinations(CASES, 2):
        both = {**later[0], **earlier[0]}
        if any(both[name] != value for name, value in later[0].items()):
            continue  # one fact cannot have two values
        if both != earlier[0] and any(both == case[0] for case in CASES):
            continue  # together they are a case of their own
        if "work_signal" in earlier[0] and "sleep_job_active" in later[0]:
            continue  # the sleep holds the work back; that has its own test
        met += 1
        decided = decide_closure(replace(DONE, **both))
        assert (decided.outcome, decided.waiting_reason, *decided.evidence) == earlier[1:], both
    assert met > 100


@pytest.mark.spec("RT-095", "RT-096")
@given(any_facts)
def test_every_combination_is_decided_with_a_reason_only_for_waits_and_a_signal_only_for_work(facts):
    decided = decide_closure(facts)
    assert decided.waiting_reason is None or decided.outcome is ClosureOutcome.WAITING
    assert (decided.work_signal is not None) == (decided.outcome is ClosureOutcome.CONTINUABLE)
    assert decided.work_signal in (None, facts.work_signal)
    assert decided.evidence


@pytest.mark.spec("RT-098")
@pytest.mark.parametrize(
    ("status", "posture"),
    [
        (AgentStatus.BOOTING, RuntimePosture.AWAKE),
        (AgentStatus.AWAKE_IDLE, RuntimePosture.AWAKE),
        (AgentStatus.AWAKE_RUNNING, RuntimePosture.AWAKE),
        (AgentStatus.AWAITING_TASK, RuntimePosture.AWAKE),
        (AgentStatus.ASLEEP, RuntimePosture.SLEEPING),
        (AgentStatus.PAUSED, RuntimePosture.SLEEPING),
        (AgentStatus.STOPPED, RuntimePosture.SLEEPING),
    ],
)
def test_posture_follows_the_status(status, posture):
    assert decide_closure(replace(DONE, status=status)).runtime_posture is posture


@pytest.mark.spec("RT-098")
@given(any_facts, st.sampled_from(AgentStatus))
def test_the_status_changes_the_posture_and_nothing_else(facts, status):
    one, other = decide_closure(facts), decide_closure(replace(facts, status=status))
    assert (one.outcome, one.waiting_reason, one.work_signal, one.evidence) == (
        other.outcome,
        other.waiting_reason,
        other.work_signal,
        other.evidence,
    )


@pytest.mark.spec("RT-099")
@given(any_facts)
def test_nothing_is_completed_without_an_observed_terminal_turn(facts):
    assert decide_closure(replace(facts, last_terminal=None)).outcome is not ClosureOutcome.COMPLETED


@pytest.mark.spec("RT-100")
@pytest.mark.parametrize("signal", [CURRENT, QUEUED])
def test_a_settled_agent_with_runnable_work_is_continuable(signal):
    assert decide_closure(replace(DONE, work_signal=signal)) == ClosureDecision(
        outcome=ClosureOutcome.CONTINUABLE,
        runtime_posture=RuntimePosture.SLEEPING,
        work_signal=signal,
        evidence=["there is runnable work"],
    )


@given(any_facts)
def test_an_agent_that_put_itself_to_sleep_is_not_driven_on_before_the_sleep_ends(facts):
    assert decide_closure(replace(facts, sleep_job_active=True)).outcome is not ClosureOutcome.CONTINUABLE


@given(any_facts)
def test_a_live_background_task_is_told_and_makes_nobody_wait(facts):
    without, with_task = (decide_closure(replace(facts, live_task=live)) for live in (False, True))
    assert (with_task.outcome, with_task.waiting_reason) == (without.outcome, without.waiting_reason)
    assert with_task.evidence == [*without.evidence, "a background task is live; the agent does not wait for it"]
