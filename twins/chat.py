"""The twins of Chat Completions: OpenAI's own, and a compatible provider with habits of its own (`Quirk`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from twins import chat_rules as rules
from twins import openai_service as service
from twins.api import Comment, Event, Reading, Refusal, Reply, SaidTool, StreamPart
from twins.billing import Caching, Model, PriceList
from twins.cache import Prompt
from twins.counting import canonical, rendered
from twins.openai_service import Piece
from twins.playing import Speaker, Turn
from twins.script import ApiName, Fault, Quirk, StopReason
from twins.speaking import argument_pieces

FINISH = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.REFUSAL: "content_filter",
}


class ChatApi:
    overflow_in_stream = False

    def __init__(self, prices: PriceList, quirks: Iterable[Quirk] | None = None) -> None:
        """With quirks, even none, it is the compatible provider: it takes any model, and ignores unknown fields."""
        self._prices = prices
        self._compatible = quirks is not None
        self._quirks = frozenset(quirks or ())
        self.name = ApiName.COMPATIBLE if self._compatible else ApiName.CHAT

    def authorize(self, headers: Mapping[str, str]) -> str:
        return service.authorize(headers)

    def read(self, body: Any, headers: Mapping[str, str], owner: str) -> Reading:
        name, model = self._model(body)
        if self._compatible:
            rules.check_messages(body)
        else:
            rules.check(body, model)
            service.check_settings(body, model)
        stops = body.get("stop") or ()
        return Reading(
            body=body,
            model_name=name,
            model=model,
            stream=body.get("stream") is True,
            turns=[_turn(message) for message in body["messages"]],
            prompt=_prompt(body, model, owner),
            max_output=body.get("max_completion_tokens") or body.get("max_tokens"),
            stops=[stops] if isinstance(stops, str) else stops,
            free_text_tools=frozenset(
                tool["custom"]["name"] for tool in body.get("tools") or [] if tool.get("type") == "custom"
            ),
        )

    def whole(self, reply: Reply) -> dict[str, Any]:
        said = reply.said
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None, "refusal": None}
        if said.thinking and Quirk.REASONING_CONTENT in self._quirks:
            message["reasoning_content"] = said.thinking
        if said.tools:
            message["tool_calls"] = [self._call(tool, reply) for tool in said.tools]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish(reply)}
        usage = {"usage": _usage(reply)} if self._tells_usage(reply) else {}
        return {**_head(reply, "chat.completion"), "choices": [choice], **usage}

    def events(self, reply: Reply) -> Iterator[StreamPart]:
        if Quirk.COMMENTS in self._quirks:
            yield Comment("PROCESSING")
        asked = (reply.reading.body.get("stream_options") or {}).get("include_usage") is True
        shown = asked and self._tells_usage(reply)
        head = {**_head(reply, "chat.completion.chunk"), **({"usage": None} if shown else {})}
        for delta, wait_ms in self._deltas(reply):
            yield _chunk(head, delta, None, wait_ms)
        yield _chunk(head, {}, self._finish(reply))
        if shown:
            yield Event(None, canonical({**head, "choices": [], "usage": _usage(reply)}))
        if Quirk.NO_DONE not in self._quirks:
            yield Event(None, "[DONE]")

    def refusal_of(self, fault: Fault, reading: Reading) -> Refusal:
        return service.refusal_of(fault, reading.model_name)

    def overflow(self, reading: Reading) -> Refusal:
        window = reading.model.window or 128_000
        tokens = max(reading.prompt.tokens, window + 1)
        return Refusal(
            400,
            f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
            param="messages",
        )

    def failure(self, fault: Fault, reading: Reading) -> Refusal:
        return Refusal(500, fault.message or service.ERRORS[500][2], type="server_error", code=fault.code)

    def failed_whole(self, refusal: Refusal, reply: Reply) -> dict[str, Any]:
        raise refusal

    def failing_end(self, refusal: Refusal, reply: Reply, sent: int) -> list[StreamPart]:
        return [Event(None, canonical(self.error_body(refusal, "")))]

    def error_body(self, refusal: Refusal, request_id: str) -> Any:
        if Quirk.PLAIN_ERRORS in self._quirks:
            return {"error": {"message": refusal.message, "code": refusal.status}}
        return service.error_body(refusal)

    def headers(self, request_id: str) -> dict[str, str]:
        return service.headers(request_id)

    def _model(self, body: Any) -> tuple[str, Model]:
        if not self._compatible:
            return service.find_model(self._prices, body, unknown_status=404)
        name = body.get("model") if isinstance(body, dict) else None
        if not isinstance(name, str):
            raise service.missing("model")
        return name, self._prices.find(name) or UNPRICED

    def _deltas(self, reply: Reply) -> Iterator[tuple[dict[str, Any], int]]:
        said = reply.said
        yield {"role": "assistant", "content": "" if said.text or not said.tools else None, "refusal": None}, 0
        if said.thinking and Quirk.REASONING_CONTENT in self._quirks:
            yield {"reasoning_content": said.thinking}, 0
        for piece, wait_ms in said.pieces:
            yield {"content": piece}, wait_ms
        for index, tool in enumerate(said.tools):
            for call in self._call_pieces(tool, reply):
                yield {"tool_calls": [{"index": index, **call}]}, 0

    def _call(self, tool: SaidTool, reply: Reply) -> dict[str, Any]:
        head = {} if Quirk.NO_CALL_IDS in self._quirks else {"id": tool.id or reply.ids.make("call_")}
        if tool.free_text:
            return {**head, "type": "custom", "custom": {"name": tool.name, "input": tool.arguments}}
        return {**head, "type": "function", "function": {"name": tool.name, "arguments": tool.arguments}}

    def _call_pieces(self, tool: SaidTool, reply: Reply) -> Iterator[dict[str, Any]]:
        whole = self._call(tool, reply)
        kind, argument = ("custom", "input") if tool.free_text else ("function", "arguments")
        if Quirk.WHOLE_TOOL_CALLS in self._quirks:
            yield whole
            return
        yield {**whole, kind: {**whole[kind], argument: ""}}
        for piece in argument_pieces(tool.arguments):
            yield {kind: {argument: piece}}

    def _finish(self, reply: Reply) -> str:
        finish = FINISH[reply.said.stop]
        return "stop" if finish == "tool_calls" and Quirk.STOP_DESPITE_TOOLS in self._quirks else finish

    def _tells_usage(self, reply: Reply) -> bool:
        return reply.said.usage and Quirk.NO_USAGE not in self._quirks


#: A model of a compatible provider that no table knows: it costs nothing and is cached like OpenAI's older ones.
UNPRICED = Model(
    input=0, output=0, floor=1024, caching=Caching.AUTOMATIC, read=0.1, write=1.0, write_1h=1.0, sampling=True
)


def _turn(message: Mapping[str, Any]) -> Turn:
    names = {"developer": Speaker.SYSTEM, "function": Speaker.TOOL}
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    return Turn(names.get(message["role"]) or Speaker(message["role"]), text)


def _prompt(body: Mapping[str, Any], model: Model, owner: str) -> Prompt:
    scope = (
        *(owner, body["model"], body.get("prompt_cache_key"), body.get("service_tier") or "auto"),
        *(body.get("reasoning_effort"), body.get("verbosity")),
    )
    pieces = [Piece(rendered(tool)) for tool in body.get("tools") or []]
    pieces += [Piece(rendered(body["response_format"]))] if body.get("response_format") else []
    for message in body["messages"]:
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        plain = [{key: value for key, value in part.items() if key != "prompt_cache_breakpoint"} for part in parts]
        pieces.append(
            Piece(
                rendered({**message, "content": plain or [{"type": "text", "text": content or ""}]}),
                boundary=message["role"] in ("user", "tool"),
                breakpoint=any(part.get("prompt_cache_breakpoint") for part in parts),
            )
        )
    return service.prompt_of(body, model, scope, pieces)


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": reply.ids.main("chatcmpl-"),
        "object": kind,
        "created": reply.now_s,
        "model": reply.reading.model_name,
        "service_tier": "default",
        "system_fingerprint": "fp_twin",
    }


def _chunk(head: Mapping[str, Any], delta: Mapping[str, Any], finish: str | None, wait_ms: int = 0) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return Event(None, canonical({**head, "choices": [choice]}), wait_ms)


def _usage(reply: Reply) -> dict[str, Any]:
    """`prompt_tokens` is the whole input; what was read from the cache is a part of it."""
    bill = reply.bill
    written = {"cache_write_tokens": bill.written} if reply.reading.model.caching is Caching.BREAKPOINTS else {}
    return {
        "prompt_tokens": bill.input,
        "completion_tokens": bill.output,
        "total_tokens": bill.input + bill.output,
        "prompt_tokens_details": {"cached_tokens": bill.read, "audio_tokens": 0, **written},
        "completion_tokens_details": {"reasoning_tokens": reply.said.thinking_tokens, "audio_tokens": 0},
    }
