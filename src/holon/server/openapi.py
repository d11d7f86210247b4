"""The OpenAPI document: made from the handlers' types, then finished with what the framework leaves out.

The finishing pass says what is true of every route (who may ask, which problems may come back), closes the types that
refuse unknown fields, and describes each type with its docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec
from litestar import Request
from litestar.enums import OpenAPIMediaType
from litestar.openapi import OpenAPIConfig, ResponseSpec
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

import holon
from holon.core.codec import dumps
from holon.server import auth, problems, sse

DESCRIPTION = """\
Over the local socket nobody is asked for a token; over TCP every route that is not marked as open wants
`Authorization: Bearer <token>` (`holon config token new` makes one). Errors are problem details (RFC 9457) with a
stable `code`. A POST that admits or creates takes `Idempotency-Key`."""

_REFUSALS = {
    400: "Malformed: the problem names the field.",
    401: "Over TCP: no token, or an unknown one.",
    403: "Not allowed.",
    404: "There is no such agent or thing, or it is private.",
    409: "The agent or the thing is in a state that does not allow this.",
    410: "The cursor is outside the log.",
    413: "The body is too large.",
    422: "The idempotency key was used for another request.",
    429: "The agent's queue is full.",
    500: "A mistake of the server; its log has the story under `error_id`.",
    503: "The server cannot do this now.",
}
_ALWAYS = (400, 500, 503)
#: Type of a request -> one that works.
EXAMPLES: dict[str, dict[str, Any]] = {
    "PromptRequest": {"text": "What is new?"},
    "EnqueueRequest": {"text": "the build is red", "origin": {"kind": "channel", "channel_id": "ci"}},
    "WakeRequest": {"reason": "the build has ended", "source": "ci"},
    "TimerRequest": {"duration_ms": 3_600_000, "summary": "look again"},
    "ControlRequest": {"action": "pause"},
    "AbortRequest": {"mode": "abort"},
    "RotateRequest": {"ttl_ms": 86_400_000},
    "ModelRequest": {"model": "scripted/echo"},
    "RunRequest": {"text": "say hello"},
    "TaskInputRequest": {"input": "yes\n"},
    "TaskStopRequest": {"force": True},
    "WorktreeRemoveRequest": {"discard": True},
    "ShelvedRemoveRequest": {"path": "/home/ada/.holon-worktrees-shop/holon-main-work-a1b2c3", "discard": True},
    "WorkspaceUseRequest": {"path": "/srv/project"},
    "BackendRequest": {"backend": "auto", "network": False},
    "WorkspaceDetachRequest": {"workspace_id": "ws_0123456789ab"},
    "SkillInstallRequest": {"source": "https://example.org/skills.git", "skill": "release-notes", "ref": "v1.2"},
    "SkillUninstallRequest": {"name": "release-notes"},
    "CreateRequest": {"template": "holon-developer"},
    "NoFields": {},
}
#: One frame of a stream. `data` is JSON; `id` is the number of an event in its log.
_FRAME = {
    "type": "object",
    "description": "Frames with `id`, `event` and `data`.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["event", "data"],
}
_METHODS = ("get", "post")
#: Routes that take whatever they are sent.
_RAW_BODIES = ("/webhooks/", "/callbacks/")


def refusals(*statuses: int) -> dict[int, ResponseSpec]:
    """The problems that a route answers with, beyond those that any route may answer with."""
    return {
        status: ResponseSpec(problems.Problem, media_type=problems.MEDIA_TYPE, description=_REFUSALS[status])
        for status in (*_ALWAYS, *statuses)
    }


def config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Holon",
        version=holon.__version__,
        summary="A runtime for agents that live long",
        description=DESCRIPTION,
        path="/openapi.json",
        render_plugins=[_Document()],
        use_handler_docstrings=True,
        components=Components(
            security_schemes={"token": SecurityScheme(type="http", scheme="bearer", description="Needed over TCP.")}
        ),
    )


class _Document(OpenAPIRenderPlugin):
    """Renders the finished document, once."""

    def __init__(self) -> None:
        super().__init__(path=["/", "/openapi.json"], media_type=OpenAPIMediaType.OPENAPI_JSON)
        self._rendered: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        if self._rendered is None:
            self._rendered = dumps(finish(openapi_schema)).encode()
        return self._rendered


def finish(document: dict[str, Any]) -> dict[str, Any]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if operation := item.get(method):
                _finish_operation(method.upper(), path, operation)
    schemas: dict[str, Any] = document["components"]["schemas"]
    for type_ in _struct_types(msgspec.Struct):
        if schema := schemas.get(type_.__name__):
            if type_.__struct_config__.forbid_unknown_fields:
                schema["additionalProperties"] = False
            schema |= getattr(type_, "__openapi__", {})
            if type_.__name__ in EXAMPLES:
                schema["examples"] = [EXAMPLES[type_.__name__]]
            if "__doc__" in vars(type_) and type_.__doc__:
                schema.setdefault("description", inspect.cleandoc(type_.__doc__))
    return document


def _finish_operation(method: str, path: str, operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    if path.startswith(_RAW_BODIES):
        operation["requestBody"] = {
            "required": False,
            "content": {"application/json": {"schema": {}}, "text/plain": {}},
        }
    elif body := operation.get("requestBody"):
        for content in body["content"].values():
            body["required"] = content["schema"] == (schema := _without_null(content["schema"]))
            content["schema"] = schema
    for response in operation["responses"].values():
        if stream := response["content"].get(sse.MEDIA_TYPE):
            stream["schema"] = _FRAME
    if auth.is_open(method, path):
        operation["security"] = []
    else:
        operation["security"] = [{"token": []}]
        operation["responses"].setdefault("401", _problem_response(401))
    if "requestBody" in operation:
        operation["responses"].setdefault("413", _problem_response(413))


def _problem_response(status: int) -> dict[str, Any]:
    return {
        "description": _REFUSALS[status],
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is left out is left out: it is never sent as null."""
    kept = [option for option in schema.get("oneOf", ()) if option != {"type": "null"}]
    if len(kept) != 1:
        return schema
    return {**{key: value for key, value in schema.items() if key != "oneOf"}, **kept[0]}


def _struct_types(root: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for type_ in root.__subclasses__():
        yield type_
        yield from _struct_types(type_)
