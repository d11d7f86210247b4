"""Scheduler: what a claimed message leads to, the idle order, and the pauses between turns that nobody asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holon.core.closures import (
    ClosureDecision,
    ClosureOutcome,
    ContinuationClass,
    ContinuationResolution,
    RuntimePosture,
    SchedulerBoundary,
    SchedulerDecision,
    SchedulerDecisionKind,
    WaitingReason,
    WorkSignal,
)
from holon.core.limits import Limits
from holon.core.messages import (
    AuthorityClass,
    JsonBody,
    MessageBody,
    MessageEnvelope,
    MessageKind,
    OperatorOrigin,
    Priority,
    TextBody,
    TriggerKind,
    Trust,
)
from holon.core.triggers import WakeHint
from holon.runtime.scheduler import (
    IDLE_RULES,
    DueRecheck,
    IdleDecision,
    IdleFacts,
    RunnableWork,
    Tick,
    TickSubsystem,
    decide_idle,
    decide_message,
    self_turn_delay_ms,
)

K = SchedulerDecisionKind
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def closure(outcome: ClosureOutcome, reason: WaitingReason | None = None) -> ClosureDecision:
    signal = WorkSignal(work_item_id="work_1", status="active", reactivation_mode="continue_active")
    return ClosureDecision(
        outcome=outcome,
        runtime_posture=RuntimePosture.AWAKE,
        waiting_reason=reason,
        work_signal=signal if outcome is ClosureOutcome.CONTINUABLE else None,
        evidence=["as it stands"],
    )


COMPLETED, FAILED = closure(ClosureOutcome.COMPLETED), closure(ClosureOutcome.FAILED)
CONTINUABLE = closure(ClosureOutcome.CONTINUABLE)


def waiting(reason: WaitingReason | None) -> ClosureDecision:
    return closure(ClosureOutcome.WAITING, reason)


def hint(number: int) -> WakeHint:
    created = NOON + timedelta(microseconds=number)
    return WakeHint(id=f"hint_{number}", agent_id="main", created_at=created, reason=f"push {number}")


HINTS = (hint(1), hint(2))
CURRENT = RunnableWork(work_item_id="work_1", revision=7)
QUEUED = RunnableWork(work_item_id="work_2", revision=3)
TIRED = RunnableWork(work_item_id="work_9", revision=1, ticks=3)
RECHECKS = (
    DueRecheck(work_item_id="work_3", recheck_at=NOON),
    DueRecheck(work_item_id="work_4", recheck_at=NOON + timedelta(seconds=1)),
)

HINT_TICK = Tick(
    subsystem=TickSubsystem.WAKE_HINT,
    priority=Priority.NEXT,
    reason="push 2",
    idempotency_key="wake_hint:main:1767268800000002",
)
CURRENT_TICK = Tick(
    subsystem=TickSubsystem.WORK_QUEUE,
    priority=Priority.NORMAL,
    reason="continue_active",
    idempotency_key="work_queue:continue_active:work_1:7",
    work_item_id="work_1",
)
QUEUED_TICK = Tick(
    subsystem=TickSubsystem.WORK_QUEUE,
    priority=Priority.NORMAL,
    reason="queued_available",
    idempotency_key="work_queue:queued_available:work_2:3",
    work_item_id="work_2",
)
RECHECK_TICK = Tick(
    subsystem=TickSubsystem.WORK_ITEM_RECHECK,
    priority=Priority.BACKGROUND,
    reason="recheck_due",
    idempotency_key="work_item_recheck:work_3@2026-01-01T12:00:00.000Z,work_4@2026-01-01T12:00:01.000Z",
)

#: An agent that has nothing at all.
NOTHING = IdleFacts(closure=COMPLETED, queued=0, scope="main")

#: In the order of precedence: what is different from NOTHING, and the decision, reason, tick and wake that follow.
CASES: list[tuple[dict[str, Any], SchedulerDecisionKind, str, Tick | None, str | None]] = [
    ({"queued": 1}, K.NOOP, "has queued input", None, None),
    ({"hints": HINTS}, K.EMIT_SYSTEM_TICK, "wake hints wait", HINT_TICK, None),
    (
        {"closure": CONTINUABLE, "current_work": CURRENT},
        K.EMIT_SYSTEM_TICK,
        "the current work item is runnable",
        CURRENT_TICK,
        None,
    ),
    (
        {"closure": CONTINUABLE, "queued_work": (TIRED, QUEUED)},
        K.EMIT_SYSTEM_TICK,
        "queued work is runnable",
        QUEUED_TICK,
        None,
    ),
    ({"due_rechecks": RECHECKS}, K.EMIT_SYSTEM_TICK, "blocked work is due for a look", RECHECK_TICK, None),
    (
        {"closure": CONTINUABLE, "current_work": CURRENT, "queued_work": (QUEUED,), "self_turns_spent": True},
        K.STAY_IDLE,
        "the limit of turns without new evidence is met: send the agent a message, or raise limits.self_turns",
        None,
        "new evidence from outside",
    ),
    (
        {"closure": CONTINUABLE, "current_work": TIRED, "queued_work": (TIRED,)},
        K.STAY_IDLE,
        "the runnable work was ticked without result: change it, or send the agent a message",
        None,
        "a change of its work",
    ),
    (
        {"closure": waiting(WaitingReason.AWAITING_TASK_RESULT)},
        K.WAIT_FOR_TASK,
        "waits for a task's result",
        None,
        "a task's result",
    ),
    ({"may_suspend": False}, K.STAY_IDLE, "policy forbids suspension", None, None),
    (
        {"closure": waiting(WaitingReason.AWAITING_EXTERNAL_CHANGE)},
        K.WAIT_FOR_EXTERNAL_CHANGE,
        "waits for an external change",
        None,
        "an external event",
    ),
    ({"closure": waiting(WaitingReason.AWAITING_TIMER)}, K.WAIT_FOR_TIMER, "waits for a timer", None, "a timer"),
    (
        {"closure": waiting(WaitingReason.AWAITING_OPERATOR_INPUT)},
        K.WAIT_FOR_OPERATOR,
        "waits for the operator",
        None,
        "operator input",
    ),
    ({}, K.SLEEP, "nothing to do", None, None),
]

any_closure = st.sampled_from([COMPLETED, FAILED, CONTINUABLE, *(waiting(reason) for reason in (None, *WaitingReason))])
any_work = st.sampled_from([CURRENT, QUEUED, TIRED])
any_idle = st.builds(
    IdleFacts,
    closure=any_closure,
    queued=st.integers(0, 2),
    hints=st.sampled_from([(), HINTS[:1], HINTS]),
    scope=st.just("main"),
    current_work=st.none() | any_work,
    queued_work=st.lists(any_work, max_size=3).map(tuple),
    due_rechecks=st.sampled_from([(), RECHECKS]),
    self_turns_spent=st.booleans(),
    may_suspend=st.booleans(),
)


def envelope(kind: MessageKind, body: MessageBody | None = None) -> MessageEnvelope:
    return MessageEnvelope(
        id="msg_1",
        agent_id="main",
        created_at=NOON,
        kind=kind,
        origin=OperatorOrigin(),
        trust=Trust.TRUSTED_OPERATOR,
        authority_class=AuthorityClass.OPERATOR_INSTRUCTION,
        priority=Priority.NORMAL,
        body=body or TextBody(text="go on"),
    )


def resolution(class_: ContinuationClass) -> ContinuationResolution:
    return ContinuationResolution(
        trigger_kind=TriggerKind.OPERATOR_INPUT,
        class_=class_,
        model_visible=class_ is not ContinuationClass.LIVENESS_ONLY,
        prior_closure_outcome=ClosureOutcome.COMPLETED,
        evidence=["so it was resolved"],
    )


# Messages


@pytest.mark.parametrize(
    ("class_", "kind"),
    [
        (ContinuationClass.RESUME_EXPECTED_WAIT, K.START_MODEL_TURN),
        (ContinuationClass.RESUME_OVERRIDE, K.START_MODEL_TURN),
        (ContinuationClass.LOCAL_CONTINUATION, K.START_MODEL_TURN),
        (ContinuationClass.LIVENESS_ONLY, K.REDUCE_MESSAGE_ONLY),
    ],
)
def test_a_message_starts_a_turn_exactly_if_the_model_is_to_see_it(class_, kind):
    assert decide_message(resolution(class_), envelope(MessageKind.OPERATOR_PROMPT)) == SchedulerDecision(
        kind=kind,
        boundary=SchedulerBoundary.MESSAGE_PROCESSING,
        reason=class_.value,
        evidence=["so it was resolved"],
    )


@pytest.mark.parametrize("body", [JsonBody(value={"action": "stop", "by": "operator"}), TextBody(text="stop")])
def test_a_control_message_that_asks_to_stop_stops(body):
    decided = decide_message(resolution(ContinuationClass.LIVENESS_ONLY), envelope(MessageKind.CONTROL, body))
    assert decided == SchedulerDecision(
        kind=K.STOP,
        boundary=SchedulerBoundary.MESSAGE_PROCESSING,
        reason="a control message asks to stop",
        evidence=["so it was resolved"],
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MessageKind.CONTROL, JsonBody(value={"action": "pause"})),
        (MessageKind.CONTROL, JsonBody(value=["stop"])),
        (MessageKind.CONTROL, TextBody(text="do not stop")),
        (MessageKind.WEBHOOK_EVENT, JsonBody(value={"action": "stop"})),
        (MessageKind.OPERATOR_PROMPT, TextBody(text="stop")),
    ],
)
def test_only_a_control_message_stops_and_only_with_that_action(kind, body):
    decided = decide_message(resolution(ContinuationClass.LIVENESS_ONLY), envelope(kind, body))
    assert decided.kind is K.REDUCE_MESSAGE_ONLY


# Idle


@pytest.mark.parametrize(("facts", "kind", "reason", "tick", "wake"), CASES, ids=[case[2] for case in CASES])
def test_each_idle_situation_has_its_decision(facts, kind, reason, tick, wake):
    facts = replace(NOTHING, **facts)
    boundary = SchedulerBoundary.IDLE_TICK if tick else SchedulerBoundary.RUN_LOOP_IDLE
    assert decide_idle(facts) == IdleDecision(
        decision=SchedulerDecision(kind=kind, boundary=boundary, reason=reason, evidence=["as it stands"]),
        tick=tick,
        expected_wake=wake,
    )


def test_every_idle_rule_has_a_case_and_the_cases_stand_in_the_order_of_the_rules():
    assert [(case[1], case[2], case[4]) for case in CASES] == [
        (rule.kind, rule.reason, rule.expected_wake) for rule in IDLE_RULES
    ]


def test_where_two_idle_situations_meet_the_earlier_one_decides():
    met = 0
    for earlier, later in combinations(CASES, 2):
        both = {**later[0], **earlier[0]}
        if any(both[name] != value for name, value in later[0].items()):
            continue  # one fact cannot have two values
        if "self_turns_spent" in later[0] and "current_work" in earlier[0]:
            continue  # the limit holds the work back; that has its own case
        met += 1
        assert decide_idle(replace(NOTHING, **both)).decision.reason == earlier[2], both
    assert met > 40


@given(any_idle)
def test_every_idle_combination_is_decided_and_a_tick_comes_exactly_with_its_decision(facts):
    decided = decide_idle(facts)
    assert (decided.tick is not None) == (decided.decision.kind is K.EMIT_SYSTEM_TICK)
    assert not (decided.sleeps and decided.tick)


@pytest.mark.spec("RT-118")
@given(any_closure, any_idle, st.sampled_from(ContinuationClass))
def test_a_settled_step_leads_to_exactly_one_of_turn_liveness_wait_and_sleep(prior, idle, class_):
    """With a message: a turn or a sign of life. Without one: a tick that comes back as a message, a wait, or sleep."""
    on_message = decide_message(resolution(class_), envelope(MessageKind.OPERATOR_PROMPT)).kind
    assert on_message in (K.START_MODEL_TURN, K.REDUCE_MESSAGE_ONLY)
    on_nothing = decide_idle(replace(idle, closure=prior, queued=0)).decision.kind
    waits = (K.WAIT_FOR_TASK, K.WAIT_FOR_EXTERNAL_CHANGE, K.WAIT_FOR_TIMER, K.WAIT_FOR_OPERATOR, K.STAY_IDLE)
    assert on_nothing in (K.EMIT_SYSTEM_TICK, *waits, K.SLEEP)


@pytest.mark.spec("RT-129")
@given(any_idle)
def test_an_agent_sleeps_only_if_nothing_is_left_to_do_and_policy_allows_it(facts):
    remains = (
        facts.queued > 0
        or bool(facts.hints)
        or bool(facts.due_rechecks)
        or facts.closure.outcome is ClosureOutcome.CONTINUABLE
        or facts.closure.waiting_reason is WaitingReason.AWAITING_TASK_RESULT
        or not facts.may_suspend
    )
    assert decide_idle(facts).sleeps == (not remains)


@pytest.mark.spec("RT-162")
@given(any_idle)
def test_waiting_hints_are_never_starved_by_work(facts):
    assert decide_idle(replace(facts, queued=0, hints=HINTS)).tick == HINT_TICK


@given(any_idle)
def test_input_that_waits_is_taken_before_any_new_tick_is_made(facts):
    assert decide_idle(replace(facts, queued=1)).decision.kind is K.NOOP


@pytest.mark.parametrize(
    ("prior", "kind"),
    [
        (COMPLETED, K.SLEEP),
        (FAILED, K.SLEEP),
        (waiting(None), K.SLEEP),
        (waiting(WaitingReason.AWAITING_TIMER), K.WAIT_FOR_TIMER),
        (waiting(WaitingReason.AWAITING_OPERATOR_INPUT), K.WAIT_FOR_OPERATOR),
    ],
    ids=["completed", "failed", "new", "waiting for a timer", "waiting for the operator"],
)
@pytest.mark.parametrize("spent", [False, True])
def test_work_drives_only_an_agent_that_is_continuable(prior, kind, spent):
    facts = replace(NOTHING, closure=prior, current_work=CURRENT, queued_work=(QUEUED,), self_turns_spent=spent)
    assert decide_idle(facts).decision.kind is kind


def test_work_that_was_ticked_three_times_without_new_evidence_is_left_alone():
    facts = replace(NOTHING, closure=CONTINUABLE, current_work=TIRED, queued_work=(TIRED, TIRED))
    assert decide_idle(facts).decision.kind is K.STAY_IDLE


@pytest.mark.parametrize(("ticks", "suppressed"), [(0, False), (2, False), (3, True), (4, True)])
def test_the_third_tick_is_the_last(ticks, suppressed):
    assert replace(CURRENT, ticks=ticks).suppressed is suppressed


def test_queued_work_is_looked_at_when_the_current_item_is_left_alone():
    assert (
        decide_idle(replace(NOTHING, closure=CONTINUABLE, current_work=TIRED, queued_work=(QUEUED,))).tick
        == QUEUED_TICK
    )


def test_a_new_revision_of_a_work_item_is_a_new_tick():
    revised = decide_idle(replace(NOTHING, closure=CONTINUABLE, current_work=replace(CURRENT, revision=8)))
    assert revised.tick == replace(CURRENT_TICK, idempotency_key="work_queue:continue_active:work_1:8")


# Pauses


def test_the_pause_before_a_self_woken_turn_is_free_then_doubles_then_ends():
    limits = Limits(self_turns=9, self_turns_free=2, self_turn_backoff_cap_ms=10_000)
    delays = [self_turn_delay_ms(turns, limits) for turns in range(11)]
    assert delays == [0, 0, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, None, None]


@given(
    st.integers(0, 10**6),
    st.builds(
        Limits,
        self_turns=st.integers(0, 10**6),
        self_turns_free=st.integers(0, 100),
        self_turn_backoff_cap_ms=st.integers(0, 10**9),
    ),
)
def test_pauses_only_grow_stay_under_the_cap_and_end_at_the_limit(turns, limits):
    delay, following = self_turn_delay_ms(turns, limits), self_turn_delay_ms(turns + 1, limits)
    assert (delay is None) == (turns >= limits.self_turns)
    if delay is not None:
        assert 0 <= delay <= limits.self_turn_backoff_cap_ms
        assert following is None or delay <= following
