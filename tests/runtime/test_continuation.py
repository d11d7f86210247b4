"""Continuation: each rule alone, and what holds for every message in front of every closure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.agents import AgentStatus
from holon.core.closures import (
    ClosureDecision,
    ClosureOutcome,
    ContinuationClass,
    ContinuationResolution,
    RuntimePosture,
    WaitingReason,
)
from holon.core.messages import (
    CallbackOrigin,
    ChannelOrigin,
    JsonBody,
    MessageBody,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    OperatorOrigin,
    Priority,
    SystemOrigin,
    TaskOrigin,
    TextBody,
    TimerOrigin,
    TriggerKind,
    WebhookOrigin,
)
from holon.core.provenance import ALLOWED_ORIGINS, TRIGGERS, labels_for
from holon.core.turns import TerminalKind
from holon.runtime.closure import ClosureFacts, decide_closure
from holon.runtime.continuation import RULES, resolve
from holon.runtime.scheduler import TickSubsystem

EXPECTED, OVERRIDE = ContinuationClass.RESUME_EXPECTED_WAIT, ContinuationClass.RESUME_OVERRIDE
LOCAL, LIVENESS = ContinuationClass.LOCAL_CONTINUATION, ContinuationClass.LIVENESS_ONLY

OPERATOR = WaitingReason.AWAITING_OPERATOR_INPUT
EXTERNAL = WaitingReason.AWAITING_EXTERNAL_CHANGE
TASK = WaitingReason.AWAITING_TASK_RESULT
TIMER = WaitingReason.AWAITING_TIMER

ORIGINS: dict[type, MessageOrigin] = {
    OperatorOrigin: OperatorOrigin(),
    ChannelOrigin: ChannelOrigin(channel_id="general"),
    WebhookOrigin: WebhookOrigin(source="ci"),
    CallbackOrigin: CallbackOrigin(descriptor_id="trig_1"),
    TimerOrigin: TimerOrigin(timer_id="timer_1"),
    SystemOrigin: SystemOrigin(subsystem="runtime"),
    TaskOrigin: TaskOrigin(task_id="task_1"),
}

OBSERVED = (MessageKind.TASK_STATUS, MessageKind.CONTROL, MessageKind.BRIEF_ACK, MessageKind.BRIEF_RESULT)
OUTSIDE = (MessageKind.CHANNEL_EVENT, MessageKind.WEBHOOK_EVENT, MessageKind.CALLBACK_EVENT)


def message(
    kind: MessageKind,
    *,
    subsystem: str | None = None,
    body: MessageBody | None = None,
    metadata: dict[str, Any] | None = None,
) -> MessageEnvelope:
    origin = SystemOrigin(subsystem=subsystem) if subsystem else ORIGINS[ALLOWED_ORIGINS[kind][0]]
    trust, authority = labels_for(origin)
    return MessageEnvelope(
        id="msg_1",
        agent_id="main",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        kind=kind,
        origin=origin,
        trust=trust,
        authority_class=authority,
        priority=Priority.NORMAL,
        body=body or TextBody(text="something happened"),
        trigger_kind=TRIGGERS[kind],
        metadata=metadata,
    )


def tick(subsystem: str, *, body: MessageBody | None = None, hint_body: bool = False) -> MessageEnvelope:
    """A tick as the runtime makes it: a wake-hint tick says whether one of its hints brought a payload."""
    metadata = {"contentful": hint_body} if subsystem == TickSubsystem.WAKE_HINT else None
    return message(MessageKind.SYSTEM_TICK, subsystem=subsystem, body=body, metadata=metadata)


def waiting(reason: WaitingReason | None) -> ClosureDecision:
    return ClosureDecision(
        outcome=ClosureOutcome.WAITING, waiting_reason=reason, runtime_posture=RuntimePosture.SLEEPING
    )


def settled(outcome: ClosureOutcome) -> ClosureDecision:
    return ClosureDecision(outcome=outcome, runtime_posture=RuntimePosture.SLEEPING)


COMPLETED, FAILED = settled(ClosureOutcome.COMPLETED), settled(ClosureOutcome.FAILED)
CONTINUABLE = settled(ClosureOutcome.CONTINUABLE)
NEW_AGENT = decide_closure(
    ClosureFacts(
        status=AgentStatus.AWAKE_IDLE,
        runtime_error_active=False,
        turn_in_progress=False,
        last_terminal=None,
        ever_started=False,
    )
)

EMPTY = TextBody(text=" \n")

#: Rule by rule, in their order: a closure, a message in front of it, and what it leads to.
CASES: list[tuple[ClosureDecision, MessageEnvelope, ContinuationClass, str]] = [
    *((COMPLETED, message(kind), LIVENESS, "this kind is observed and never continues anything") for kind in OBSERVED),
    (waiting(OPERATOR), message(MessageKind.OPERATOR_PROMPT), EXPECTED, "the operator answers"),
    *(
        (
            waiting(reason),
            message(MessageKind.OPERATOR_PROMPT),
            OVERRIDE,
            "the operator speaks while something else is awaited",
        )
        for reason in (TASK, EXTERNAL, TIMER)
    ),
    *(
        (prior, message(MessageKind.OPERATOR_PROMPT), LOCAL, "the operator speaks")
        for prior in (COMPLETED, FAILED, CONTINUABLE, NEW_AGENT)
    ),
    (waiting(TASK), message(MessageKind.TASK_RESULT), EXPECTED, "the awaited task has ended"),
    *(
        (prior, message(MessageKind.TASK_RESULT), LOCAL, "a task has ended")
        for prior in (COMPLETED, FAILED, CONTINUABLE, waiting(OPERATOR), waiting(EXTERNAL), waiting(TIMER))
    ),
    (waiting(TIMER), message(MessageKind.TIMER_TICK), EXPECTED, "the awaited timer fired"),
    *(
        (prior, message(MessageKind.TIMER_TICK), LOCAL, "a timer fired")
        for prior in (COMPLETED, FAILED, CONTINUABLE, NEW_AGENT, waiting(OPERATOR), waiting(TASK), waiting(EXTERNAL))
    ),
    *(
        (prior, message(MessageKind.INTERNAL_FOLLOWUP), LOCAL, "the agent follows up on its own work")
        for prior in (COMPLETED, FAILED, waiting(OPERATOR), waiting(TASK), waiting(EXTERNAL), waiting(TIMER))
    ),
    *(
        (prior, message(kind, body=EMPTY), LIVENESS, "a sign of life without content")
        for prior in (COMPLETED, FAILED, waiting(EXTERNAL))
        for kind in OUTSIDE
    ),
    (COMPLETED, tick(TickSubsystem.WORK_QUEUE, body=EMPTY), LIVENESS, "a sign of life without content"),
    (waiting(EXTERNAL), tick(TickSubsystem.WAKE_HINT), LIVENESS, "a sign of life without content"),
    *(
        (waiting(OPERATOR), outside, LIVENESS, "only the operator ends a wait for the operator")
        for outside in (*map(message, OUTSIDE), tick(TickSubsystem.WAKE_HINT, hint_body=True))
    ),
    *(
        (
            waiting(reason),
            tick(TickSubsystem.WORK_QUEUE),
            LIVENESS,
            "no runnable work is behind the tick any more",
        )
        for reason in WaitingReason
    ),
    *(
        (waiting(EXTERNAL), news, EXPECTED, "there may be news of the awaited change")
        for news in (
            *map(message, OUTSIDE),
            tick(TickSubsystem.WAKE_HINT, hint_body=True),
            tick(TickSubsystem.WORK_ITEM_RECHECK),
        )
    ),
    *(
        (prior, content, LOCAL, "there is content to think about")
        for prior in (COMPLETED, FAILED, CONTINUABLE, NEW_AGENT, waiting(TASK), waiting(TIMER))
        for content in (*map(message, OUTSIDE), tick(TickSubsystem.WAKE_HINT, hint_body=True))
    ),
    (CONTINUABLE, tick(TickSubsystem.WORK_QUEUE), LOCAL, "there is content to think about"),
    (waiting(OPERATOR), tick(TickSubsystem.WORK_ITEM_RECHECK), LOCAL, "there is content to think about"),
    (waiting(OPERATOR), tick(TickSubsystem.TASK_RESTART), LOCAL, "there is content to think about"),
]

any_prior = st.one_of(
    st.sampled_from([COMPLETED, FAILED, CONTINUABLE]), st.builds(waiting, st.none() | st.sampled_from(WaitingReason))
)
any_body = st.builds(TextBody, text=st.text(max_size=8)) | st.builds(
    JsonBody, value=st.sampled_from([None, {}, {"a": 1}])
)
any_tick = st.builds(tick, st.sampled_from([*TickSubsystem, "other"]), body=any_body, hint_body=st.booleans())
any_message = any_tick | st.builds(
    message, st.sampled_from([kind for kind in MessageKind if kind is not MessageKind.SYSTEM_TICK]), body=any_body
)
any_resolution = st.builds(
    resolve, any_prior, any_message, contentful=st.none() | st.booleans(), terminal_task=st.booleans()
)


@pytest.mark.spec("RT-108", "RT-110", "RT-112", "RT-114", "RT-116")
@pytest.mark.parametrize(
    ("prior", "envelope", "class_", "evidence"),
    CASES,
    ids=[f"{case[0].waiting_reason or case[0].outcome}-{case[1].kind}-{case[3]}" for case in CASES],
)
def test_each_message_leads_where_the_closure_before_it_says(prior, envelope, class_, evidence):
    standing = f"waiting, {prior.waiting_reason}" if prior.waiting_reason else prior.outcome
    assert resolve(prior, envelope, terminal_task=True) == ContinuationResolution(
        trigger_kind=TRIGGERS[envelope.kind],
        class_=class_,
        model_visible=class_ is not LIVENESS,
        prior_closure_outcome=prior.outcome,
        prior_waiting_reason=prior.waiting_reason,
        matched_waiting_reason=class_ is EXPECTED,
        evidence=[evidence, f"message: {envelope.kind}", f"prior closure: {standing}"],
    )


def test_every_rule_has_a_case():
    shown = {(class_, evidence) for _, _, class_, evidence in CASES} | {(LIVENESS, "the task has not ended")}
    assert shown == {(rule.class_, rule.evidence) for rule in RULES}


@pytest.mark.parametrize("prior", [COMPLETED, waiting(TASK)], ids=["completed", "waiting for it"])
def test_a_task_that_has_not_ended_starts_nothing(prior):
    resolution = resolve(prior, message(MessageKind.TASK_RESULT), terminal_task=False)
    assert (resolution.class_, resolution.evidence[0]) == (LIVENESS, "the task has not ended")


@pytest.mark.spec("RT-108")
@given(any_prior, any_message, st.none() | st.booleans(), st.booleans())
def test_every_message_is_resolved_from_the_closure_before_it(prior, envelope, contentful, terminal):
    resolution = resolve(prior, envelope, contentful=contentful, terminal_task=terminal)
    assert resolution.trigger_kind is TRIGGERS[envelope.kind]
    assert resolution.prior_closure_outcome is prior.outcome
    assert resolution.prior_waiting_reason is prior.waiting_reason
    assert resolution.model_visible == (resolution.class_ is not LIVENESS)
    assert resolution.matched_waiting_reason == (resolution.class_ is EXPECTED)
    assert resolution.evidence


@given(any_prior, any_body, st.none() | st.booleans())
def test_operator_input_is_always_seen_by_the_model(prior, body, contentful):
    resolution = resolve(prior, message(MessageKind.OPERATOR_PROMPT, body=body), contentful=contentful)
    assert resolution.model_visible


@pytest.mark.spec("RT-116")
@given(any_resolution)
def test_only_operator_input_overrides_a_wait(resolution):
    if resolution.class_ is OVERRIDE:
        assert resolution.trigger_kind is TriggerKind.OPERATOR_INPUT
        assert resolution.prior_waiting_reason not in (None, OPERATOR)


@pytest.mark.spec("RT-116")
@given(
    st.builds(message, st.sampled_from(OUTSIDE), body=any_body)
    | st.builds(tick, st.just(TickSubsystem.WAKE_HINT), body=any_body, hint_body=st.booleans()),
    st.none() | st.booleans(),
)
def test_nothing_from_outside_gets_past_a_wait_for_the_operator(envelope, contentful):
    assert resolve(waiting(OPERATOR), envelope, contentful=contentful, terminal_task=True).class_ is LIVENESS


@pytest.mark.spec("RT-116")
@given(any_message, st.none() | st.booleans(), st.booleans())
def test_only_the_operator_ends_a_wait_for_the_operator(envelope, contentful, terminal):
    """What the agent's own schedule and tasks start meanwhile is local work: the wait stands."""
    resolution = resolve(waiting(OPERATOR), envelope, contentful=contentful, terminal_task=terminal)
    if envelope.kind is MessageKind.OPERATOR_PROMPT:
        assert resolution.class_ is EXPECTED
    else:
        assert resolution.class_ in (LOCAL, LIVENESS)


@pytest.mark.spec("RT-112")
@given(any_prior, st.sampled_from(OBSERVED), any_body, st.none() | st.booleans(), st.booleans())
def test_what_is_only_observed_never_starts_a_turn(prior, kind, body, contentful, terminal):
    envelope = message(kind, body=body)
    assert not resolve(prior, envelope, contentful=contentful, terminal_task=terminal).model_visible


@pytest.mark.spec("RT-113")
@given(any_prior, st.sampled_from([MessageKind.TIMER_TICK, MessageKind.INTERNAL_FOLLOWUP]), any_body)
def test_timers_and_follow_ups_are_seen_whatever_stood_before(prior, kind, body):
    """No rule asks for the timer's record, so a tick whose timer is gone goes on as well."""
    assert resolve(prior, message(kind, body=body)).model_visible


@given(any_prior)
def test_the_result_of_a_task_that_has_ended_is_never_lost(prior):
    assert resolve(prior, message(MessageKind.TASK_RESULT), terminal_task=True).model_visible


@pytest.mark.spec("RT-114", "RT-115")
@given(any_prior, any_body)
def test_a_plain_wake_hint_is_a_sign_of_life_whatever_its_tick_lists(prior, body):
    assert resolve(prior, tick(TickSubsystem.WAKE_HINT, body=body, hint_body=False)).class_ is LIVENESS
    assert resolve(prior, message(MessageKind.SYSTEM_TICK, subsystem="wake_hint", body=body)).class_ is LIVENESS


@pytest.mark.spec("RT-115")
def test_a_wake_hint_with_a_payload_is_seen_by_the_model():
    assert resolve(COMPLETED, tick(TickSubsystem.WAKE_HINT, hint_body=True)).model_visible
    assert resolve(waiting(EXTERNAL), tick(TickSubsystem.WAKE_HINT, hint_body=True)).matched_waiting_reason


@pytest.mark.spec("RT-114")
def test_a_tick_for_runnable_work_leads_on_to_it():
    assert resolve(CONTINUABLE, tick(TickSubsystem.WORK_QUEUE)).class_ is LOCAL


@pytest.mark.spec("RT-117")
@given(any_prior, any_tick, st.none() | st.booleans())
def test_a_system_tick_has_one_of_three_classes(prior, envelope, contentful):
    assert resolve(prior, envelope, contentful=contentful).class_ in (LIVENESS, LOCAL, EXPECTED)


@given(any_message, st.none() | st.booleans(), st.booleans())
def test_an_agent_that_failed_or_is_new_takes_what_a_completed_one_takes(envelope, contentful, terminal):
    classes = {
        resolve(prior, envelope, contentful=contentful, terminal_task=terminal).class_
        for prior in (COMPLETED, FAILED, NEW_AGENT)
    }
    assert len(classes) == 1


@pytest.mark.spec("RT-109")
def test_the_closure_before_dispatch_decides_and_not_the_marker_of_the_run():
    """Dispatch marks the agent as running. The facts before it, in whatever status, give the same resolution."""

    def prior(status: AgentStatus) -> ClosureDecision:
        return decide_closure(
            ClosureFacts(
                status=status,
                runtime_error_active=False,
                turn_in_progress=False,
                last_terminal=TerminalKind.COMPLETED,
                ever_started=True,
            )
        )

    for kind in (MessageKind.INTERNAL_FOLLOWUP, MessageKind.TIMER_TICK):
        before, marked = (
            resolve(prior(status), message(kind)) for status in (AgentStatus.ASLEEP, AgentStatus.AWAKE_RUNNING)
        )
        assert before == marked
        assert before.model_visible


@given(any_message.filter(lambda envelope: envelope.origin != SystemOrigin(subsystem="wake_hint")))
def test_any_message_but_a_wake_hint_tick_is_as_contentful_as_its_body(envelope):
    assert resolve(COMPLETED, envelope) == resolve(COMPLETED, envelope, contentful=envelope.contentful)
