"""Evidence: what an exception of an official SDK, or an error that a service tells, says about a failed attempt.

Kinds come from types, statuses and codes. Both SDKs name their exceptions alike and speak through the same HTTP
library, so one reading serves both, without importing either. Whatever is told on is cut, and holds no secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from json import JSONDecodeError
from typing import Any
from urllib.parse import urlsplit

import msgspec

from holon.core.usage import TokenUsage
from holon.core.values import Value
from holon.providers.characters import all_whole, whole
from holon.providers.contract import FailureKind, ProviderFailure
from holon.providers.failures import described, failure_of, kind_of_status, source_chain
from holon.providers.secrets import Secret, redacted


class Stage(StrEnum):
    """Where an attempt failed: before the service's first word, by its refusal, while its answer came, or was read."""

    REQUEST = "request"
    RESPONSE = "response"
    BODY = "body"
    DECODE = "decode"


#: What services call their errors (`code`, else `type`) -> kind. For errors that come without a status of their own,
#: inside a stream; with a status, the status rules, but for a prompt that is too long.
CODE_KINDS: dict[str, FailureKind] = {
    "context_length_exceeded": FailureKind.CONTEXT_LENGTH_EXCEEDED,  # OpenAI and most who speak like it
    "exceed_context_size_error": FailureKind.CONTEXT_LENGTH_EXCEEDED,  # llama.cpp
    "rate_limit_exceeded": FailureKind.RATE_LIMITED,
    "rate_limit_error": FailureKind.RATE_LIMITED,
    "server_error": FailureKind.SERVER_ERROR,
    "server_is_overloaded": FailureKind.SERVER_ERROR,
    "slow_down": FailureKind.SERVER_ERROR,
    "vector_store_timeout": FailureKind.SERVER_ERROR,
    "api_error": FailureKind.SERVER_ERROR,
    "overloaded_error": FailureKind.SERVER_ERROR,
    "timeout_error": FailureKind.SERVER_ERROR,
    "authentication_error": FailureKind.AUTH_ERROR,
    "permission_error": FailureKind.AUTH_ERROR,
    "invalid_api_key": FailureKind.AUTH_ERROR,
    "insufficient_quota": FailureKind.CONTRACT_ERROR,
    "usage_not_included": FailureKind.CONTRACT_ERROR,
    "billing_error": FailureKind.CONTRACT_ERROR,
    "invalid_prompt": FailureKind.CONTRACT_ERROR,
    "invalid_request_error": FailureKind.CONTRACT_ERROR,
    "not_found_error": FailureKind.CONTRACT_ERROR,
    "request_too_large": FailureKind.CONTRACT_ERROR,
}

#: Services that have no code for a prompt that is too long say it in these fixed sentences, with a status of 400.
TOO_LONG = re.compile(
    r"prompt is too long: \d+ tokens > \d+ maximum"  # Anthropic
    r"|input length and `max_tokens` exceed context limit: \d+ \+ \d+ > \d+"  # Anthropic, earlier models
    r"|This model's maximum context length is \d+ tokens"  # vLLM, DeepSeek
)

_MESSAGE_CHARS = 300
_STATUS = range(400, 600)


class Told(Value, frozen=True):
    """An error as a service tells it."""

    message: str = ""
    code: str | None = None
    type: str | None = None

    @classmethod
    def of(cls, body: object) -> Told:
        """From an error body, in any of the forms that are in use: wrapped or not, an object or a sentence."""
        if isinstance(body, Mapping) and "error" in body:
            body = body["error"]
        if not isinstance(body, Mapping):
            return cls(body if isinstance(body, str) else "")
        code, type_ = body.get("code"), body.get("type")
        return cls(
            str(body.get("message") or body.get("detail") or ""),
            None if code is None else str(code),
            type_ if isinstance(type_, str) else None,
        )

    @property
    def too_long(self) -> bool:
        known = (CODE_KINDS.get(name or "") for name in (self.code, self.type))
        return FailureKind.CONTEXT_LENGTH_EXCEEDED in known or TOO_LONG.search(self.message) is not None

    @property
    def kind(self) -> FailureKind:
        """By code, then by type; a code that is a number is an HTTP status."""
        if self.too_long:
            return FailureKind.CONTEXT_LENGTH_EXCEEDED
        if (self.code or "").isdigit() and int(self.code or 0) in _STATUS:
            return kind_of_status(int(self.code or 0))
        found = (CODE_KINDS.get(name or "") for name in (self.code, self.type))
        return next((kind for kind in found if kind), FailureKind.UNKNOWN)

    def __str__(self) -> str:
        name = self.code or self.type
        return ": ".join(part for part in (name, self.message[:_MESSAGE_CHARS]) if part) or "no reason given"


def failure_told(told: Told, *, usage: TokenUsage | None = None, **details: Any) -> ProviderFailure:
    """A failure that the service tells inside an answer whose status says that all is well."""
    known = {name: value for name, value in (("code", told.code), ("type", told.type)) if value}
    return ProviderFailure(told.kind, str(told), usage=usage, diagnostics={"stage": Stage.RESPONSE, **known, **details})


def failure_from(
    error: Exception,
    *,
    stage: Stage,
    url: str,
    secrets: Iterable[Secret],
    now_ms: int,
    usage: TokenUsage | None = None,
) -> ProviderFailure:
    """The failure that an exception stands for. It does not carry the exception on: that may quote what was sent."""
    if _is_undecodable(error):
        stage = Stage.DECODE
    failure = _failure(error, stage, now_ms)
    known = failure.diagnostics or {}
    stage = known.get("stage", stage)
    told = [failure.message, *([] if failure is error else [described(error)]), *source_chain(error)]
    diagnostics = {
        "stage": stage,
        "url": shown_url(url),
        **({} if failure.http_status is None else {"status": failure.http_status}),
        "reqwest": flags_of(error, stage, failure.http_status),
        "source_chain": list(dict.fromkeys(told)),
        **known,
    }
    hidden = list(secrets)
    return ProviderFailure(
        failure.kind,
        redacted(whole(failure.message), hidden),
        status=failure.http_status,
        retry_after_ms=failure.retry_after_ms,
        usage=failure.usage or usage,
        diagnostics=redacted(all_whole(diagnostics), hidden),
    )


def flags_of(error: Exception, stage: Stage, status: int | None) -> dict[str, Any]:
    """The client-error flags, under the names by which the runtime text knows them."""
    import httpx2

    cause = _http_error(error)
    connecting = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    decoding = stage is Stage.DECODE or isinstance(cause, httpx2.DecodingError) or _is_undecodable(error)
    flags = {
        "is_timeout": isinstance(cause, httpx2.TimeoutException),
        "is_connect": isinstance(cause, connecting),
        "is_request": stage is Stage.REQUEST and status is None and not isinstance(cause, connecting),
        "is_body": stage is Stage.BODY and not decoding,
        "is_decode": decoding,
        "is_redirect": isinstance(cause, httpx2.TooManyRedirects),
    }
    return flags if status is None else {**flags, "status": status}


def retry_after_ms(headers: Mapping[str, str], now_ms: int) -> int | None:
    """How long the service asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            return max(0, round(float(headers[name]) * factor))
        except (KeyError, ValueError, OverflowError):
            continue
    try:
        moment = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000) - now_ms)


def shown_url(url: str) -> str:
    """The URL without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _failure(error: Exception, stage: Stage, now_ms: int) -> ProviderFailure:
    if isinstance(error, ProviderFailure):
        return error
    if _is(error, "APIStatusError"):
        return _status_failure(error, now_ms)
    if _is(error, "APIError") and not _is(error, "APIConnectionError", "APIResponseValidationError"):
        return failure_told(Told.of(getattr(error, "body", None) or str(error)))  # an error inside a stream
    return ProviderFailure(_kind_of(error), _words(error, stage))


def _status_failure(error: Any, now_ms: int) -> ProviderFailure:
    told, status = Told.of(error.body), int(error.status_code)
    if status not in _STATUS:  # an error event inside a stream
        return failure_told(told)
    kind = FailureKind.CONTEXT_LENGTH_EXCEEDED if status == 400 and told.too_long else kind_of_status(status)
    names = (("code", told.code), ("type", told.type), ("request_id", error.request_id))
    return ProviderFailure(
        kind,
        f"HTTP {status}, {told}",
        status=status,
        retry_after_ms=retry_after_ms(error.response.headers, now_ms),
        diagnostics={"stage": Stage.RESPONSE, **{name: value for name, value in names if value}},
    )


def _kind_of(error: Exception) -> FailureKind:
    import httpx2

    cause = _http_error(error)
    if isinstance(cause, httpx2.TimeoutException):
        return FailureKind.TIMEOUT
    if isinstance(cause, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.TooManyRedirects)):
        return FailureKind.CONTRACT_ERROR  # the address, a header or the server's redirects: asking again cannot help
    if isinstance(cause, httpx2.DecodingError) or _is_undecodable(error):
        return FailureKind.INVALID_RESPONSE
    if isinstance(cause, httpx2.TransportError) or _is(error, "APIConnectionError"):
        return FailureKind.CONNECTION
    return failure_of(error).kind


def _words(error: Exception, stage: Stage) -> str:
    cause = _http_error(error) or error.__cause__ or error
    return f"{_DOING[stage]}: {described(cause)[:_MESSAGE_CHARS]}"


_DOING = {
    Stage.REQUEST: "the request got no answer",
    Stage.RESPONSE: "the service refused",
    Stage.BODY: "the answer broke off",
    Stage.DECODE: "the answer could not be read",
}


def _http_error(error: BaseException) -> Exception | None:
    """The HTTP library's own exception in the chain: the SDKs wrap it."""
    import httpx2

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)):
        cause = cause.__cause__
    return cause


def _is_undecodable(error: Exception) -> bool:
    unreadable = (JSONDecodeError, msgspec.DecodeError, UnicodeDecodeError)
    return isinstance(error, unreadable) or _is(error, "APIResponseValidationError")


def _is(error: Exception, *names: str) -> bool:
    return any(cls.__name__ in names for cls in type(error).__mro__)
