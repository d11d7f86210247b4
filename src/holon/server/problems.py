"""Problem details (RFC 9457): the one shape in which every error leaves the server, whatever raised it."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException

from holon.core.codec import Record, dumps
from holon.core.errors import HolonError, InvalidInput
from holon.core.ids import new_id

log = logging.getLogger("holon.server")

MEDIA_TYPE = "application/problem+json"

#: Status -> the code of an error that the framework found before our own code ran.
CODES = {
    400: "invalid_input",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}
DETAILS = {
    404: "there is no such route",
    405: "the route does not take this method",
    413: "the body is larger than this route takes",
}
HINTS = {
    404: "GET /openapi.json lists the routes",
    405: "the Allow header names the methods of this route",
    413: "send a reference to the content, or raise limits.message_bytes",
}
#: Errors that go away by themselves: when to ask again, in seconds.
RETRY_AFTER = {429: "1", 503: "1"}


class Problem(Record, frozen=True, kw_only=True):
    """What went wrong, in words for a person and a `code` for a program, and what to do about it (`hint`)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None = None
    #: The field, parameter or header that is wrong.
    field: str | None = None
    #: For an unexpected error: the id under which the server's log has the whole story.
    error_id: str | None = None


def of_error(error: HolonError) -> Problem:
    field = error.details.get("field")
    return _problem(
        status=error.status, code=error.code, detail=error.message, hint=error.hint, field=str(field) if field else None
    )


def of_framework(error: HTTPException) -> Problem:
    """What Litestar refuses by itself: no such route or method, a parameter of another shape, too long a body."""
    status = error.status_code
    detail, field = DETAILS.get(status) or error.detail or HTTPStatus(status).phrase, None
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        first: dict[str, Any] = error.extra[0]
        field = first.get("key")
        detail = f"{field}: {first['message']}" if field else first["message"]
        if field == "data":
            detail, field = "the request has no body", None
    return _problem(
        status=status,
        code=CODES.get(status, f"http_{status}"),
        detail=detail,
        hint=HINTS.get(status),
        field=field,
    )


def of_accident(error: Exception) -> Problem:
    """A mistake of ours. The caller gets an id, the log gets the traceback."""
    error_id = new_id("err")
    log.error("%s: unexpected error", error_id, exc_info=error)
    return _problem(
        status=500,
        code="internal_error",
        detail="the server made a mistake; the request may or may not have had an effect",
        hint=f"look for {error_id} in the server's log ('holon daemon logs')",
        error_id=error_id,
    )


def answer(problem: Problem, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        dumps(problem).encode(),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers={**_headers(problem), **(headers or {})},
    )


def raw_answer(problem: Problem) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same as two ASGI messages, for the door, which stands in front of the framework."""
    body = dumps(problem).encode()
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **_headers(problem)}
    return (
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        },
        {"type": "http.response.body", "body": body},
    )


def _on_holon_error(_: Request[Any, Any, Any], error: HolonError) -> Response[bytes]:
    if error.status == 500:
        return answer(of_accident(error))
    if error.status > 500:
        log.warning("%s: %s", error.code, error)
    return answer(of_error(error))


def _on_framework_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if isinstance(error, InternalServerException) and "disconnected" in error.detail:
        return answer(of_error(InvalidInput("the request ended before its body did")))  # nobody is there to read this
    if error.status_code >= 500:
        return answer(of_accident(error))
    return answer(of_framework(error), headers=dict(error.headers or {}))


def _on_accident(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    return answer(of_accident(error))


#: What the app registers: the nearest class in an error's ancestry decides.
HANDLERS: dict[Any, Any] = {
    HolonError: _on_holon_error,
    HTTPException: _on_framework_error,
    Exception: _on_accident,
}


def _problem(*, status: int, code: str, **words: Any) -> Problem:
    return Problem(
        type=f"urn:holon:problem:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        code=code,
        **words,
    )


def _headers(problem: Problem) -> dict[str, str]:
    headers = {"cache-control": "no-store"}
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="holon"'
    if problem.status in RETRY_AFTER:
        headers["retry-after"] = RETRY_AFTER[problem.status]
    return headers
