"""Attempts: how one round comes to an answer. Retry inside a candidate, then the next candidate, all on a timeline.

`judge` and `retry_delay_ms` decide and are pure; `run_round` sends, measures and waits. A provider makes one attempt
and knows nothing of the others.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from itertools import count
from typing import Annotated, Any

import msgspec

from holon.core.clock import SystemClock, iso
from holon.core.codec import Record
from holon.core.errors import DeveloperError
from holon.core.usage import TokenUsage
from holon.core.values import Value
from holon.providers.contract import (
    AttemptOutcome,
    AttemptRecord,
    AttemptTimeline,
    FailureKind,
    OnProgress,
    Provider,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    RoundFailed,
)
from holon.providers.failures import failure_of, source_chain

DEFAULT_TIMEOUT_MS = 600_000
_CLOCK = SystemClock()


class RetryPolicy(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How often and how long one candidate is tried."""

    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 2
    #: The first wait is at most this long, each further one twice as long …
    base_ms: Annotated[int, msgspec.Meta(ge=0)] = 200
    #: … up to here.
    cap_ms: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    #: A service that asks for a longer wait is left for this round, never asked again too early.
    retry_after_cap_ms: Annotated[int, msgspec.Meta(ge=0)] = 60_000

    @property
    def max_attempts(self) -> int:
        return self.max_retries + 1


DEFAULT_POLICY = RetryPolicy()


class Usable(Value, frozen=True):
    """A candidate that can be asked."""

    model_ref: str
    provider: Provider


class Rejected(Value, frozen=True):
    """A candidate that selection refused. Nothing is sent to it; the timeline says why."""

    model_ref: str
    reason: ProviderFailure


Candidate = Usable | Rejected


class RoundOutcome(Record, frozen=True, kw_only=True):
    response: ProviderResponse
    timeline: AttemptTimeline


class Disposition(StrEnum):
    RETRYABLE = "retryable"
    FAIL_FAST = "fail_fast"


class Step(StrEnum):
    """What follows an attempt."""

    ANSWER = "answer"
    RETRY = "retry"
    FALLBACK = "fallback"
    GIVE_UP = "give_up"


class Verdict(Value, frozen=True):
    outcome: AttemptOutcome
    step: Step
    backoff_ms: int | None = None


async def run_round(
    request: ProviderRequest,
    candidates: list[Candidate],
    *,
    policy: RetryPolicy = DEFAULT_POLICY,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    on_progress: OnProgress | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    now: Callable[[], int] = _CLOCK.now_ms,
    ticks: Callable[[], float] = time.perf_counter,
    jitter: Callable[[], float] = random.random,
) -> RoundOutcome:
    """The first answer that a candidate gives, or `RoundFailed`; both with every attempt that was made.

    `timeout_ms` is for each attempt. `now` dates an attempt and `ticks` (seconds) measures it, so that a clock which is
    set while a model thinks does not change how long it took. A cancellation goes through at once.
    """
    if not candidates:
        raise DeveloperError("a round needs at least one candidate", hint="pass what Providers.candidates returns")
    attempts: list[AttemptRecord] = []
    for position, candidate in enumerate(candidates):
        has_fallback = position + 1 < len(candidates)
        for attempt in count(1):
            tried = await _try(candidate, request, timeout_ms, on_progress, now, ticks)
            if isinstance(tried.answer, ProviderResponse):
                attempts.append(_record(candidate, attempt, policy, tried, _ANSWERED))
                return RoundOutcome(response=tried.answer, timeline=timeline_of(request.model, attempts))
            failure = tried.answer
            if isinstance(candidate, Rejected):
                verdict = _refused(has_fallback)
            else:
                verdict = judge(failure, attempt, policy=policy, has_fallback=has_fallback, jitter=jitter())
            attempts.append(_record(candidate, attempt, policy, tried, verdict))
            if verdict.step is Step.RETRY:
                await sleep((verdict.backoff_ms or 0) / 1000)
                continue
            if verdict.step is Step.FALLBACK:
                break
            timeline = timeline_of(request.model, attempts)
            raise RoundFailed(summary_of(timeline, failure), last=failure, timeline=timeline) from failure
    raise AssertionError("the last candidate answers or gives up")


def judge(failure: ProviderFailure, attempt: int, *, policy: RetryPolicy, has_fallback: bool, jitter: float) -> Verdict:
    """What a failed attempt (the first is 1) leads to. `jitter` is a number in [0, 1)."""
    if failure.kind is FailureKind.CONTEXT_LENGTH_EXCEEDED:  # decisions 18: another model would not save the turn
        return Verdict(AttemptOutcome.FAIL_FAST_ABORTED, Step.GIVE_UP)
    if not failure.kind.retryable:
        return _refused(has_fallback)
    delay = retry_delay_ms(policy, attempt, failure.retry_after_ms, jitter)
    if delay is None:
        return Verdict(AttemptOutcome.RETRIES_EXHAUSTED, Step.FALLBACK if has_fallback else Step.GIVE_UP)
    return Verdict(AttemptOutcome.RETRYING, Step.RETRY, delay)


def retry_delay_ms(policy: RetryPolicy, attempt: int, retry_after_ms: int | None, jitter: float) -> int | None:
    """How long to wait after a failed attempt (the first is 1) before the next; `None` if there is to be none.

    What the service asks for is honoured to the millisecond; else the wait is a random part (full jitter) of a bound
    that doubles.
    """
    if attempt >= policy.max_attempts:
        return None
    if retry_after_ms is not None:
        return max(0, retry_after_ms) if retry_after_ms <= policy.retry_after_cap_ms else None
    doublings = min(attempt - 1, 32)  # beyond any cap, and still a small number
    return int(jitter * min(policy.cap_ms, policy.base_ms * 2**doublings))


def timeline_of(requested_model_ref: str, attempts: list[AttemptRecord]) -> AttemptTimeline:
    """The attempts in order, with what they come to."""
    winners = [attempt.model_ref for attempt in attempts if attempt.outcome is AttemptOutcome.SUCCEEDED]
    usages = [attempt.token_usage for attempt in attempts if attempt.token_usage is not None]
    return AttemptTimeline(
        attempts=attempts,
        requested_model_ref=requested_model_ref,
        active_model_ref=attempts[-1].model_ref if attempts else None,
        winning_model_ref=winners[-1] if winners else None,
        aggregated_token_usage=sum(usages, TokenUsage()) if usages else None,
    )


def summary_of(timeline: AttemptTimeline, last: ProviderFailure) -> str:
    """The whole round in one sentence: where each candidate ended, and the last failure's own words."""
    ends = [attempt for attempt in timeline.attempts if attempt.outcome is not AttemptOutcome.RETRYING]
    told = "; ".join(
        f"{end.model_ref}: {end.failure_kind}, {_ENDINGS[end.outcome]} (attempt {end.attempt} of {end.max_attempts})"
        for end in ends
    )
    return f"no model answered [{told}]; the last failure: {last.message[:_MESSAGE_CHARS]}"


_ANSWERED = Verdict(AttemptOutcome.SUCCEEDED, Step.ANSWER)
_ENDINGS = {
    AttemptOutcome.RETRIES_EXHAUSTED: "retries exhausted",
    AttemptOutcome.FAIL_FAST_ABORTED: "not retried",
}
_MESSAGE_CHARS = 400


class _Tried(Value, frozen=True):
    answer: ProviderResponse | ProviderFailure
    #: `None` where nothing was sent.
    started_ms: int | None = None
    duration_ms: float | None = None


async def _try(
    candidate: Candidate,
    request: ProviderRequest,
    timeout_ms: int,
    on_progress: OnProgress | None,
    now: Callable[[], int],
    ticks: Callable[[], float],
) -> _Tried:
    if isinstance(candidate, Rejected):
        return _Tried(candidate.reason)
    request = msgspec.structs.replace(request, model=candidate.model_ref)
    started_ms, started = now(), ticks()
    answer = await _answer(candidate.provider, request, timeout_ms, on_progress)
    return _Tried(answer, started_ms, round((ticks() - started) * 1000, 3))


async def _answer(
    provider: Provider, request: ProviderRequest, timeout_ms: int, on_progress: OnProgress | None
) -> ProviderResponse | ProviderFailure:
    try:
        async with asyncio.timeout(timeout_ms / 1000) as limit:
            return await provider.respond(request, on_progress)
    except Exception as error:  # a defect in one transport must not cost the turn its fallback
        if isinstance(error, TimeoutError) and limit.expired():
            return ProviderFailure(
                FailureKind.TIMEOUT,
                f"{request.model} did not answer within {timeout_ms} ms",
                diagnostics={"stage": "response", "timeout_ms": timeout_ms},
            )
        return failure_of(error)


def _refused(has_fallback: bool) -> Verdict:
    return Verdict(AttemptOutcome.FAIL_FAST_ABORTED, Step.FALLBACK if has_fallback else Step.GIVE_UP)


def _record(candidate: Candidate, attempt: int, policy: RetryPolicy, tried: _Tried, verdict: Verdict) -> AttemptRecord:
    started, took = tried.started_ms, tried.duration_ms
    failure = tried.answer if isinstance(tried.answer, ProviderFailure) else None
    return AttemptRecord(
        provider=_provider_name(candidate),
        model_ref=candidate.model_ref,
        attempt=attempt,
        max_attempts=1 if isinstance(candidate, Rejected) else policy.max_attempts,
        outcome=verdict.outcome,
        advanced_to_fallback=verdict.step is Step.FALLBACK,
        started_at=None if started is None else iso(started),
        completed_at=None if started is None or took is None else iso(started + round(took)),
        duration_ms=took,
        failure_kind=failure.kind if failure else None,
        disposition=_disposition(candidate, failure) if failure else None,
        backoff_ms=verdict.backoff_ms,
        token_usage=tried.answer.usage,
        transport_diagnostics=_diagnostics(candidate, failure) if failure else None,
    )


def _provider_name(candidate: Candidate) -> str:
    return candidate.model_ref.partition("/")[0]


def _stage(candidate: Candidate, failure: ProviderFailure) -> str:
    if isinstance(candidate, Rejected):
        return "candidate_selection"
    return "request" if failure.http_status is None else "response"


def _disposition(candidate: Candidate, failure: ProviderFailure) -> Disposition:
    retryable = failure.kind.retryable and not isinstance(candidate, Rejected)
    return Disposition.RETRYABLE if retryable else Disposition.FAIL_FAST


def _diagnostics(candidate: Candidate, failure: ProviderFailure) -> dict[str, Any]:
    """What is known about the failure, for records; the transport's own findings win."""
    known: dict[str, Any] = {
        "stage": _stage(candidate, failure),
        "provider": _provider_name(candidate),
        "model_ref": candidate.model_ref,
        "source_chain": [failure.message[:_MESSAGE_CHARS], *source_chain(failure)],
    }
    if failure.http_status is not None:
        known["status"] = failure.http_status
    if failure.retry_after_ms is not None:
        known["retry_after_ms"] = failure.retry_after_ms
    return known | (failure.diagnostics or {})
