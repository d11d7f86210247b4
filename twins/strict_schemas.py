"""Strict tools: the part of JSON Schema that OpenAI takes when a function is `strict`, and how it refuses the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twins.api import Refusal

#: Words that strict schemas may not use.
FORBIDDEN = frozenset(
    {"allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties"}
)


def check_strict(name: str, schema: Any, param: str) -> None:
    """Every object is closed, and lists all of its properties as required; nested ones too."""
    reason = _fault(schema, ())
    if reason is not None:
        raise Refusal(
            400, f"Invalid schema for function '{name}': {reason}", code="invalid_function_parameters", param=param
        )


def _fault(schema: Any, path: tuple[str, ...]) -> str | None:
    if not isinstance(schema, Mapping):
        return f"In context={path!r}, schema must be an object."
    for word in FORBIDDEN & schema.keys():
        return f"In context={path!r}, '{word}' is not permitted."
    if _is_object(schema):
        reason = _object_fault(schema, path)
        if reason is not None:
            return reason
    elif not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
        return f"In context={path!r}, schema must have a 'type' key."
    inner: list[tuple[tuple[str, ...], Any]] = []
    inner += [(("properties", name), value) for name, value in (schema.get("properties") or {}).items()]
    inner += [(("items",), schema["items"])] if "items" in schema else []
    inner += [(("anyOf", str(number)), value) for number, value in enumerate(schema.get("anyOf") or [])]
    inner += [(("$defs", name), value) for name, value in (schema.get("$defs") or {}).items()]
    return next((reason for step, value in inner if (reason := _fault(value, (*path, *step)))), None)


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _object_fault(schema: Mapping[str, Any], path: tuple[str, ...]) -> str | None:
    if schema.get("additionalProperties") is not False:
        return f"In context={path!r}, 'additionalProperties' is required to be supplied and to be false."
    properties, required = (schema.get("properties") or {}).keys(), set(schema.get("required") or [])
    if missing := [name for name in properties if name not in required]:
        return (
            f"In context={path!r}, 'required' is required to be supplied and to be an array including every key in "
            f"properties. Missing '{missing[0]}'."
        )
    if extra := sorted(required - properties):
        return (
            f"In context={path!r}, 'required' is required to be supplied and to be an array including every key in "
            f"properties. Extra required key '{extra[0]}' supplied."
        )
    return None
