"""Transcript: what was said to and by the model, in order, per agent. It is the one canonical copy of a round."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holon.core.codec import Record


class TranscriptKind(StrEnum):
    INCOMING_MESSAGE = "incoming_message"
    ASSISTANT_ROUND = "assistant_round"
    TOOL_RESULTS = "tool_results"
    RUNTIME_FAILURE = "runtime_failure"
    CONTINUATION_PROMPT = "continuation_prompt"
    #: What changed of the prompt's sections inside an epoch.
    CONTEXT_DELTA = "context_delta"


class TranscriptEntry(Record, frozen=True, kw_only=True):
    agent_id: str
    seq: int
    created_at: datetime
    kind: TranscriptKind
    turn_id: str | None = None
    round: int | None = None
    related_message_id: str | None = None
    stop_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    data: dict[str, Any] = msgspec.field(default_factory=dict)
