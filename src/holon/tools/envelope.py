"""What a model is told when a tool fails: bounded, with the next step. The whole error stays in the transcript."""

from __future__ import annotations

import hashlib
from typing import Any

from holon.core.codec import Record, dumps, to_plain

DETAILS_CHARS = 1_000
#: A message quotes what a model or a program wrote, which may be anything.
MESSAGE_CHARS = 4_000
NAME_CHARS = 200


class ToolError(Record, frozen=True, kw_only=True):
    kind: str
    message: str
    details: dict[str, Any] | None = None
    recovery_hint: str | None = None
    retryable: bool = False


class ToolFailure(Exception):
    """Raised by a tool; becomes the envelope that the model reads."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message)
        self.error = error


def receipt(tool_name: str, error: ToolError) -> str:
    """The model-visible text of an error."""
    shown: dict[str, Any] = {
        "ok": False,
        "tool_name": _cut(tool_name, NAME_CHARS),
        "kind": error.kind,
        "message": _cut(error.message, MESSAGE_CHARS),
    }
    if error.recovery_hint:
        shown["hint"] = _cut(error.recovery_hint, MESSAGE_CHARS)
    if error.details and "field" in error.details:
        shown["field"] = _cut(str(error.details["field"]), NAME_CHARS)
    shown["retryable"] = error.retryable
    if error.details:
        shown["details"] = _bounded(error.details)
    return dumps(shown)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters; the transcript has them all)"


def _bounded(details: dict[str, Any]) -> Any:
    text = dumps(to_plain(details))
    if len(text) <= DETAILS_CHARS:
        return details
    return {
        "omitted": True,
        "reason": "details are too large for the conversation; the transcript has them whole",
        "char_count": len(text),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "preview": text[: DETAILS_CHARS // 2],
    }


INTERRUPTED = ToolError(
    kind="interrupted",
    message="the runtime restarted while this call was running; it was not run again and its outcome is unknown",
    recovery_hint="inspect what it may have done before you repeat it",
)

ABORTED = ToolError(
    kind="interrupted",
    message="the turn was ended while this call was running; its outcome is unknown",
    recovery_hint="inspect what it may have done before you repeat it",
)

NOT_RUN = ToolError(kind="not_run", message="the turn was ended before this call began; it was not run")

TRUNCATED = ToolError(
    kind="truncated_mutation_tool_call",
    message="your answer was cut at the output limit, so this call may be incomplete; it was not run",
    recovery_hint="send it again, smaller: split the change, or write less text around it",
    retryable=True,
)
