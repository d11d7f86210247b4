"""Scripts: what a twin says and how it fails, as values in a test or as a file that a person writes.

A script is a list of rules; the first that fits a request speaks. docs/twins.md teaches the format. This module holds
the values and reads files; `playing` chooses.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from twins.billing import Model

NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class InvalidScript(ValueError):
    """The script is missing, or is not a script."""


class ApiName(StrEnum):
    ANTHROPIC = "anthropic"
    RESPONSES = "responses"
    CODEX = "codex"
    CHAT = "chat"
    COMPATIBLE = "compatible"


class StopReason(StrEnum):
    """Why the model stops, in Anthropic's words; the other APIs say it in theirs."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_USE = "tool_use"
    REFUSAL = "refusal"


class FaultKind(StrEnum):
    #: An HTTP error with the service's own body: `status` says which.
    STATUS = "status"
    #: The prompt is too long for the model, in the service's own words.
    CONTEXT_LENGTH = "context_length_exceeded"
    #: The request is accepted and never answered.
    STALL = "stall"
    #: The connection is closed before the first byte of an answer.
    DROP = "drop"
    #: The connection is closed in the middle of the answer.
    CUT = "cut"
    #: The answer is not JSON.
    MALFORMED = "malformed"
    #: The answer is JSON, but nothing that the API knows.
    UNKNOWN_SHAPE = "unknown_shape"
    #: The arguments of the answer's last tool call are broken JSON.
    BROKEN_ARGUMENTS = "broken_arguments"
    #: The model fails after it began: an error event, `response.failed`.
    FAILED = "failed"
    #: The bytes of the answer come one small piece after another.
    SLOW = "slow"


class Quirk(StrEnum):
    """Habits of providers that speak Chat Completions almost like OpenAI: of the `compatible` address only."""

    #: No usage, even when it was asked for.
    NO_USAGE = "no_usage"
    #: A stream ends without `[DONE]`.
    NO_DONE = "no_done"
    #: Thinking is sent as `reasoning_content` beside `content`.
    REASONING_CONTENT = "reasoning_content"
    #: A streamed tool call comes whole, in one chunk.
    WHOLE_TOOL_CALLS = "whole_tool_calls"
    #: Tool calls have no id.
    NO_CALL_IDS = "no_call_ids"
    #: `finish_reason` is `stop` although tools are called.
    STOP_DESPITE_TOOLS = "stop_despite_tools"
    #: Comment lines keep the stream awake before the first chunk.
    COMMENTS = "comments"
    #: An error body is `{"error": {"message": …, "code": 429}}`: no type, and the status as a number.
    PLAIN_ERRORS = "plain_errors"


class CodexOutput(StrEnum):
    """What the last event of a Codex stream says about the output that was streamed before it."""

    EMPTY = "empty"
    ABSENT = "absent"
    FULL = "full"


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class When(_Value, frozen=True, kw_only=True):
    """The requests for which a rule speaks. All that is given must hold; nothing given holds always."""

    #: A regular expression that is searched for in the newest user text.
    pattern: str | None = None
    #: A regular expression that is searched for in the tool results that the request ends with.
    result: str | None = None
    #: The so-manieth call that the twin gets; the first is 1.
    call: Positive | None = None
    #: The so-manieth answer to the newest user text; the first is 1.
    round: Positive | None = None
    #: The model's name; `*` stands for anything.
    model: str | None = None
    api: ApiName | None = None

    def __post_init__(self) -> None:
        for field in (self.pattern, self.result):
            try:
                re.compile(field or "")
            except re.error as error:
                raise ValueError(f"{field!r} is not a regular expression: {error}") from error


class ToolCall(_Value, frozen=True, kw_only=True):
    """A tool that the model calls. A text as `input` is for tools that take free text."""

    name: str
    input: dict[str, Any] | str = msgspec.field(default_factory=dict)
    #: Sent instead of `input`, as it stands: for arguments that are no JSON.
    arguments: str | None = None
    #: The call's id; without it the twin makes one.
    id: str | None = None


class Chunk(_Value, frozen=True, kw_only=True):
    text: str
    #: How long the twin waits before it.
    wait_ms: NotNegative = 0


class Answer(_Value, frozen=True, kw_only=True):
    """What the model says in one round. `{input}`, `{result}` and the groups of the rule's pattern are filled in."""

    thinking: str = ""
    text: str = ""
    #: The text in the pieces in which it is streamed. Without it the twin streams word by word.
    chunks: list[Chunk | str] = msgspec.field(default_factory=list)
    tools: list[ToolCall] = msgspec.field(default_factory=list)
    #: Without it: `tool_use` if tools are called, else `end_turn`.
    stop: StopReason | None = None
    #: How long the twin waits before the first byte.
    wait_ms: NotNegative = 0
    #: `False`: the answer says nothing about tokens. The bill knows them all the same.
    usage: bool = True

    def __post_init__(self) -> None:
        if self.text and self.chunks:
            raise ValueError("an answer has `text` or `chunks`, not both")


class Fault(_Value, frozen=True, kw_only=True):
    """How the calls of a rule fail: the first `times` of them, or all."""

    kind: FaultKind = FaultKind.STATUS
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    times: Positive | None = None
    #: Seconds, as the header `retry-after` says it.
    retry_after: float | None = None
    #: Instead of the service's own words.
    message: str | None = None
    #: Instead of the service's own code, where its errors have one (`insufficient_quota`).
    code: str | None = None
    #: `cut` and `failed`: after so many events of a stream. Without it, in the middle.
    after: NotNegative | None = None
    #: `slow`: so many bytes at a time, so many milliseconds apart.
    piece: Positive = 32
    every_ms: NotNegative = 10

    def __post_init__(self) -> None:
        if (self.kind is FaultKind.STATUS) != (self.status is not None):
            raise ValueError("a fault has either a `status` or a `kind` other than `status`")


class Rule(_Value, frozen=True, kw_only=True):
    when: When = When()
    #: Played one a round. Past the last, and without any, the newest user text is echoed.
    answers: list[Answer] = msgspec.field(default_factory=list)
    fault: Fault | None = None


class Script(_Value, frozen=True, kw_only=True):
    rules: list[Rule] = msgspec.field(default_factory=list)
    #: Models beside those of prices.toml, or instead of them.
    models: dict[str, Model] = msgspec.field(default_factory=dict)
    quirks: list[Quirk] = msgspec.field(default_factory=list)
    codex_output: CodexOutput = CodexOutput.EMPTY


def parse_script(text: str, *, source: str = "the script") -> Script:
    """A script from its YAML or JSON."""
    import yaml

    try:
        plain = yaml.safe_load(text)
        return msgspec.convert(plain if plain is not None else {}, Script)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InvalidScript(f"{source} is not a script: {error}. docs/twins.md shows what one looks like") from error


def load_script(path: Path) -> Script:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidScript(f"no script at {path}: {error.strerror}") from error
    return parse_script(text, source=str(path))
