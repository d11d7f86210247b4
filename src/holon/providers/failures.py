"""Failures: which kind an attempt's failure is, by its evidence, and how an operator is told of it.

Pure. Kinds decide what `attempts` does next; categories and words are for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from json import JSONDecodeError

import msgspec

from holon.core.errors import HolonError
from holon.core.failures import METADATA_CHARS, FailureArtifact, FailureCategory
from holon.providers.contract import FailureKind, ProviderFailure, RoundFailed

#: HTTP statuses -> kind; the first row that has the status. Only these 5xx are worth a retry.
STATUS_KINDS: tuple[tuple[Iterable[int], FailureKind], ...] = (
    ((429,), FailureKind.RATE_LIMITED),
    ((500, 502, 503, 504, *range(520, 530)), FailureKind.SERVER_ERROR),
    ((401, 403), FailureKind.AUTH_ERROR),
    (range(400, 500), FailureKind.CONTRACT_ERROR),
)

#: What else comes out of a transport -> kind; the first row of which the error is an instance.
EXCEPTION_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (TimeoutError, FailureKind.TIMEOUT),
    (ConnectionError, FailureKind.CONNECTION),
    (JSONDecodeError, FailureKind.INVALID_RESPONSE),
    (msgspec.DecodeError, FailureKind.INVALID_RESPONSE),
)

CATEGORIES: dict[FailureKind, FailureCategory] = {
    FailureKind.TIMEOUT: FailureCategory.TRANSPORT,
    FailureKind.CONNECTION: FailureCategory.TRANSPORT,
    FailureKind.RATE_LIMITED: FailureCategory.TRANSPORT,
    FailureKind.SERVER_ERROR: FailureCategory.TRANSPORT,
    FailureKind.AUTH_ERROR: FailureCategory.TRANSPORT,
    FailureKind.CONTRACT_ERROR: FailureCategory.PROTOCOL,
    FailureKind.INVALID_RESPONSE: FailureCategory.PROTOCOL,
    FailureKind.UNSUPPORTED_TRANSPORT: FailureCategory.PROTOCOL,
    FailureKind.CONTEXT_LENGTH_EXCEEDED: FailureCategory.PROTOCOL,
    FailureKind.UNKNOWN: FailureCategory.UNKNOWN,
}

#: What happened, and what the operator can do about it.
WORDS: dict[FailureKind, tuple[str, str]] = {
    FailureKind.TIMEOUT: ("the model did not answer in time", "try again, or allow more time for a round"),
    FailureKind.CONNECTION: ("the model's service could not be reached", "check the network and the service's address"),
    FailureKind.RATE_LIMITED: ("the model's service limits requests", "wait, or configure a fallback model"),
    FailureKind.SERVER_ERROR: ("the model's service failed", "try again later, or configure a fallback model"),
    FailureKind.AUTH_ERROR: ("the model's service refused the credentials", "check the provider's key"),
    FailureKind.CONTRACT_ERROR: ("the model's service refused the request", "check the model's name and settings"),
    FailureKind.INVALID_RESPONSE: (
        "the model's answer could not be understood",
        "check that the provider's transport fits its service",
    ),
    FailureKind.UNSUPPORTED_TRANSPORT: ("the model cannot be used here", "choose another model or transport"),
    FailureKind.CONTEXT_LENGTH_EXCEEDED: (
        "the conversation is too long for the model",
        "choose a model with a larger window",
    ),
    FailureKind.UNKNOWN: ("the model failed in an unforeseen way", "look at the attempts in the transcript"),
}

_CHAIN_LENGTH = 8
_MESSAGE_CHARS = 400


def kind_of_status(status: int) -> FailureKind:
    """The kind that an HTTP status is evidence of; `unknown` for one that is no failure we know."""
    return next((kind for statuses, kind in STATUS_KINDS if status in statuses), FailureKind.UNKNOWN)


def failure_of(error: Exception) -> ProviderFailure:
    """Whatever a transport raised, as the failure of one attempt."""
    if isinstance(error, ProviderFailure):
        return error
    kind = next((kind for type_, kind in EXCEPTION_KINDS if isinstance(error, type_)), FailureKind.UNKNOWN)
    failure = ProviderFailure(kind, described(error))
    failure.__cause__ = error
    return failure


def artifact_of(error: BaseException) -> FailureArtifact:
    """The failure as operators see it: one category, one sentence, bounded details; never a log."""
    match error:
        case RoundFailed():
            artifact = _of_round(error)
        case ProviderFailure():
            artifact = _of_attempt(error)
        case HolonError():
            artifact = FailureArtifact(category=FailureCategory.RUNTIME, kind=error.code, summary=str(error))
        case OSError():
            artifact = FailureArtifact(
                category=FailureCategory.RUNTIME, kind="os_error", summary=f"the system refused: {described(error)}"
            )
        case _:
            artifact = FailureArtifact(
                category=FailureCategory.UNKNOWN,
                kind=type(error).__name__,
                summary=f"an unforeseen error: {described(error)}",
            )
    return msgspec.structs.replace(artifact, source_chain=source_chain(error)).bounded()


def source_chain(error: BaseException) -> list[str]:
    """What the error came from, nearest first; bounded, as causes may be many, long, or run in a circle."""
    return [described(cause) for cause in islice(_causes(error), _CHAIN_LENGTH)]


def described(error: BaseException) -> str:
    """`ConnectionResetError: the peer hung up`, cut to what a summary can hold."""
    words = str(error)
    return f"{type(error).__name__}: {words}"[:METADATA_CHARS] if words else type(error).__name__


def _causes(error: BaseException) -> Iterable[BaseException]:
    while error.__cause__ is not None:
        error = error.__cause__
        yield error


def _of_attempt(failure: ProviderFailure) -> FailureArtifact:
    what, to_do = WORDS[failure.kind]
    metadata = {"retry_after_ms": str(failure.retry_after_ms)} if failure.retry_after_ms is not None else {}
    return FailureArtifact(
        category=CATEGORIES[failure.kind],
        kind=failure.kind,
        summary=f"{what} ({failure.message[:_MESSAGE_CHARS]}): {to_do}",
        status=failure.http_status,
        metadata=metadata,
    )


def _of_round(failed: RoundFailed) -> FailureArtifact:
    artifact = _of_attempt(failed.last)
    if not failed.timeline.attempts:
        return artifact
    final = failed.timeline.attempts[-1]
    tried = dict.fromkeys(attempt.model_ref for attempt in failed.timeline.attempts)
    return msgspec.structs.replace(
        artifact,
        provider=final.provider[:METADATA_CHARS],
        model_ref=final.model_ref[:METADATA_CHARS],
        metadata={
            **artifact.metadata,
            "outcome": final.outcome,
            "attempts": str(len(failed.timeline.attempts)),
            "tried": ", ".join(tried),
        },
    )
