"""The twin of the Codex backend of ChatGPT: the Responses wire with rules and error bodies of its own.

Only streams; stores nothing; takes fewer fields; and its last event does not repeat the output that was streamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twins.api import KEY_PREFIX, Reading, Refusal, Reply, StreamPart, bearer, retry_headers
from twins.billing import PriceList
from twins.fields import fields_of
from twins.responses import ResponsesApi
from twins.responses_stream import numbered
from twins.script import ApiName, CodexOutput, Fault

FIELDS = fields_of("codex", "request")
#: The type of errors whose body is `{"detail": …}`: those of the gate in front of the model.
GATE = "gate"
USAGE_LIMIT = "usage_limit_reached"


class CodexApi(ResponsesApi):
    name = ApiName.CODEX

    def __init__(self, prices: PriceList, output: CodexOutput) -> None:
        super().__init__(prices)
        self._output = output

    def authorize(self, headers: Mapping[str, str]) -> str:
        key = bearer(headers)
        if key is None or not key.startswith(KEY_PREFIX):
            raise Refusal(401, "Unauthorized", type=GATE)
        return key

    def read(self, body: Any, headers: Mapping[str, str], owner: str) -> Reading:
        _check(body)
        return super().read({key: value for key, value in body.items() if key != "client_metadata"}, headers, owner)

    def last_word(self, response: dict[str, Any]) -> dict[str, Any]:
        match self._output:
            case CodexOutput.FULL:
                return response
            case CodexOutput.EMPTY:
                return {**response, "output": []}
            case CodexOutput.ABSENT:
                return {key: value for key, value in response.items() if key != "output"}

    def refusal_of(self, fault: Fault, reading: Reading) -> Refusal:
        if fault.status == 429:
            message = fault.message or "The usage limit has been reached"
            return Refusal(429, message, type=USAGE_LIMIT, headers=retry_headers(fault))
        if fault.status in (401, 403, 404):
            words = {401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
            return Refusal(fault.status, fault.message or words[fault.status], type=GATE)
        return super().refusal_of(fault, reading)

    def failing_end(self, refusal: Refusal, reply: Reply, sent: int) -> list[StreamPart]:
        """Told once, by `response.failed`, whose error has the code."""
        return list(numbered([("response.failed", {"response": self.failed_whole(refusal, reply)}, 0)], sent))

    def error_body(self, refusal: Refusal, request_id: str) -> Any:
        if refusal.type == GATE:
            return {"detail": refusal.message}
        if refusal.type == USAGE_LIMIT:
            wait = float(refusal.headers.get("retry-after", 3600))
            error = {"type": USAGE_LIMIT, "message": refusal.message, "plan_type": "plus", "resets_in_seconds": wait}
            return {"error": error}
        return super().error_body(refusal, request_id)


def _check(body: Any) -> None:
    """The gate's own rules, in its own order and words."""
    if not isinstance(body, dict):
        raise Refusal(400, "Request body must be an object", type=GATE)
    extra = sorted(body.keys() - FIELDS)
    wrongs = (
        (not body.get("instructions"), "Instructions are required"),
        (body.get("store") is not False, "Store must be set to false"),
        (body.get("stream") is not True, "Stream must be set to true"),
        (not isinstance(body.get("input"), list), "Input must be a list"),
        (bool(extra), f"Unsupported parameter: {extra[0] if extra else ''}"),
    )
    for wrong, words in wrongs:
        if wrong:
            raise Refusal(400, words, type=GATE)
