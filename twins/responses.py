"""The twin of OpenAI's Responses API: `POST /v1/responses`, whole or as a stream of events, with stored responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twins import openai_service as service
from twins import responses_rules as rules
from twins.api import Reading, Refusal, Reply, StreamPart
from twins.billing import PriceList
from twins.responses_items import normal, prompt_of, turn_of
from twins.responses_stream import item_events, numbered
from twins.script import ApiName, Fault, StopReason

#: Why a response is incomplete.
INCOMPLETE = {StopReason.MAX_TOKENS: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
#: Fields of the request that a response repeats, with what it says where the request is silent.
REPEATED: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


class ResponsesApi:
    name = ApiName.RESPONSES
    overflow_in_stream = True

    def __init__(self, prices: PriceList) -> None:
        self._prices = prices
        #: By response id: who asked, and the whole conversation up to and with that response.
        self._stored: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any]]] = {}
        #: Which thinking a stored call came from.
        self._reasoning_of: dict[str, str] = {}

    def authorize(self, headers: Mapping[str, str]) -> str:
        return service.authorize(headers)

    def read(self, body: Any, headers: Mapping[str, str], owner: str) -> Reading:
        name, model = service.find_model(self._prices, body, unknown_status=400)
        rules.check(body)
        service.check_settings(body, model)
        items = self._conversation(body, owner)
        rules.check_conversation(items, self._reasoning_of)
        return Reading(
            body=body,
            model_name=name,
            model=model,
            stream=body.get("stream") is True,
            turns=[turn_of(item) for item in items if item["type"] != "reasoning"],
            prompt=prompt_of(body, model, owner, items),
            max_output=body.get("max_output_tokens"),
            free_text_tools=frozenset(tool["name"] for tool in body.get("tools") or [] if tool.get("type") == "custom"),
            extra={"items": items, "owner": owner},
        )

    def retrieve(self, response_id: str, owner: str) -> dict[str, Any]:
        whose, _, response = self._stored.get(response_id, ("", [], {}))
        if whose != owner:
            raise Refusal(404, f"Response with id '{response_id}' not found.")
        return response

    def whole(self, reply: Reply) -> dict[str, Any]:
        response = self._finished(reply, _head(reply), list(_output(reply)))
        self._remember(reply, response)
        return response

    def events(self, reply: Reply) -> Iterator[StreamPart]:
        head = _head(reply)
        output = list(_output(reply))
        response = self._finished(reply, head, output)
        self._remember(reply, response)
        ended = "response.incomplete" if response["status"] == "incomplete" else "response.completed"
        yield from numbered(
            [
                ("response.created", {"response": head}, 0),
                ("response.in_progress", {"response": head}, 0),
                *(event for place, item in enumerate(output) for event in item_events(place, item, reply.said)),
                (ended, {"response": self.last_word(response)}, 0),
            ]
        )

    def last_word(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response as the last event of a stream tells it."""
        return response

    def refusal_of(self, fault: Fault, reading: Reading) -> Refusal:
        return service.refusal_of(fault, reading.model_name)

    def overflow(self, reading: Reading) -> Refusal:
        return Refusal(
            400,
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
            param="input",
        )

    def failure(self, fault: Fault, reading: Reading) -> Refusal:
        message = fault.message or "An error occurred while processing your request. You can retry your request."
        return Refusal(500, message, type="server_error", code=fault.code or "server_error")

    def failed_whole(self, refusal: Refusal, reply: Reply) -> dict[str, Any]:
        """A failed response is a response: its status is in the body."""
        head = _head(reply)
        self._stored.pop(head["id"], None)
        error = {"code": refusal.code or "server_error", "message": refusal.message}
        return {**head, "status": "failed", "error": error}

    def failing_end(self, refusal: Refusal, reply: Reply, sent: int) -> list[StreamPart]:
        """The service tells it twice: an `error` event, in which the error is nested, and `response.failed`."""
        error = service.error_body(refusal)["error"]
        failed = self.failed_whole(refusal, reply)
        return list(numbered([("error", {"error": error}, 0), ("response.failed", {"response": failed}, 0)], sent))

    def error_body(self, refusal: Refusal, request_id: str) -> Any:
        return service.error_body(refusal)

    def headers(self, request_id: str) -> dict[str, str]:
        return service.headers(request_id)

    def _conversation(self, body: Mapping[str, Any], owner: str) -> list[dict[str, Any]]:
        """The items of the stored responses before, and those that came with the request."""
        before: list[dict[str, Any]] = []
        previous = body.get("previous_response_id")
        if previous is not None:
            whose, before, _ = self._stored.get(previous, ("", [], {}))
            if whose != owner:
                raise rules.unknown_response(previous)
        given = body.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        return [*before, *(self._resolved(item, owner) for item in items)]

    def _resolved(self, item: Mapping[str, Any], owner: str) -> dict[str, Any]:
        kind = item.get("type", "message")
        if kind == "item_reference" or (kind == "reasoning" and not item.get("encrypted_content")):
            for whose, items, _ in self._stored.values():
                for stored in items:
                    if whose == owner and stored.get("id") == item["id"]:
                        return stored
            raise rules.unknown_item(str(item.get("id")))
        return normal(item)

    def _finished(self, reply: Reply, head: dict[str, Any], output: list[dict[str, Any]]) -> dict[str, Any]:
        reason = INCOMPLETE.get(reply.said.stop)
        return {
            **head,
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "completed_at": None if reason else reply.now_s,
            "output": output,
            "usage": _usage(reply),
        }

    def _remember(self, reply: Reply, response: dict[str, Any]) -> None:
        thoughts = [item["id"] for item in response["output"] if item["type"] == "reasoning"]
        if thoughts:
            calls = [item for item in response["output"] if item["type"] in rules.CALLS]
            self._reasoning_of |= {item["id"]: thoughts[0] for item in calls}
        if reply.reading.body.get("store") is not False:
            extra = reply.reading.extra
            items = [*extra["items"], *(normal(item) for item in response["output"])]
            self._stored[response["id"]] = (extra["owner"], items, response)


def _head(reply: Reply) -> dict[str, Any]:
    body = reply.reading.body
    repeated = {name: silent if body.get(name) is None else body[name] for name, silent in REPEATED.items()}
    return {
        **repeated,
        "id": reply.ids.main("resp_"),
        "object": "response",
        "created_at": reply.now_s,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": reply.reading.model_name,
        "output": [],
        "usage": None,
    }


def _output(reply: Reply) -> Iterator[dict[str, Any]]:
    said, ids = reply.said, reply.ids
    status = "incomplete" if said.stop in INCOMPLETE else "completed"
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        secret = "reasoning.encrypted_content" in (reply.reading.body.get("include") or [])
        sealed = {"encrypted_content": ids.make("gAAAA", 40)} if secret else {}
        yield {"id": ids.make("rs_"), "type": "reasoning", "summary": summary, **sealed}
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        yield {"id": ids.make("msg_"), "type": "message", "status": status, "role": "assistant", "content": [part]}
    for tool in said.tools:
        call_id = tool.id or ids.make("call_")
        if tool.free_text:
            head = {"id": ids.make("ctc_"), "type": "custom_tool_call", "input": tool.arguments}
        else:
            head = {"id": ids.make("fc_"), "type": "function_call", "arguments": tool.arguments}
        yield {**head, "status": status, "call_id": call_id, "name": tool.name}


def _usage(reply: Reply) -> dict[str, Any] | None:
    """`input_tokens` is the whole input; what was read from the cache is a part of it."""
    bill, said = reply.bill, reply.said
    if not said.usage:
        return None
    return {
        "input_tokens": bill.input,
        "input_tokens_details": {"cached_tokens": bill.read, "cache_write_tokens": bill.written},
        "output_tokens": bill.output,
        "output_tokens_details": {"reasoning_tokens": said.thinking_tokens},
        "total_tokens": bill.input + bill.output,
    }
