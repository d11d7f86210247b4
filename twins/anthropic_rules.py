"""The rules of Anthropic's Messages API: what it refuses with a 400, in the words in which it does.

Checked in the order in which `check` lists them. The wording is the service's as users report it; only the parts
that a client might look at are meant to be exact: the path in front, and the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twins.api import Refusal
from twins.billing import Model
from twins.fields import fields_of, kinds_of

MOST_MARKS = 4
KEEP = ("5m", "1h")

FIELDS = fields_of("anthropic", "request")
MESSAGE_FIELDS = fields_of("anthropic", "message")
TOOL_FIELDS = fields_of("anthropic", "tool")
BLOCK_FIELDS = kinds_of("anthropic", "block")
#: Fields that a beta header opens.
BETA_FIELDS = {"context_management": "context-management-", "mcp_servers": "mcp-client-"}
#: Blocks that cannot bear a mark.
UNMARKABLE = ("thinking", "redacted_thinking")
ROLE_OF_BLOCK = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}


def check(body: Any, model: Model, betas: str) -> None:
    _fields(body, betas)
    _tools(body.get("tools") or [])
    _system(body.get("system"))
    _messages(body["messages"], model)
    _marks(body)
    _tool_results(body["messages"])
    _settings(body, model)
    _thinking(body)


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """A string is short for one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def marked_places(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All places that can bear a mark, in the order in which the service reads them."""
    yield from body.get("tools") or []
    yield from blocks_of(body.get("system") or [])
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            yield block
            if block.get("type") == "tool_result" and not isinstance(block.get("content"), str):
                yield from block.get("content") or []


def signature_of(thinking: str) -> str:
    """The twin's signature of a thinking block. It is checked when the block comes back."""
    return "twin" + hashlib.sha256(thinking.encode("utf-8", "surrogatepass")).hexdigest()


def _no(message: str) -> Refusal:
    return Refusal(400, message)


def _fields(body: Any, betas: str) -> None:
    if not isinstance(body, dict):
        raise _no("Input should be a valid dictionary or object to extract fields from")
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            raise _no(f"{name}: Field required")
    for name in body:
        if name not in FIELDS and not (name in BETA_FIELDS and BETA_FIELDS[name] in betas):
            raise _no(f"{name}: Extra inputs are not permitted")
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise _no("max_tokens: Input should be a valid integer")
    if limit < 0:
        raise _no("max_tokens: Input should be greater than or equal to 0")
    if not isinstance(body["messages"], list):
        raise _no("messages: Input should be a valid list")
    if not body["messages"]:
        raise _no("messages: at least one message is required")
    for number, message in enumerate(body["messages"]):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise _no(f"messages.{number}.{'role' if 'content' in message else 'content'}: Field required")
        for name in message.keys() - MESSAGE_FIELDS:
            raise _no(f"messages.{number}.{name}: Extra inputs are not permitted")


def _marks(body: Mapping[str, Any]) -> None:
    marks = [place["cache_control"] for place in marked_places(body) if place.get("cache_control")]
    automatic = body.get("cache_control") or {}
    target = _last_markable(body).get("cache_control") if automatic else None
    if target and target.get("ttl", "5m") != automatic.get("ttl", "5m"):
        raise _no(
            f"Top-level cache_control has ttl='{automatic.get('ttl', '5m')}' but the target block already has "
            f"cache_control with ttl='{target.get('ttl', '5m')}'"
        )
    found = len(marks) + bool(automatic and not target)
    if found > MOST_MARKS:
        raise _no(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}.")
    for mark in [*marks, *([automatic] if automatic else [])]:
        if mark.get("type") != "ephemeral" or mark.keys() - {"type", "ttl"}:
            raise _no("cache_control: Input tag should be 'ephemeral', with an optional `ttl`")
        if mark.get("ttl", "5m") not in KEEP:
            raise _no("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    times = [mark.get("ttl", "5m") for mark in [*marks, *([automatic] if automatic else [])]]
    if "5m" in times and "1h" in times[times.index("5m") :]:
        raise _no(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def _last_markable(body: Mapping[str, Any]) -> Mapping[str, Any]:
    blocks = [block for message in body["messages"] for block in blocks_of(message["content"])]
    return next((block for block in reversed(blocks) if block.get("type") not in UNMARKABLE), {})


def _tools(tools: Any) -> None:
    names = []
    for number, tool in enumerate(tools):
        if tool.get("type") not in (None, "custom"):
            continue  # the service's own tools have fields of their own
        path = f"tools.{number}.custom"
        for name in ("name", "input_schema"):
            if name not in tool:
                raise _no(f"{path}.{name}: Field required")
        for name in tool.keys() - TOOL_FIELDS:
            raise _no(f"{path}.{name}: Extra inputs are not permitted")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            raise _no(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["input_schema"].get("type") != "object":
            raise _no(f"{path}.input_schema.type: Input should be 'object'")
        names.append(tool["name"])
    if len(set(names)) < len(names):
        raise _no("tools: Tool names must be unique.")


def _system(system: Any) -> None:
    for number, block in enumerate(blocks_of(system or [])):
        if block.get("type") != "text":
            raise _no(f"system.{number}.type: Input should be 'text'")
        if not block.get("text"):
            raise _no("system: text content blocks must be non-empty")


def _messages(messages: Sequence[Mapping[str, Any]], model: Model) -> None:
    if messages[0]["role"] == "assistant":
        raise _no('messages: first message must use the "user" role')
    for number, message in enumerate(messages):
        role, last = message["role"], number == len(messages) - 1
        if role == "system":
            _system_message(messages, number, model)
        elif role not in ("user", "assistant"):
            raise _no(f"messages.{number}.role: Input should be 'user', 'assistant' or 'system'")
        blocks = blocks_of(message["content"])
        if not blocks and not (last and role == "assistant"):
            raise _no(
                f"messages.{number}: all messages must have non-empty content except for the optional final assistant "
                "message"
            )
        for place, block in enumerate(blocks):
            _block(block, role, f"messages.{number}.content.{place}")
    if messages[-1]["role"] == "assistant":
        _prefill(blocks_of(messages[-1]["content"]), model)


def _system_message(messages: Sequence[Mapping[str, Any]], number: int, model: Model) -> None:
    if not model.system_messages:
        raise _no(f"messages.{number}: role 'system' is not supported on this model")
    if number == 0 or messages[number - 1]["role"] != "user":
        raise _no(f"messages.{number}: a 'system' message must come right after a 'user' message")


def _block(block: Any, role: str, path: str) -> None:
    kind = str(block.get("type") if isinstance(block, dict) else None)
    if kind not in BLOCK_FIELDS:
        known = ", ".join(f"'{name}'" for name in BLOCK_FIELDS)
        raise _no(f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {known}")
    for name in block.keys() - BLOCK_FIELDS[kind]:
        raise _no(f"{path}.{kind}.{name}: Extra inputs are not permitted")
    if ROLE_OF_BLOCK.get(kind, role) != role:
        raise _no(f"{path}: `{kind}` blocks can only be in `{ROLE_OF_BLOCK[kind]}` messages")
    if kind == "text" and not block.get("text"):
        marked = block.get("cache_control") is not None
        raise _no(
            "cache_control cannot be set for empty text blocks"
            if marked
            else "messages: text content blocks must be non-empty"
        )
    if kind == "text" and not block["text"].strip():
        raise _no("messages: text content blocks must contain non-whitespace text")
    if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block.get("id", "")):
        raise _no(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind == "tool_use" and not isinstance(block.get("input"), dict):
        raise _no(f"{path}.tool_use.input: Input should be a valid dictionary")
    if kind == "thinking" and block.get("signature") != signature_of(block.get("thinking", "")):
        raise _no(f"{path}: Invalid `signature` in `thinking` block")


def _prefill(blocks: Sequence[Mapping[str, Any]], model: Model) -> None:
    if not model.prefill:
        raise _no(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    if blocks and blocks[-1].get("type") == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        raise _no("messages: final assistant content cannot end with trailing whitespace")


def _tool_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Each call has its result at the beginning of the next message, and each result its call in the one before."""
    merged = _merged(messages)
    seen: set[str] = set()
    for place, (number, role, blocks) in enumerate(merged):
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(calls)) < len(calls) or seen & set(calls):
            raise _no(f"messages.{number}: `tool_use` ids must be unique")
        seen |= set(calls)
        following = merged[place + 1] if place + 1 < len(merged) else None
        answered = _leading_results(following[2]) if following and following[1] == "user" else []
        missing = [call for call in calls if call not in answered]
        if missing:
            raise _no(
                f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        before = [block["id"] for block in merged[place - 1][2] if block["type"] == "tool_use"] if place else []
        results = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
        for result in results:
            if role == "user" and result not in before:
                raise _no(
                    f"messages.{number}.content: unexpected `tool_use_id` found in `tool_result` blocks: {result}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        if len(set(results)) < len(results):
            raise _no(
                f"messages.{number}: each tool_use must have a single result. Found multiple `tool_result` blocks"
            )


def _merged(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, str, list[dict[str, Any]]]]:
    """Consecutive messages of one role are one message to the service; `system` ones in between do not count."""
    merged: list[tuple[int, str, list[dict[str, Any]]]] = []
    for number, message in enumerate(messages):
        if message["role"] == "system":
            continue
        if merged and merged[-1][1] == message["role"]:
            merged[-1][2].extend(blocks_of(message["content"]))
        else:
            merged.append((number, message["role"], blocks_of(message["content"])))
    return merged


def _leading_results(blocks: Sequence[Mapping[str, Any]]) -> list[Any]:
    results = []
    for block in blocks:
        if block["type"] != "tool_result":
            break
        results.append(block.get("tool_use_id"))
    return results


def _settings(body: Mapping[str, Any], model: Model) -> None:
    for name in ("temperature", "top_p", "top_k"):
        if name in body and not model.sampling:
            raise _no(f"`{name}` is deprecated for this model.")
    if not 0 <= body.get("temperature", 1) <= 1:
        raise _no("temperature: range: 0..1")
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not body.get("tools"):
        raise _no("tool_choice may only be specified while providing tools")
    names = [tool.get("name") for tool in body["tools"]]
    if choice.get("type") not in ("auto", "any", "tool", "none"):
        raise _no("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise _no(f"Tool '{choice.get('name')}' not found in provided tools")


def _thinking(body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    budget = thinking.get("budget_tokens", 0)
    if budget < 1024:
        raise _no("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if budget >= body["max_tokens"]:
        raise _no("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise _no("Thinking may not be enabled when tool_choice forces tool use.")
    answers = [(number, message) for number, message in enumerate(body["messages"]) if message["role"] == "assistant"]
    if not answers:
        return
    number, newest = answers[-1]
    blocks = blocks_of(newest["content"])
    calls_tools = any(block["type"] == "tool_use" for block in blocks)
    if calls_tools and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
        raise _no(
            f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a "
            "thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )
