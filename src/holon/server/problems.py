"""Problem details (RFC 9457): the one shape in which every error leaves the server, whatever raised it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.params import HeaderParameter

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


def of_framework(error: HTTPException, names: Mapping[str, str] | None = None) -> Problem:
    """What Litestar refuses by itself: no such route or method, a parameter of another shape, too long a body.

    `names` says how callers know the handler's parameters, where that is another word.
    """
    status = error.status_code
    detail, field, hint = DETAILS.get(status) or error.detail or HTTPStatus(status).phrase, None, HINTS.get(status)
    if isinstance(error, ValidationException):
        hint = "GET /openapi.json shows the parameters of this request"
        if isinstance(error.extra, list) and error.extra:
            first: dict[str, Any] = error.extra[0]
            field = (names or {}).get(first.get("key", ""), first.get("key"))
            detail = f"{field}: {first['message']}" if field else first["message"]
        if field == "data":
            detail, field, hint = "the request has no body", None, "GET /openapi.json shows what it takes"
    return _problem(status=status, code=CODES.get(status, f"http_{status}"), detail=detail, hint=hint, field=field)


def of_connection(status: int, code: str, detail: str, *, hint: str) -> Problem:
    """What is refused before there is a request to answer."""
    return _problem(status=status, code=code, detail=detail, hint=hint)


def of_accident(error: Exception) -> Problem:
    """A mistake of ours. The caller gets an id, the log gets the traceback."""
    error_id = new_id("err")
    log.error("%s: unexpected error", error_id, exc_info=error)
    return _problem(
        status=500,
        code="internal_error",
        detail="the server made a mistake; the request may or may not have had an effect",
        hint=f"look for {error_id} in the server's log: it is what 'holon serve' writes to its standard error",
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


def _on_framework_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if isinstance(error, InternalServerException) and "disconnected" in error.detail:
        gone = InvalidInput("the request ended before its body did", hint="send it again")
        return answer(of_error(gone))  # nobody is there to read this
    if error.status_code >= 500:
        return answer(of_accident(error))
    return answer(of_framework(error, _header_names(request)), headers=dict(error.headers or {}))


def _on_accident(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    return answer(of_accident(error))


#: What the app registers: the nearest class in an error's ancestry decides.
HANDLERS: dict[Any, Any] = {
    HolonError: _on_holon_error,
    HTTPException: _on_framework_error,
    Exception: _on_accident,
}


def _header_names(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Handlers know headers by other names than callers do. Where no route was found, there is no handler."""
    handler = request.scope.get("route_handler")
    parameters = handler.parsed_fn_signature.parameters if handler is not None else {}
    kinds = {name: parameter.kwarg_definition for name, parameter in parameters.items()}
    return {name: kind.name for name, kind in kinds.items() if isinstance(kind, HeaderParameter) and kind.name}


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
