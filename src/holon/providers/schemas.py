"""Tool schemas as services take them: from a tool's own schema to what is sent, in one of two modes.

Pure. `Relaxed` closes the objects and leaves optional fields optional. `Strict` is the form that OpenAI's strict
functions ask for: every field is required, and what was optional may be null. The tool's own schema never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

Schema = dict[str, Any]


class SchemaMode(StrEnum):
    RELAXED = "relaxed"
    STRICT = "strict"


def emit(schema: Mapping[str, Any], mode: SchemaMode = SchemaMode.RELAXED) -> Schema:
    """The schema as it is sent; the original is left as it is."""
    return _Emission(schema, mode).of(schema)


def problems_of(schema: Mapping[str, Any], mode: SchemaMode | None = None) -> list[str]:
    """What is wrong with a schema, each with its place; without a mode, as a tool's own schema."""
    if schema.get("type") != "object":
        return ["$ is not an object"]
    return list(_problems(schema, "$", mode, schema))


def without_nulls(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """A strict call's arguments as the tool's own schema knows them: an optional field that is null was left out."""
    pruned: dict[str, Any] = _pruned(arguments, schema, schema)
    return pruned


#: Where schemas stand inside a schema: one, a list of them, or a mapping to them.
_ONE = ("items", "additionalProperties")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs")
#: Words that only describe, and that strict services refuse or ignore.
_NOT_STRICT = frozenset({"default", "title", "discriminator"})


class _Emission:
    def __init__(self, root: Mapping[str, Any], mode: SchemaMode) -> None:
        self._root, self._strict = root, mode is SchemaMode.STRICT

    def of(self, schema: Mapping[str, Any]) -> Schema:
        if self._strict:
            schema = self._plain({key: value for key, value in schema.items() if key not in _NOT_STRICT})
        emitted = {key: self._value(key, value) for key, value in schema.items()}
        return self._closed(emitted) if _is_object(schema) else emitted

    def _plain(self, schema: Schema) -> Schema:
        """The same in words that strict services take: references stand alone, and enums where they are used."""
        if "$ref" in schema:
            target, beside = _resolved(schema["$ref"], self._root), _without(schema, "$ref")
            if "enum" in target:
                schema = {**_without(target, *_NOT_STRICT), **beside}
            elif beside:
                schema = {**beside, "anyOf": [{"$ref": schema["$ref"]}]}
        variants = [self._plain(dict(variant)) for variant in schema.get("anyOf", ())]
        choices = [variant for variant in variants if variant.get("type") != "null"]
        if len(choices) == 1 and len(choices) < len(variants) and "enum" in choices[0]:
            schema = _nullable({**choices[0], **_without(schema, "anyOf")})
        if "enum" in schema and "type" not in schema:
            schema = {"type": _type_of(schema["enum"]), **schema}
        return schema

    def _value(self, key: str, value: Any) -> Any:
        if key in _NAMED and isinstance(value, Mapping):
            return {name: self.of(inner) for name, inner in value.items()}
        if key in _MANY and isinstance(value, list):
            return [self.of(inner) for inner in value]
        if key in _ONE and isinstance(value, Mapping):
            return self.of(value)
        return value

    def _closed(self, emitted: Schema) -> Schema:
        """The object without room for fields that nobody named. A map of values has no other fields, and stays one."""
        properties = emitted.get("properties", {})
        is_map = not properties and isinstance(emitted.get("additionalProperties"), Mapping)
        if is_map and not self._strict:
            return emitted
        emitted["additionalProperties"] = False
        if self._strict:
            required = emitted.get("required", ())
            emitted["properties"] = {
                name: inner if name in required else _nullable(inner) for name, inner in properties.items()
            }
            emitted["required"] = list(properties)
        return emitted


def _nullable(schema: Schema) -> Schema:
    if not schema or _takes_null(schema):
        return schema
    if "enum" in schema:
        types = {"type": _with_null(schema["type"])} if "type" in schema else {}
        return {**schema, **types, "enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "type" in schema:
        return {**schema, "type": _with_null(schema["type"])}
    return {"anyOf": [schema, {"type": "null"}]}


def _type_of(values: list[Any]) -> str | list[str]:
    types = list(dict.fromkeys(_TYPES[type(value)] for value in values))
    return types[0] if len(types) == 1 else types


_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _without(schema: Mapping[str, Any], *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}


def _with_null(type_: str | list[str]) -> list[str]:
    return [*([type_] if isinstance(type_, str) else type_), "null"]


def _takes_null(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema:
        return None in schema["enum"]
    type_ = schema.get("type")
    return (
        type_ == "null"
        or (isinstance(type_, list) and "null" in type_)
        or any(_takes_null(inner) for inner in schema.get("anyOf", ()))
    )


def _is_object(schema: Mapping[str, Any]) -> bool:
    type_ = schema.get("type")
    return type_ == "object" or (isinstance(type_, list) and "object" in type_) or "properties" in schema


def _resolved(ref: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference points to; nothing, for one that points nowhere."""
    found: Any = root
    for step in ref.removeprefix("#/").split("/"):
        found = found.get(step, {})
    return dict(found)


def _pruned(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        schema = _resolved(schema["$ref"], root)
    for variant in schema.get("anyOf", ()):  # each variant prunes what it knows; the others leave it as it is
        value = _pruned(value, variant, root)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [_pruned(item, schema["items"], root) for item in value]
    properties = schema.get("properties")
    if not isinstance(value, Mapping) or properties is None:
        return value
    required = schema.get("required", ())
    return {
        name: _pruned(inner, properties.get(name, {}), root)
        for name, inner in value.items()
        if inner is not None or name in required or name not in properties
    }


def _inner(schema: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema inside this one, with its place."""
    for key in _ONE:
        if isinstance(schema.get(key), Mapping):
            yield f"{place}.{key}", schema[key]
    for key in _MANY:
        yield from ((f"{place}.{key}.{number}", inner) for number, inner in enumerate(schema.get(key, ())))
    for key in _NAMED:
        yield from ((f"{place}.{key}.{name}", inner) for name, inner in schema.get(key, {}).items())


def _problems(schema: Mapping[str, Any], place: str, mode: SchemaMode | None, root: Mapping[str, Any]) -> Iterator[str]:
    if _is_object(schema):
        yield from _object_problems(schema, place, mode)
    if "$ref" in schema and not _resolved(schema["$ref"], root):
        yield f"{place} points to {schema['$ref']}, which is not there"
    if mode is SchemaMode.STRICT:
        if not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
            yield f"{place} has no type"
        if "$ref" in schema and len(schema) > 1:
            yield f"{place} has a $ref that does not stand alone"
        yield from (f"{place} has {word!r}" for word in ("allOf", "oneOf", "prefixItems") if word in schema)
    for inner_place, inner in _inner(schema, place):
        yield from _problems(inner, inner_place, mode, root)


def _object_problems(schema: Mapping[str, Any], place: str, mode: SchemaMode | None) -> list[str]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    rest = schema.get("additionalProperties")
    is_map = not properties and isinstance(rest, Mapping)
    found = [f"{place} requires {name!r}, which it does not have" for name in required if name not in properties]
    if rest is not False and not (is_map and mode is not SchemaMode.STRICT):
        found.append(f"{place} takes fields that nobody named")
    if mode is SchemaMode.STRICT:
        found += [f"{place} does not require {name!r}" for name in properties if name not in required]
    return found
