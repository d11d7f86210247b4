"""Posture: the one word in a list of agents, and the hint that an operator gets for an agent that does not work."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holon.core.agents import AgentStatus, LifecycleHint, PostureView, RegistryStatus
from holon.core.closures import (
    ClosureDecision,
    ClosureOutcome,
    RuntimePosture,
    SchedulingPosture,
    WaitingReason,
    WorkSignal,
)
from holon.runtime.posture import RULES, PostureFacts, lifecycle_hint, scheduling_posture

P = SchedulingPosture


def closure(outcome: ClosureOutcome, reason: WaitingReason | None = None) -> ClosureDecision:
    signal = WorkSignal(work_item_id="work_1", status="active", reactivation_mode="continue_active")
    return ClosureDecision(
        outcome=outcome,
        runtime_posture=RuntimePosture.AWAKE,
        waiting_reason=reason,
        work_signal=signal if outcome is ClosureOutcome.CONTINUABLE else None,
    )


def waiting(reason: WaitingReason | None) -> ClosureDecision:
    return closure(ClosureOutcome.WAITING, reason)


#: An agent that has nothing to do.
IDLE = PostureFacts(
    registry=RegistryStatus.ACTIVE,
    status=AgentStatus.ASLEEP,
    closure=closure(ClosureOutcome.COMPLETED),
    queued=0,
)

#: In the order of precedence: what is different from IDLE, and the posture, reason and run that follow from it.
CASES: list[tuple[dict[str, Any], SchedulingPosture, str, str | None]] = [
    ({"registry": RegistryStatus.ARCHIVED}, P.ARCHIVED, "archived", None),
    ({"status": AgentStatus.STOPPED}, P.ARCHIVED, "stopped: resume is required", None),
    ({"run_id": "run_1"}, P.ACTIVE_TURN, "a turn is in progress", "run_1"),
    ({"queued": 2}, P.HAS_QUEUED_INPUT, "messages wait in the queue", None),
    ({"closure": closure(ClosureOutcome.CONTINUABLE)}, P.HAS_RUNNABLE_WORK, "there is runnable work", None),
    (
        {"closure": waiting(WaitingReason.AWAITING_TASK_RESULT)},
        P.WAITING_FOR_TASK,
        "waits for a task's result",
        None,
    ),
    (
        {"closure": waiting(WaitingReason.AWAITING_EXTERNAL_CHANGE)},
        P.WAITING_FOR_EXTERNAL,
        "waits for an external change",
        None,
    ),
    (
        {"closure": waiting(WaitingReason.AWAITING_OPERATOR_INPUT)},
        P.WAITING_FOR_OPERATOR,
        "waits for the operator",
        None,
    ),
    ({"blocked_work": True}, P.BLOCKED, "its work is blocked", None),
    ({"status": AgentStatus.PAUSED}, P.BLOCKED, "nothing to do; paused until resume", None),
    ({"closure": waiting(WaitingReason.AWAITING_TIMER)}, P.IDLE, "rests until a timer fires", None),
    ({"closure": closure(ClosureOutcome.FAILED)}, P.IDLE, "the last turn failed; the next message goes on", None),
    ({}, P.IDLE, "nothing to do", None),
]

any_facts = st.builds(
    PostureFacts,
    registry=st.sampled_from(RegistryStatus),
    status=st.sampled_from(AgentStatus),
    closure=st.sampled_from(
        [
            *(closure(outcome) for outcome in ClosureOutcome),
            *(waiting(reason) for reason in WaitingReason),
        ]
    ),
    queued=st.integers(0, 2),
    run_id=st.sampled_from([None, "run_1"]),
    blocked_work=st.booleans(),
)


@pytest.mark.parametrize(("facts", "posture", "reason", "run_id"), CASES, ids=[case[2] for case in CASES])
def test_each_situation_has_its_word(facts, posture, reason, run_id):
    assert scheduling_posture(replace(IDLE, **facts)) == PostureView(posture=posture, reason=reason, run_id=run_id)


def test_every_rule_has_a_case_and_the_cases_stand_in_the_order_of_the_rules():
    assert [(case[1], case[2].removesuffix("; paused until resume")) for case in CASES] == [
        (rule.posture, rule.reason) for rule in RULES
    ]


def test_where_two_situations_meet_the_earlier_one_decides():
    met = 0
    for earlier, later in combinations(CASES, 2):
        both = {**later[0], **earlier[0]}
        if any(both[name] != value for name, value in later[0].items()):
            continue  # one fact cannot have two values
        met += 1
        assert scheduling_posture(replace(IDLE, **both)).posture is earlier[1], both
    assert met > 40


@given(any_facts)
def test_every_combination_has_a_word_and_only_an_active_turn_names_its_run(facts):
    view = scheduling_posture(facts)
    assert view.reason
    assert (view.run_id is not None) == (view.posture is P.ACTIVE_TURN)


@given(any_facts.filter(lambda facts: facts.registry is RegistryStatus.ACTIVE))
def test_a_paused_agent_never_looks_as_if_it_would_move(facts):
    view = scheduling_posture(replace(facts, status=AgentStatus.PAUSED))
    assert view.reason.endswith("; paused until resume")
    assert view.posture is not P.IDLE


def test_an_archived_agent_is_not_said_to_wait_for_resume():
    view = scheduling_posture(replace(IDLE, registry=RegistryStatus.ARCHIVED, status=AgentStatus.PAUSED))
    assert view == PostureView(posture=P.ARCHIVED, reason="archived")


@pytest.mark.spec("RT-082")
def test_a_stopped_agent_is_resumed_and_not_woken():
    assert lifecycle_hint("ops", AgentStatus.STOPPED) == LifecycleHint(
        resume_required=True,
        accepts_external_messages=False,
        wake_requires_resume=True,
        operator_hint="agent 'ops' is stopped: resume is required before new prompts, and wake does not override it;"
        " run 'holon agent resume ops'",
        resume_cli_hint="holon agent resume ops",
        resume_control_path="/control/agents/ops/resume",
    )


def test_a_paused_agent_takes_messages_and_keeps_them_until_resume():
    assert lifecycle_hint("ops", AgentStatus.PAUSED) == LifecycleHint(
        resume_required=True,
        accepts_external_messages=True,
        wake_requires_resume=True,
        operator_hint="agent 'ops' is paused: messages are admitted and wait until resume; run 'holon agent resume"
        " ops'",
        resume_cli_hint="holon agent resume ops",
        resume_control_path="/control/agents/ops/resume",
    )


@pytest.mark.parametrize(
    "status", [status for status in AgentStatus if status not in (AgentStatus.STOPPED, AgentStatus.PAUSED)]
)
def test_an_agent_that_nobody_holds_needs_nothing_from_its_operator(status):
    assert lifecycle_hint("ops", status) == LifecycleHint(
        resume_required=False, accepts_external_messages=True, wake_requires_resume=False
    )
