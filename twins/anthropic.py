"""The twin of Anthropic's Messages API: `POST /v1/messages`, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twins import anthropic_rules as rules
from twins.api import KEY_PREFIX, Event, Reading, Refusal, Reply, StreamPart, bearer, retry_headers
from twins.billing import Model, PriceList
from twins.cache import HOUR_MS, MINUTE_MS, Block, MarkedPrompt
from twins.counting import canonical, count, rendered
from twins.playing import Speaker, Turn
from twins.script import ApiName, Fault
from twins.speaking import argument_pieces

KEEP_MS = {"5m": 5 * MINUTE_MS, "1h": HOUR_MS}

#: Type and words of the errors, by status.
ERRORS = {
    400: ("invalid_request_error", "The request was not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "The requested resource could not be found."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: (
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
    ),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out while processing."),
    529: ("overloaded_error", "Overloaded"),
}


class AnthropicApi:
    name = ApiName.ANTHROPIC
    overflow_in_stream = False

    def __init__(self, prices: PriceList) -> None:
        self._prices = prices

    def authorize(self, headers: Mapping[str, str]) -> str:
        key = headers.get("x-api-key") or bearer(headers)
        if key is None:
            raise Refusal(401, "x-api-key header is required", type="authentication_error")
        if not key.startswith(KEY_PREFIX):
            raise Refusal(401, "invalid x-api-key", type="authentication_error")
        if "anthropic-version" not in headers:
            raise Refusal(400, "anthropic-version: header is required")
        return key

    def read(self, body: Any, headers: Mapping[str, str], owner: str) -> Reading:
        model = self._model(body)
        rules.check(body, model, headers.get("anthropic-beta", ""))
        return Reading(
            body=body,
            model_name=body["model"],
            model=model,
            stream=body.get("stream") is True,
            turns=list(_turns(body["messages"])),
            prompt=_prompt(body, model, owner),
            max_output=body["max_tokens"],
            stops=body.get("stop_sequences") or (),
        )

    def count_tokens(self, body: Any, owner: str) -> dict[str, int]:
        whole = {**body, "max_tokens": 1} if isinstance(body, dict) else body
        return {"input_tokens": self.read(whole, {}, owner).prompt.tokens}

    def whole(self, reply: Reply) -> dict[str, Any]:
        said = reply.said
        return {
            **_message(reply),
            "content": [part.block for part in _parts(reply)],
            "stop_reason": said.stop.value,
            "stop_sequence": said.stop_sequence,
            "usage": _usage(reply),
        }

    def events(self, reply: Reply) -> Iterator[StreamPart]:
        start = _usage(reply)
        yield _event("message_start", message={**_message(reply), "usage": {**start, "output_tokens": 1}})
        for index, part in enumerate(_parts(reply)):
            yield _event("content_block_start", index=index, content_block=part.empty)
            if index == 0:
                yield _event("ping")
            for delta, wait_ms in part.deltas:
                yield _event("content_block_delta", wait_ms, index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        said = reply.said
        counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        yield _event(
            "message_delta",
            delta={"stop_reason": said.stop.value, "stop_sequence": said.stop_sequence},
            usage={name: start[name] for name in counts},
        )
        yield _event("message_stop")

    def refusal_of(self, fault: Fault, reading: Reading) -> Refusal:
        status = fault.status or 500
        type_, message = ERRORS.get(status, ("api_error" if status >= 500 else "invalid_request_error", "Error"))
        return Refusal(status, fault.message or message, type=type_, headers=retry_headers(fault))

    def overflow(self, reading: Reading) -> Refusal:
        window = reading.model.window or 200_000
        tokens = max(reading.prompt.tokens, window + 1)
        return Refusal(400, f"prompt is too long: {tokens} tokens > {window} maximum")

    def failure(self, fault: Fault, reading: Reading) -> Refusal:
        return Refusal(529, fault.message or "Overloaded", type="overloaded_error")

    def failed_whole(self, refusal: Refusal, reply: Reply) -> dict[str, Any]:
        raise refusal

    def failing_end(self, refusal: Refusal, reply: Reply, sent: int) -> list[StreamPart]:
        return [Event("error", canonical(self.error_body(refusal, reply.ids.main("req_"))))]

    def error_body(self, refusal: Refusal, request_id: str) -> dict[str, Any]:
        return {
            "type": "error",
            "error": {"type": refusal.type, "message": refusal.message},
            "request_id": request_id,
        }

    def headers(self, request_id: str) -> dict[str, str]:
        return {"request-id": request_id, "anthropic-organization-id": "org-twin"}

    def _model(self, body: Any) -> Model:
        name = body.get("model") if isinstance(body, dict) else None
        if not isinstance(name, str):
            raise Refusal(400, "model: Field required")
        model = self._prices.find(name)
        if model is None or model.caching != "marks":
            raise Refusal(404, f"model: {name}", type="not_found_error")
        return model


#: What the model does not read: marks, and the seal of a thinking block.
_NOT_READ = frozenset({"cache_control", "signature"})


def _turns(messages: list[dict[str, Any]]) -> Iterator[Turn]:
    for message in messages:
        blocks = rules.blocks_of(message["content"])
        results = [_text_of(block.get("content")) for block in blocks if block["type"] == "tool_result"]
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if results:
            yield Turn(Speaker.TOOL, "\n".join(results))
        if text or not results:
            yield Turn(Speaker(message["role"]), text)


def _text_of(content: Any) -> str:
    return "\n".join(block.get("text", "") for block in rules.blocks_of(content))


def _prompt(body: Mapping[str, Any], model: Model, owner: str) -> MarkedPrompt:
    """Tools, system, messages. A change of tool choice or thinking leaves the first two cached, and not the third."""
    settings = canonical([body.get("tool_choice"), body.get("thinking")])
    pieces = [("tool", tool) for tool in body.get("tools") or []]
    pieces += [("system", block) for block in rules.blocks_of(body.get("system") or [])]
    pieces += [
        (f"{message['role']} {settings}", block)
        for message in body["messages"]
        for block in rules.blocks_of(message["content"])
    ]
    automatic = body.get("cache_control")
    if automatic:
        last = max(n for n, (_, block) in enumerate(pieces) if block.get("type") not in rules.UNMARKABLE)
        pieces[last] = (pieces[last][0], {"cache_control": automatic, **pieces[last][1]})
    return MarkedPrompt((owner, body["model"]), [_block(place, block) for place, block in pieces], model.floor)


def _block(place: str, block: Mapping[str, Any]) -> Block:
    inner = block.get("content") if block.get("type") == "tool_result" else None
    parts = inner if isinstance(inner, list) else []
    mark = next((part["cache_control"] for part in [block, *parts] if part.get("cache_control")), None)
    if parts:
        block = {**block, "content": [{k: v for k, v in part.items() if k != "cache_control"} for part in parts]}
    text = rendered(block, without=_NOT_READ)
    return Block(f"{place}\n{text}", count(text), KEEP_MS[mark.get("ttl", "5m")] if mark else None)


def _message(reply: Reply) -> dict[str, Any]:
    return {
        "id": reply.ids.main("msg_"),
        "type": "message",
        "role": "assistant",
        "model": reply.reading.model_name,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


@dataclass(frozen=True, slots=True)
class _Part:
    """A block of the answer: as it is, as its stream begins, and what its stream adds, each with the wait before it."""

    block: dict[str, Any]
    empty: dict[str, Any]
    deltas: Sequence[tuple[dict[str, Any], int]]


def _parts(reply: Reply) -> Iterator[_Part]:
    said = reply.said
    if said.thinking:
        block = {"type": "thinking", "thinking": said.thinking, "signature": rules.signature_of(said.thinking)}
        thought = {"type": "thinking_delta", "thinking": said.thinking}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        yield _Part(block, {**block, "thinking": "", "signature": ""}, [(thought, 0), (signed, 0)])
    if said.text:
        deltas = [({"type": "text_delta", "text": piece}, wait_ms) for piece, wait_ms in said.pieces]
        yield _Part({"type": "text", "text": said.text}, {"type": "text", "text": ""}, deltas)
    for tool in said.tools:
        head = {"type": "tool_use", "id": tool.id or reply.ids.make("toolu_"), "name": tool.name}
        pieces = ["", *argument_pieces(tool.arguments)]
        deltas = [({"type": "input_json_delta", "partial_json": piece}, 0) for piece in pieces]
        yield _Part({**head, "input": tool.input}, {**head, "input": {}}, deltas)


def _usage(reply: Reply) -> dict[str, Any]:
    """The input in three disjoint parts: `input_tokens` is only what was neither read nor written."""
    bill, shown = reply.bill, reply.said.usage
    return {
        "input_tokens": bill.fresh * shown,
        "cache_creation_input_tokens": bill.written * shown,
        "cache_read_input_tokens": bill.read * shown,
        "cache_creation": {
            "ephemeral_5m_input_tokens": (bill.written - bill.written_1h) * shown,
            "ephemeral_1h_input_tokens": bill.written_1h * shown,
        },
        "output_tokens": bill.output * shown,
        "service_tier": "standard",
    }


def _event(name: str, wait_ms: int = 0, **fields: Any) -> Event:
    return Event(name, canonical({"type": name, **fields}), wait_ms)
