"""The rules of OpenAI's Responses API: what it refuses, and with which code and param."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from twins.api import Refusal
from twins.fields import fields_of, kinds_of
from twins.openai_service import missing, unknown
from twins.strict_schemas import check_strict

FIELDS = fields_of("responses", "request")
TOOL_FIELDS = kinds_of("responses", "tool")
ITEM_FIELDS = kinds_of("responses", "item")
ID_PREFIX = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
NOUN = {"function_call": "function call", "custom_tool_call": "custom tool call"}
INPUT_PARTS = ("input_text", "input_image", "input_file")
OUTPUT_PARTS = ("output_text", "refusal")
FORMATS = ("text", "grammar")
SYNTAXES = ("lark", "regex")


def check(body: Mapping[str, Any]) -> None:
    """All that can be said of a request without knowing what was stored before."""
    for name in body:
        if name not in FIELDS:
            raise unknown(name)
    if body.get("input") is None and body.get("prompt") is None and body.get("conversation") is None:
        raise missing("input")
    limit = body.get("max_output_tokens")
    if limit is not None and limit < 16:
        raise Refusal(
            400,
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got "
            f"{limit} instead.",
            code="integer_below_min_value",
            param="max_output_tokens",
        )
    check_tools(body.get("tools") or [])
    if isinstance(body.get("input"), list):
        for number, item in enumerate(body["input"]):
            _item(item, f"input[{number}]")


def check_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    for number, tool in enumerate(tools):
        path = f"tools[{number}]"
        if tool.get("type") not in TOOL_FIELDS:
            continue  # the service's own tools
        if not tool.get("name"):
            raise missing(f"{path}.name")
        for name in tool.keys() - TOOL_FIELDS[tool["type"]]:
            raise unknown(f"{path}.{name}")
        check_name(tool["name"], f"{path}.name")
        if tool["type"] == "custom":
            check_format(tool.get("format"), f"{path}.format")
        # Strict is the default of this API: a function that says nothing is strict.
        if tool["type"] == "function" and tool.get("strict") is not False:
            check_strict(tool["name"], tool.get("parameters"), f"{path}.parameters")


def check_format(given: Mapping[str, Any] | None, path: str, *, inner: str | None = None) -> None:
    """The format of a tool that takes free text: any text, or a grammar's (in Chat Completions one level deeper)."""
    if given is None:
        return
    if given.get("type") not in FORMATS:
        raise _invalid(given.get("type"), FORMATS, f"{path}.type")
    if given["type"] == "text":
        return
    grammar, path = (given.get(inner) or {}, f"{path}.{inner}") if inner else (given, path)
    for name in ("syntax", "definition"):
        if not grammar.get(name):
            raise missing(f"{path}.{name}")
    if grammar["syntax"] not in SYNTAXES:
        raise _invalid(grammar["syntax"], SYNTAXES, f"{path}.syntax")
    for name in grammar.keys() - {"type", "syntax", "definition"}:
        raise unknown(f"{path}.{name}")


def check_name(name: str, param: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        raise Refusal(
            400,
            f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            code="invalid_value",
            param=param,
        )


def check_conversation(items: Sequence[Mapping[str, Any]], reasoning_of: Mapping[str, str]) -> None:
    """Each call has its output and each output its call; a call that was thought out comes with its thinking."""
    for call, output in CALLS.items():
        called = [item["call_id"] for item in items if item["type"] == call]
        answered = [item.get("call_id") for item in items if item["type"] == output]
        for call_id in called:
            if call_id not in answered:
                raise Refusal(400, f"No tool output found for {NOUN[call]} {call_id}.", param="input")
        for call_id in answered:
            if call_id not in called:
                raise Refusal(400, f"No tool call found for {NOUN[call]} output with call_id {call_id}.", param="input")
    ids = {item.get("id") for item in items}
    for item in items:
        needed = reasoning_of.get(item.get("id") or "")
        if needed is not None and needed not in ids:
            raise Refusal(
                400,
                f"Item '{item['id']}' of type '{item['type']}' was provided without its required 'reasoning' item: "
                f"'{needed}'.",
                param="input",
            )


def unknown_item(item_id: str) -> Refusal:
    return Refusal(
        404,
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false. Try again with "
        "`store` set to true, or remove this item from your input.",
        param="input",
    )


def unknown_response(response_id: str) -> Refusal:
    return Refusal(
        400,
        f"Previous response with id '{response_id}' not found.",
        code="previous_response_not_found",
        param="previous_response_id",
    )


def _item(item: Any, path: str) -> None:
    kind = str(item.get("type", "message") if isinstance(item, dict) else None)
    if kind not in ITEM_FIELDS:
        raise _invalid(kind, ITEM_FIELDS, path)
    for name in item.keys() - ITEM_FIELDS[kind]:
        raise unknown(f"{path}.{name}")
    prefix = ID_PREFIX.get(kind)
    if prefix and item.get("id") and not item["id"].startswith(prefix):
        raise Refusal(
            400,
            f"Invalid '{path}.id': '{item['id']}'. Expected an ID that begins with '{prefix}'.",
            code="invalid_value",
            param=f"{path}.id",
        )
    required = {"message": "role", "function_call": "arguments", "custom_tool_call": "input", "reasoning": "summary"}
    needed = [required[kind]] if kind in required else ["id" if kind == "item_reference" else "output"]
    for name in [*needed, *(["call_id"] if "call" in kind else [])]:
        if item.get(name) is None:
            raise missing(f"{path}.{name}")
    if kind == "message":
        _message(item, path)


def _message(item: Mapping[str, Any], path: str) -> None:
    roles = ("assistant", "system", "developer", "user")
    if item["role"] not in roles:
        raise _invalid(item["role"], roles, f"{path}.role")
    if item.get("content") is None:
        raise missing(f"{path}.content")
    parts = OUTPUT_PARTS if item["role"] == "assistant" else INPUT_PARTS
    for number, part in enumerate(item["content"] if isinstance(item["content"], list) else []):
        if part.get("type") not in parts:
            raise _invalid(part.get("type"), parts, f"{path}.content[{number}].type")


def _invalid(value: Any, supported: Any, param: str) -> Refusal:
    names = ", ".join(f"'{name}'" for name in supported)
    return Refusal(400, f"Invalid value: '{value}'. Supported values are: {names}.", code="invalid_value", param=param)
