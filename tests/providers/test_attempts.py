"""Retry, fallback and the timeline: real rounds of the scripted model, with time that stands still."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.core.clock import ManualClock
from holon.core.codec import to_plain
from holon.core.conversation import TextBlock, UserText
from holon.core.errors import DeveloperError
from holon.core.prompts import PromptFrame
from holon.core.usage import TokenUsage
from holon.providers.attempts import (
    Candidate,
    Disposition,
    Rejected,
    RetryPolicy,
    RoundOutcome,
    Step,
    Usable,
    Verdict,
    judge,
    retry_delay_ms,
    run_round,
)
from holon.providers.contract import (
    AttemptOutcome,
    FailureKind,
    OnProgress,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    RoundFailed,
    StopReason,
)
from holon.providers.scripted import ScriptedProvider

RETRYABLE = [FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.RATE_LIMITED, FailureKind.SERVER_ERROR]
FAIL_FAST = [kind for kind in FailureKind if kind not in RETRYABLE]
SPEAKS = "rules: [{rounds: [{text: fine, usage: {input_tokens: 10, output_tokens: 1}}]}]"


class HandMovedTime:
    """Sleeping moves this clock and takes no time: what is waited can be read off it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slept_ms: list[int] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_ms.append(round(seconds * 1000))
        self.clock.move(self.slept_ms[-1])

    def ticks(self) -> float:
        return self.clock.now_ms() / 1000


def request(model: str = "scripted/a") -> ProviderRequest:
    return ProviderRequest(
        agent_id="main",
        turn_id="turn_1",
        round=1,
        model=model,
        frame=PromptFrame(),
        conversation=[UserText(text="hello")],
    )


def failing(**fail: object) -> str:
    fields = ", ".join(f"{key}: {value}" for key, value in fail.items())
    return f"rules: [{{rounds: [{{text: fine, usage: none, fail: {{{fields}}}}}]}}]"


def candidates(time: HandMovedTime, /, **scripts: str) -> list[Candidate]:
    provider = ScriptedProvider(scripts=scripts, sleep=time.sleep)
    return [Usable(f"scripted/{name}", provider) for name in scripts]


async def play(time: HandMovedTime, among: list[Candidate], policy: RetryPolicy | None = None) -> RoundOutcome:
    return await run_round(
        request(among[0].model_ref),
        among,
        policy=policy or RetryPolicy(),
        sleep=time.sleep,
        now=time.clock.now_ms,
        ticks=time.ticks,
        jitter=lambda: 0.5,
    )


def course(timeline_of: RoundOutcome | RoundFailed) -> list[tuple[str, int, AttemptOutcome, bool]]:
    attempts = timeline_of.timeline.attempts
    return [(each.model_ref, each.attempt, each.outcome, each.advanced_to_fallback) for each in attempts]


def diagnostics(outcome: RoundOutcome) -> dict[str, Any]:
    """What the first attempt's record says of its failure."""
    return outcome.timeline.attempts[0].transport_diagnostics or {}


@pytest.mark.spec("RT-173")
@pytest.mark.parametrize(
    "fail",
    [
        *({"kind": kind.value} for kind in RETRYABLE),
        *({"status": status} for status in (429, 500, 502, 503, 504, 520, 524, 529)),
    ],
)
async def test_a_passing_failure_is_retried_twice_on_the_same_provider_before_any_fallback(fail):
    time = HandMovedTime()
    outcome = await play(time, candidates(time, a=failing(**fail), b=SPEAKS))
    assert course(outcome) == [
        ("scripted/a", 1, AttemptOutcome.RETRYING, False),
        ("scripted/a", 2, AttemptOutcome.RETRYING, False),
        ("scripted/a", 3, AttemptOutcome.RETRIES_EXHAUSTED, True),
        ("scripted/b", 1, AttemptOutcome.SUCCEEDED, False),
    ]


@pytest.mark.spec("RT-174", "RT-176")
@pytest.mark.parametrize(
    "fail",
    [
        *({"status": status} for status in (400, 401, 403, 404, 409, 422, 501)),
        *({"kind": kind.value} for kind in FAIL_FAST if kind is not FailureKind.CONTEXT_LENGTH_EXCEEDED),
    ],
)
async def test_a_lasting_failure_is_not_retried_and_leaves_only_that_candidate(fail):
    time = HandMovedTime()
    outcome = await play(time, candidates(time, a=failing(**fail), b=SPEAKS))
    assert course(outcome) == [
        ("scripted/a", 1, AttemptOutcome.FAIL_FAST_ABORTED, True),
        ("scripted/b", 1, AttemptOutcome.SUCCEEDED, False),
    ]
    assert outcome.response.blocks == [TextBlock(text="fine")]
    assert time.slept_ms == []


async def test_a_conversation_that_is_too_long_is_neither_retried_nor_tried_elsewhere():
    time = HandMovedTime()
    with pytest.raises(RoundFailed) as failed:
        await play(time, candidates(time, a=failing(kind="context_length_exceeded"), b=SPEAKS))
    assert course(failed.value) == [("scripted/a", 1, AttemptOutcome.FAIL_FAST_ABORTED, False)]
    assert failed.value.last.kind is FailureKind.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.spec("RT-175", "RT-179", "RT-182")
async def test_the_timeline_of_a_success_keeps_the_failures_before_it_and_names_the_winner():
    time = HandMovedTime()
    outcome = await play(time, candidates(time, a=failing(status=503), b=failing(status=429, times=1)))
    assert course(outcome) == [
        ("scripted/a", 1, AttemptOutcome.RETRYING, False),
        ("scripted/a", 2, AttemptOutcome.RETRYING, False),
        ("scripted/a", 3, AttemptOutcome.RETRIES_EXHAUSTED, True),
        ("scripted/b", 1, AttemptOutcome.RETRYING, False),
        ("scripted/b", 2, AttemptOutcome.SUCCEEDED, False),
    ]
    timeline = outcome.timeline
    assert (timeline.requested_model_ref, timeline.active_model_ref, timeline.winning_model_ref) == (
        "scripted/a",
        "scripted/b",
        "scripted/b",
    )


@pytest.mark.spec("RT-177", "RT-179")
async def test_when_all_candidates_fail_the_error_says_where_retries_were_used_up_and_keeps_every_attempt():
    time = HandMovedTime()
    among = candidates(time, a=failing(status=503), b=failing(status=401, message="bad key"))
    with pytest.raises(RoundFailed) as failed:
        await play(time, among)
    assert failed.value.message == (
        "no model answered [scripted/a: server_error, retries exhausted (attempt 3 of 3);"
        " scripted/b: auth_error, not retried (attempt 1 of 3)]; the last failure: bad key"
    )
    assert course(failed.value) == [
        ("scripted/a", 1, AttemptOutcome.RETRYING, False),
        ("scripted/a", 2, AttemptOutcome.RETRYING, False),
        ("scripted/a", 3, AttemptOutcome.RETRIES_EXHAUSTED, True),
        ("scripted/b", 1, AttemptOutcome.FAIL_FAST_ABORTED, False),
    ]
    timeline = failed.value.timeline
    assert (timeline.active_model_ref, timeline.winning_model_ref) == ("scripted/b", None)
    assert failed.value.__cause__ is failed.value.last


@pytest.mark.spec("RT-180", "RT-181", "RT-183")
async def test_attempt_records_have_all_their_fields_and_waiting_is_no_part_of_their_duration():
    time = HandMovedTime()
    script = "rules: [{rounds: [{text: fine, delay_ms: 40, usage: none, fail: {status: 503, times: 2}}]}]"
    outcome = await play(time, candidates(time, a=script))
    findings = {
        "stage": "response",
        "provider": "scripted",
        "model_ref": "scripted/a",
        "source_chain": ["the script says that this attempt fails"],
        "status": 503,
    }
    always = {"provider": "scripted", "model_ref": "scripted/a", "max_attempts": 3, "advanced_to_fallback": False}
    failed = {"failure_kind": "server_error", "disposition": "retryable", "transport_diagnostics": findings}
    assert to_plain(outcome.timeline.attempts) == [
        {
            **always,
            **failed,
            "attempt": 1,
            "outcome": "retrying",
            "started_at": "2026-01-01T00:00:00.000Z",
            "completed_at": "2026-01-01T00:00:00.040Z",
            "duration_ms": 40.0,
            "backoff_ms": 100,
        },
        {
            **always,
            **failed,
            "attempt": 2,
            "outcome": "retrying",
            "started_at": "2026-01-01T00:00:00.140Z",
            "completed_at": "2026-01-01T00:00:00.180Z",
            "duration_ms": 40.0,
            "backoff_ms": 200,
        },
        {
            **always,
            "attempt": 3,
            "outcome": "succeeded",
            "started_at": "2026-01-01T00:00:00.380Z",
            "completed_at": "2026-01-01T00:00:00.420Z",
            "duration_ms": 40.0,
        },
    ]
    assert time.slept_ms == [40, 100, 40, 200, 40]


@pytest.mark.spec("RT-185")
async def test_usage_is_kept_with_the_attempt_that_reported_it_and_summed_over_the_round():
    time = HandMovedTime()
    billed = failing(status=401, usage="{input_tokens: 7, output_tokens: 2}")
    outcome = await play(time, candidates(time, a=billed, b=failing(status=404), c=SPEAKS))
    assert [each.token_usage for each in outcome.timeline.attempts] == [
        TokenUsage.of(7, 2),
        None,
        TokenUsage.of(10, 1),
    ]
    assert outcome.timeline.aggregated_token_usage == TokenUsage.of(17, 3)


async def test_a_round_without_reported_usage_has_no_sum_instead_of_a_zero():
    time = HandMovedTime()
    outcome = await play(time, candidates(time, a=failing(status=503, times=1)))
    assert outcome.timeline.aggregated_token_usage is None


async def test_retry_after_is_waited_exactly():
    time = HandMovedTime()
    await play(time, candidates(time, a=failing(status=429, retry_after_ms=1234, times=2)))
    assert time.slept_ms == [1234, 1234]


async def test_a_service_that_asks_for_too_long_a_wait_is_left_and_not_asked_again():
    time = HandMovedTime()
    outcome = await play(time, candidates(time, a=failing(status=429, retry_after_ms=3_600_000), b=SPEAKS))
    assert course(outcome) == [
        ("scripted/a", 1, AttemptOutcome.RETRIES_EXHAUSTED, True),
        ("scripted/b", 1, AttemptOutcome.SUCCEEDED, False),
    ]
    assert diagnostics(outcome)["retry_after_ms"] == 3_600_000
    assert time.slept_ms == []


async def test_a_rejected_candidate_is_on_the_timeline_as_one_to_which_nothing_was_sent():
    time = HandMovedTime()
    rejected = Rejected("acme/x", ProviderFailure(FailureKind.UNSUPPORTED_TRANSPORT, "acme speaks carrier pigeon"))
    outcome = await play(time, [rejected, *candidates(time, a=SPEAKS)])
    assert to_plain(outcome.timeline.attempts[0]) == {
        "provider": "acme",
        "model_ref": "acme/x",
        "attempt": 1,
        "max_attempts": 1,
        "outcome": "fail_fast_aborted",
        "advanced_to_fallback": True,
        "failure_kind": "unsupported_transport",
        "disposition": "fail_fast",
        "transport_diagnostics": {
            "stage": "candidate_selection",
            "provider": "acme",
            "model_ref": "acme/x",
            "source_chain": ["acme speaks carrier pigeon"],
        },
    }
    assert outcome.timeline.winning_model_ref == "scripted/a"


async def test_an_attempt_that_outlasts_its_limit_is_a_timeout():
    provider = ScriptedProvider(scripts={"a": "rules: [{rounds: [{text: late, delay_ms: 3600000}]}]"})
    with pytest.raises(RoundFailed) as failed:
        await run_round(request(), [Usable("scripted/a", provider)], timeout_ms=1, policy=RetryPolicy(max_retries=0))
    (attempt,) = failed.value.timeline.attempts
    assert (attempt.failure_kind, attempt.disposition) == (FailureKind.TIMEOUT, Disposition.RETRYABLE)
    assert failed.value.last.message == "scripted/a did not answer within 1 ms"


@pytest.mark.parametrize("moment", ["while the model thinks", "while a retry waits"])
async def test_a_cancellation_goes_through_untouched(moment):
    waiting = asyncio.Event()

    async def wait_for_ever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    thinks = moment == "while the model thinks"
    script = "rules: [{rounds: [{text: late, delay_ms: 1}]}]" if thinks else failing(status=503)
    among: list[Candidate] = [Usable("scripted/a", ScriptedProvider(scripts={"a": script}, sleep=wait_for_ever))]
    task = asyncio.create_task(run_round(request(), among, sleep=wait_for_ever))
    await asyncio.wait_for(waiting.wait(), 10)
    task.cancel("abort")
    with pytest.raises(asyncio.CancelledError, match="abort"):
        await task
    assert task.cancelled()


async def test_each_candidate_is_sent_its_own_model_and_the_whole_conversation():
    time = HandMovedTime()
    heard: list[ProviderRequest] = []
    await play(time, [Usable("x/a", Playing(["auth_error"], heard)), Usable("y/b", Playing([], heard))])
    assert [each.model for each in heard] == ["x/a", "y/b"]
    assert {each.conversation[0] for each in heard} == {UserText(text="hello")}


async def test_progress_reaches_the_listener():
    pieces: list[str] = []
    provider = ScriptedProvider(scripts={"a": "rules: [{rounds: [{stream: [one , two]}]}]"})
    await run_round(request(), [Usable("scripted/a", provider)], on_progress=lambda piece: pieces.append(piece.text))
    assert pieces == ["one", "two"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("slow"), FailureKind.TIMEOUT),
        (ConnectionResetError("gone"), FailureKind.CONNECTION),
        (KeyError("choices"), FailureKind.UNKNOWN),
    ],
)
async def test_an_error_that_a_transport_did_not_expect_ends_one_attempt_and_not_the_turn(error, kind):
    time = HandMovedTime()
    outcome = await play(
        time,
        [Usable("x/a", Raising(error)), Usable("y/b", Playing([], []))],
        RetryPolicy(max_retries=0),
    )
    first = outcome.timeline.attempts[0]
    assert (first.failure_kind, outcome.timeline.winning_model_ref) == (kind, "y/b")
    assert diagnostics(outcome)["source_chain"][1] == f"{type(error).__name__}: {error}"


async def test_a_round_without_candidates_is_a_defect_of_the_caller():
    with pytest.raises(DeveloperError, match="at least one candidate"):
        await run_round(request(), [])


@pytest.mark.parametrize(
    ("kind", "attempt", "has_fallback", "expected"),
    [
        (FailureKind.SERVER_ERROR, 1, True, Verdict(AttemptOutcome.RETRYING, Step.RETRY, 100)),
        (FailureKind.SERVER_ERROR, 2, False, Verdict(AttemptOutcome.RETRYING, Step.RETRY, 200)),
        (FailureKind.SERVER_ERROR, 3, True, Verdict(AttemptOutcome.RETRIES_EXHAUSTED, Step.FALLBACK)),
        (FailureKind.SERVER_ERROR, 3, False, Verdict(AttemptOutcome.RETRIES_EXHAUSTED, Step.GIVE_UP)),
        (FailureKind.AUTH_ERROR, 1, True, Verdict(AttemptOutcome.FAIL_FAST_ABORTED, Step.FALLBACK)),
        (FailureKind.AUTH_ERROR, 1, False, Verdict(AttemptOutcome.FAIL_FAST_ABORTED, Step.GIVE_UP)),
        (FailureKind.CONTEXT_LENGTH_EXCEEDED, 1, True, Verdict(AttemptOutcome.FAIL_FAST_ABORTED, Step.GIVE_UP)),
    ],
)
def test_what_a_failure_leads_to(kind, attempt, has_fallback, expected):
    failure = ProviderFailure(kind, "no")
    assert judge(failure, attempt, policy=RetryPolicy(), has_fallback=has_fallback, jitter=0.5) == expected


@given(
    attempt=st.integers(1, 200),
    retry_after_ms=st.none() | st.integers(-10, 200_000),
    jitter=st.floats(0, 1, exclude_max=True),
    policy=st.builds(
        RetryPolicy,
        max_retries=st.integers(0, 200),
        base_ms=st.integers(0, 1_000),
        cap_ms=st.integers(0, 20_000),
        retry_after_cap_ms=st.integers(0, 100_000),
    ),
)
def test_a_delay_is_what_was_asked_for_or_a_part_of_a_bound_that_doubles(attempt, retry_after_ms, jitter, policy):
    delay = retry_delay_ms(policy, attempt, retry_after_ms, jitter)
    if attempt > policy.max_retries or (retry_after_ms or 0) > policy.retry_after_cap_ms:
        assert delay is None
    elif retry_after_ms is not None:
        assert delay == max(0, retry_after_ms)
    else:
        assert delay is not None
        assert 0 <= delay <= min(policy.cap_ms, policy.base_ms * 2 ** (attempt - 1))


def test_full_jitter_reaches_both_ends_of_its_bound():
    policy = RetryPolicy()
    assert [retry_delay_ms(policy, attempt, None, 0.0) for attempt in (1, 2, 3)] == [0, 0, None]
    assert [retry_delay_ms(policy, attempt, None, 0.999) for attempt in (1, 2, 3)] == [199, 399, None]


class Playing:
    """A transport that fails in the given ways, one an attempt, and then answers."""

    name = "playing"

    def __init__(self, failures: list[str], heard: list[ProviderRequest]) -> None:
        self._failures = list(failures)
        self._heard = heard

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        self._heard.append(request)
        if self._failures:
            raise ProviderFailure(FailureKind(self._failures.pop(0)), "as told", usage=TokenUsage.of(1, 0))
        return ProviderResponse(blocks=[], stop_reason=StopReason.END_TURN, usage=TokenUsage.of(1, 1))


class Raising:
    name = "raising"

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        raise self._error


@pytest.mark.spec("RT-179", "RT-181")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from([kind.value for kind in FailureKind]), max_size=4), min_size=1, max_size=4))
def test_whatever_fails_the_timeline_tells_the_whole_round(failures):
    time = HandMovedTime()
    heard: list[ProviderRequest] = []
    among: list[Candidate] = [Usable(f"p/{n}", Playing(each, heard)) for n, each in enumerate(failures)]
    try:
        outcome: RoundOutcome | RoundFailed = asyncio.run(play(time, among))
    except RoundFailed as failed:
        outcome = failed
    attempts = outcome.timeline.attempts

    assert [each.model_ref for each in attempts] == [each.model for each in heard], "one record for each request"
    assert all(each.attempt <= each.max_attempts == 3 for each in attempts)
    assert time.slept_ms == [each.backoff_ms for each in attempts if each.outcome is AttemptOutcome.RETRYING]
    switches = [a.model_ref != b.model_ref for a, b in pairwise(attempts)]
    assert [each.advanced_to_fallback for each in attempts] == [*switches, False]
    for each, follower in pairwise(attempts):
        assert (each.outcome is AttemptOutcome.RETRYING) == (each.model_ref == follower.model_ref)
    succeeded = [each.model_ref for each in attempts if each.outcome is AttemptOutcome.SUCCEEDED]
    assert succeeded == ([attempts[-1].model_ref] if isinstance(outcome, RoundOutcome) else [])
    assert outcome.timeline.winning_model_ref == (succeeded[0] if succeeded else None)
    assert outcome.timeline.aggregated_token_usage == TokenUsage.of(len(attempts), len(succeeded))
    too_long = [each for each in attempts if each.failure_kind is FailureKind.CONTEXT_LENGTH_EXCEEDED]
    assert too_long in ([], attempts[-1:])
    if isinstance(outcome, RoundFailed):
        assert too_long or attempts[-1].model_ref == among[-1].model_ref
