"""Request bodies: read strictly, refused with the name of the field, and never deeper than a stored message may be."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from litestar import Request

from holon.core.codec import Input, InvalidJson, InvalidShape
from holon.core.errors import InvalidInput
from holon.core.messages import JsonBody, TextBody
from holon.core.nesting import NESTING, is_flat_enough

_UNKNOWN_FIELD = re.compile(r"unknown field `(?P<field>[^`]*)`")
_MISSING_FIELD = re.compile(r"missing required field `(?P<field>[^`]*)`")
_PATH = re.compile(r" - at `(?:key in )?\$\.?(?P<path>[^`]*)`$")


class NoFields(Input, frozen=True):
    """The body of a request that has nothing to say: empty, or `{}`."""


class StrictRequest(Request[Any, Any, Any]):
    """Reads `data` as the type that the handler asks for, without the framework's leniency about types."""

    async def json(self) -> Any:
        return decode(await self.body(), self.route_handler.parsed_fn_signature.parameters["data"].annotation)


def decode(raw: bytes, type_: Any) -> Any:
    """The body as `type_`, or the error that says where it is wrong."""
    try:
        if raw.count(b"[") + raw.count(b"{") > NESTING:
            _check_nesting(raw)
        return msgspec.json.decode(raw, type=type_)
    except InvalidShape as error:
        raise _misshapen(str(error), type_) from error
    except (InvalidJson, UnicodeDecodeError) as error:
        raise InvalidInput(f"the body is not JSON ({error})", hint="send UTF-8 encoded JSON") from error
    except RecursionError as error:
        raise _too_deep() from error


def message_body(raw: bytes, content_type: str) -> JsonBody | TextBody:
    """A payload of any sort as a message body: JSON stays JSON, everything else is text."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        return JsonBody(value=decode(raw, Any))
    if not media_type:
        try:
            return JsonBody(value=decode(raw, Any))
        except InvalidInput:
            pass  # nothing was promised; it is text
    try:
        return TextBody(text=raw.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the body is neither JSON nor UTF-8 text ({error.reason} at byte {error.start})",
            hint="send JSON or text; put binary content somewhere and send a reference to it",
        ) from error


def _misshapen(message: str, type_: Any) -> InvalidInput:
    """Turns msgspec's sentence into ours: the field by its path, and what may stand there."""
    path = found["path"] if (found := _PATH.search(message)) else ""
    sentence = message[: found.start()] if found else message
    if named := _UNKNOWN_FIELD.search(sentence) or _MISSING_FIELD.search(sentence):
        path = f"{path}.{named['field']}" if path else named["field"]
    else:
        sentence = f"{path or 'body'}: {sentence}"
    choices = _choices(type_, path)
    hint = f"allowed are {', '.join(choices)}" if choices else "GET /openapi.json shows the fields of this request"
    return InvalidInput(sentence, hint=hint, field=path or None)


def _choices(type_: Any, field: str) -> list[str]:
    """What a field of the body may be, if that is a short list of words."""
    for struct in get_args(type_) or (type_,):
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
            annotation = get_type_hints(struct).get(field)
            for part in (annotation, *get_args(annotation)):
                if get_origin(part) is Literal:
                    return [str(word) for word in get_args(part)]
    return []


def _check_nesting(raw: bytes) -> None:
    if not is_flat_enough(msgspec.json.decode(raw)):
        raise _too_deep()


def _too_deep() -> InvalidInput:
    return InvalidInput(f"the body is nested too deeply (at most {NESTING} levels)", hint="send it flatter, or as text")
