"""Which kind a failure is, and the artifact that an operator gets."""

import json
from enum import StrEnum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import dumps, loads, to_plain
from holon.core.errors import AgentStopped, HolonError, StoreUnavailable
from holon.core.failures import METADATA_CHARS, SUMMARY_CHARS, FailureArtifact, FailureCategory
from holon.core.prompts import PromptFrame
from holon.providers.attempts import Rejected, Usable, run_round
from holon.providers.contract import (
    AttemptOutcome,
    AttemptRecord,
    AttemptTimeline,
    FailureKind,
    ProviderFailure,
    ProviderRequest,
    RoundFailed,
)
from holon.providers.failures import CATEGORIES, WORDS, artifact_of, failure_of, kind_of_status
from holon.providers.scripted import ScriptedProvider

ELIGIBLE_5XX = {500, 502, 503, 504, *range(520, 530)}


@given(st.integers(100, 999))
def test_every_status_has_the_kind_that_the_decisions_give_it(status):
    if status == 429:
        expected = FailureKind.RATE_LIMITED
    elif status in ELIGIBLE_5XX:
        expected = FailureKind.SERVER_ERROR
    elif status in (401, 403):
        expected = FailureKind.AUTH_ERROR
    elif status // 100 == 4:
        expected = FailureKind.CONTRACT_ERROR
    else:
        expected = FailureKind.UNKNOWN
    assert kind_of_status(status) is expected
    assert kind_of_status(status).retryable == (status == 429 or status in ELIGIBLE_5XX)


@pytest.mark.parametrize("table", [CATEGORIES, WORDS])
def test_no_kind_is_missing_from_a_table(table: dict[StrEnum, object]):
    assert set(table) == set(FailureKind)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), FailureKind.TIMEOUT),
        (ConnectionRefusedError("no"), FailureKind.CONNECTION),
        (msgspec.DecodeError("JSON is malformed"), FailureKind.INVALID_RESPONSE),
        (msgspec.ValidationError("Expected `list`"), FailureKind.INVALID_RESPONSE),
        (json.JSONDecodeError("no", "", 0), FailureKind.INVALID_RESPONSE),
        (FileNotFoundError("no"), FailureKind.UNKNOWN),
        (ZeroDivisionError("rate limited, timeout, 503"), FailureKind.UNKNOWN),
    ],
)
def test_a_kind_is_found_by_the_type_of_an_error_and_never_by_its_words(error, kind):
    failure = failure_of(error)
    assert failure.kind is kind
    assert failure.__cause__ is error


def test_a_provider_failure_is_taken_as_it_is():
    failure = ProviderFailure(FailureKind.RATE_LIMITED, "slow down")
    assert failure_of(failure) is failure


async def failed_round(script: str) -> RoundFailed:
    """A round that really failed, first at a candidate that nobody can speak to."""
    rejected = Rejected("acme/x", ProviderFailure(FailureKind.UNSUPPORTED_TRANSPORT, "no such transport"))
    provider = ScriptedProvider(scripts={"a": script})
    request = ProviderRequest(
        agent_id="main", turn_id="turn_1", round=1, model="acme/x", frame=PromptFrame(), conversation=[]
    )
    with pytest.raises(RoundFailed) as failed:
        await run_round(request, [rejected, Usable("scripted/a", provider)])
    return failed.value


@pytest.mark.spec("RT-195")
async def test_a_failed_round_is_one_artifact_that_says_what_happened_and_what_to_do():
    error = await failed_round("rules: [{rounds: [{fail: {status: 401, message: key expired, retry_after_ms: 5}}]}]")
    artifact = artifact_of(error)
    assert to_plain(artifact) == {
        "category": "transport",
        "kind": "auth_error",
        "summary": "the model's service refused the credentials (key expired): check the provider's key",
        "provider": "scripted",
        "model_ref": "scripted/a",
        "status": 401,
        "source_chain": ["ProviderFailure: key expired"],
        "metadata": {
            "retry_after_ms": "5",
            "outcome": "fail_fast_aborted",
            "attempts": "2",
            "tried": "acme/x, scripted/a",
        },
    }
    assert loads(dumps(artifact), FailureArtifact) == artifact


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        (FailureKind.TIMEOUT, "transport"),
        (FailureKind.CONNECTION, "transport"),
        (FailureKind.RATE_LIMITED, "transport"),
        (FailureKind.SERVER_ERROR, "transport"),
        (FailureKind.AUTH_ERROR, "transport"),
        (FailureKind.CONTRACT_ERROR, "protocol"),
        (FailureKind.INVALID_RESPONSE, "protocol"),
        (FailureKind.UNSUPPORTED_TRANSPORT, "protocol"),
        (FailureKind.CONTEXT_LENGTH_EXCEEDED, "protocol"),
        (FailureKind.UNKNOWN, "unknown"),
    ],
)
def test_a_provider_failure_has_the_category_of_its_kind_alone_and_in_a_round(kind, category):
    failure = ProviderFailure(kind, "no")
    timeline = AttemptTimeline(attempts=[], requested_model_ref="scripted/a")
    for error in (failure, RoundFailed("all failed", last=failure, timeline=timeline)):
        artifact = artifact_of(error)
        assert (artifact.category, artifact.kind) == (category, kind)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            AgentStopped("agent 'main' is stopped", hint="run 'holon agent resume main'"),
            FailureArtifact(
                category=FailureCategory.RUNTIME,
                kind="agent_stopped",
                summary="agent 'main' is stopped: run 'holon agent resume main'",
            ),
        ),
        (
            OSError(28, "No space left on device"),
            FailureArtifact(
                category=FailureCategory.RUNTIME,
                kind="os_error",
                summary="the system refused: OSError: [Errno 28] No space left on device",
            ),
        ),
        (
            KeyError("x"),
            FailureArtifact(
                category=FailureCategory.UNKNOWN, kind="KeyError", summary="an unforeseen error: KeyError: 'x'"
            ),
        ),
    ],
)
def test_what_is_not_a_providers_failure_is_the_runtimes_or_unknown(error, expected):
    assert artifact_of(error) == expected


def test_the_source_chain_names_the_causes_nearest_first():
    root, middle = OSError(5, "Input/output error"), ValueError("cannot commit")
    middle.__cause__ = root
    error = StoreUnavailable("the disk did not take the write")
    error.__cause__ = middle
    assert artifact_of(error).source_chain == [
        "ValueError: cannot commit",
        "OSError: [Errno 5] Input/output error",
    ]


def test_a_circle_of_causes_has_an_end():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert artifact_of(first).source_chain == ["ValueError: second", "ValueError: first"] * 4


LOG = "Traceback (most recent call last)\n" * 40_000


@pytest.mark.spec("RT-199")
@pytest.mark.parametrize("kind", [None, *FailureKind])
def test_an_artifact_stays_small_whatever_the_error_drags_along(kind):
    error: Exception = HolonError(LOG)
    if kind is not None:
        error = RoundFailed(LOG, last=ProviderFailure(kind, LOG), timeline=endless_timeline())
    tail: BaseException = error
    for _ in range(20):
        tail.__cause__ = RuntimeError(LOG)
        tail = tail.__cause__
    artifact = artifact_of(error)
    assert len(artifact.summary) <= SUMMARY_CHARS
    assert len(artifact.source_chain) == 8
    assert all(len(text) <= METADATA_CHARS for text in [*artifact.source_chain, *artifact.metadata.values()])
    assert len(dumps(artifact)) < 10_000


def endless_timeline() -> AttemptTimeline:
    return AttemptTimeline(
        requested_model_ref="p/0",
        attempts=[
            AttemptRecord(
                provider="p" * 1_000,
                model_ref=f"p/{number}",
                attempt=1,
                max_attempts=3,
                outcome=AttemptOutcome.FAIL_FAST_ABORTED,
                advanced_to_fallback=True,
                transport_diagnostics={"log": LOG},
            )
            for number in range(1_000)
        ],
    )
