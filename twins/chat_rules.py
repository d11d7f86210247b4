"""The rules of OpenAI's Chat Completions API: what it refuses, and with which code and param."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twins.api import Refusal
from twins.billing import Model
from twins.fields import fields_of
from twins.openai_service import missing, unknown, unsupported
from twins.responses_rules import check_format, check_name
from twins.strict_schemas import check_strict

FIELDS = fields_of("chat", "request")
ROLES = ("developer", "system", "user", "assistant", "tool", "function")


def check(body: Any, model: Model) -> None:
    for name in body:
        if name not in FIELDS:
            raise unknown(name)
    if body.get("max_tokens") is not None and not model.sampling:
        raise unsupported("max_tokens", " Use 'max_completion_tokens' instead.")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise Refusal(
            400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    check_messages(body)
    _tools(body.get("tools"))


def check_messages(body: Any) -> None:
    """What every service that speaks this API asks of a conversation."""
    messages = body.get("messages")
    if messages is None:
        raise missing("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal(
            400,
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            code="empty_array",
            param="messages",
        )
    for number, message in enumerate(messages):
        _message(message, f"messages.[{number}]")
    _tool_messages(messages)


def _message(message: Any, path: str) -> None:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        names = ", ".join(f"'{name}'" for name in ROLES)
        raise Refusal(
            400, f"Invalid value: '{role}'. Supported values are: {names}.", code="invalid_value", param=f"{path}.role"
        )
    silent = message.get("content") is None
    if silent and not (role == "assistant" and (message.get("tool_calls") or message.get("function_call"))):
        raise Refusal(
            400,
            "Invalid value for 'content': expected a string, got null.",
            param=f"{path}.content",
        )
    if role == "tool" and not message.get("tool_call_id"):
        raise missing(f"{path}.tool_call_id")
    for call in message.get("tool_calls") or []:
        arguments = (call.get("function") or {}).get("arguments", "")
        if call.get("type") == "function" and not isinstance(arguments, str):
            raise Refusal(
                400,
                "Invalid type for 'tool_calls[0].function.arguments': expected a string, but got an object instead.",
                code="invalid_type",
                param=f"{path}.tool_calls",
            )


def _tool_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """The results of a message's calls stand right behind it, all of them, and nothing else does."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise Refusal(
                    400,
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{number}].role",
                )
            open_calls.remove(message["tool_call_id"])
            continue
        _all_answered(open_calls)
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
    _all_answered(open_calls)


def _all_answered(open_calls: Sequence[str]) -> None:
    if open_calls:
        raise Refusal(
            400,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
            param="messages",
        )


def _tools(tools: Any) -> None:
    if tools is not None and not tools:
        raise Refusal(
            400,
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            code="empty_array",
            param="tools",
        )
    for number, tool in enumerate(tools or []):
        kind = tool.get("type")
        if kind not in ("function", "custom"):
            raise Refusal(
                400,
                f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'.",
                code="invalid_value",
                param=f"tools[{number}].type",
            )
        inner = tool.get(kind) or {}
        if not inner.get("name"):
            raise missing(f"tools[{number}].{kind}.name")
        check_name(inner["name"], f"tools[{number}].{kind}.name")
        if kind == "custom":
            check_format(inner.get("format"), f"tools[{number}].custom.format", inner="grammar")
        if inner.get("strict") is True:  # in this API a function that says nothing is not strict
            check_strict(inner["name"], inner.get("parameters"), f"tools[{number}].function.parameters")
