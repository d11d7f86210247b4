"""The items of a Responses conversation: as the model reads them, as a script sees them, as the cache counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twins import openai_service as service
from twins import responses_rules as rules
from twins.billing import Model
from twins.cache import Prompt
from twins.counting import canonical, rendered
from twins.openai_service import Piece
from twins.playing import Speaker, Turn


def normal(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as the model reads it, however the client wrote it; with its id, which is not part of the prompt."""
    kind = item.get("type", "message")
    kept: dict[str, Any] = {"type": kind, "id": item.get("id")}
    match kind:
        case "message":
            parts = item["content"] if isinstance(item["content"], list) else [{"text": item["content"]}]
            plain = [{**part, "type": "text"} if "text" in part else dict(part) for part in parts]
            dropped = ("annotations", "logprobs", "prompt_cache_breakpoint")
            content = [{key: value for key, value in part.items() if key not in dropped} for part in plain]
            marked = any(part.get("prompt_cache_breakpoint") for part in parts)
            return {**kept, "role": item["role"], "content": content, "breakpoint": marked}
        case "reasoning":
            return {**kept, "summary": item["summary"]}
        case _:
            names = ("call_id", "name", "arguments", "input", "output")
            return {**kept, **{name: item[name] for name in names if item.get(name) is not None}}


def turn_of(item: Mapping[str, Any]) -> Turn:
    match item["type"]:
        case "message":
            speaker = Speaker.SYSTEM if item["role"] == "developer" else Speaker(item["role"])
            return Turn(speaker, "\n".join(part.get("text", "") for part in item["content"]))
        case "function_call_output" | "custom_tool_call_output":
            output = item["output"]
            return Turn(Speaker.TOOL, output if isinstance(output, str) else canonical(output))
        case _:
            return Turn(Speaker.ASSISTANT, "")


def prompt_of(body: Mapping[str, Any], model: Model, owner: str, items: Sequence[Mapping[str, Any]]) -> Prompt:
    """Tools, the format of the text, instructions, items. The scope is what the SDK names as reasons of a miss."""
    text = body.get("text") or {}
    effort = (body.get("reasoning") or {}).get("effort")
    scope = (
        *(owner, body["model"], body.get("prompt_cache_key"), body.get("service_tier") or "auto"),
        *(effort, text.get("verbosity")),
    )
    pieces = [Piece(rendered(tool)) for tool in body.get("tools") or []]
    pieces += [Piece(rendered(text["format"]))] if text.get("format") else []
    pieces += (
        [Piece(rendered({"role": "developer", "content": body["instructions"]}))] if body.get("instructions") else []
    )
    pieces += [
        Piece(
            rendered(item, without=frozenset({"id", "breakpoint"})),
            boundary=item.get("role") == "user" or item["type"] in rules.CALLS.values(),
            breakpoint=bool(item.get("breakpoint")),
        )
        for item in items
    ]
    return service.prompt_of(body, model, scope, pieces)
