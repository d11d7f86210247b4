"""The transcript for people: what was said to and by the model, and what went wrong on the way, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holon.cli.output import local_time, say
from holon.core.codec import dumps, from_plain
from holon.core.messages import MessageEnvelope
from holon.core.transcripts import TranscriptEntry, TranscriptKind

#: What one entry shows of a long text. `--json` has all of it.
_CHARS = 2_000

_TITLES = {
    TranscriptKind.INCOMING_MESSAGE: "message",
    TranscriptKind.ASSISTANT_ROUND: "model",
    TranscriptKind.TOOL_RESULTS: "tools",
    TranscriptKind.RUNTIME_FAILURE: "failure",
    TranscriptKind.CONTINUATION_PROMPT: "runtime",
}


def show_transcript(listed: list[dict[str, Any]]) -> None:
    entries = from_plain(listed, list[TranscriptEntry])
    if not entries:
        say("nothing has been said yet")
    for entry in entries:
        say(_heading(entry))
        for line in _lines(entry):
            say("\n".join(f"    {part}" for part in _cut(line).splitlines()))


def _heading(entry: TranscriptEntry) -> str:
    parts = [f"#{entry.seq}", local_time(entry.created_at), _TITLES[entry.kind]]
    if entry.data.get("message"):
        message = from_plain(entry.data["message"], MessageEnvelope)
        parts.append(f"{message.kind}, {message.authority_class}")
    if entry.round is not None:
        parts.append(f"round {entry.round}")
    if entry.data.get("model_ref"):
        parts.append(str(entry.data["model_ref"]))
    if entry.input_tokens is not None or entry.output_tokens is not None:
        parts.append(f"{entry.input_tokens or 0} tokens in, {entry.output_tokens or 0} out")
    return "  ".join(parts)


def _lines(entry: TranscriptEntry) -> Iterator[str]:
    data = entry.data
    if data.get("message"):
        yield from_plain(data["message"], MessageEnvelope).text
    if data.get("text"):
        yield str(data["text"])
    for block in data.get("blocks") or ():
        yield from _block(block)
    for result in data.get("results") or ():
        yield f"{'error' if result.get('is_error') else 'result'}: {result.get('content', '')}"
    for attempt in (data.get("provider_attempt_timeline") or {}).get("attempts") or ():
        yield _attempt(attempt)


def _block(block: dict[str, Any]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            yield str(block.get("text", ""))
        case "tool_use":
            yield f"calls {block.get('name')} {dumps(block.get('input'))}"
        case "thinking":
            yield f"(thinks) {block.get('text', '')}"


def _attempt(attempt: dict[str, Any]) -> str:
    """One line of retry, fail-fast and fallback history."""
    said = f"attempt {attempt['attempt']}/{attempt['max_attempts']} on {attempt['model_ref']}: {attempt['outcome']}"
    if attempt.get("failure_kind"):
        said += f" ({attempt['failure_kind']})"
    if attempt.get("backoff_ms"):
        said += f", waited {attempt['backoff_ms']} ms"
    return said + (", then the next model" if attempt.get("advanced_to_fallback") else "")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]}… ({len(text) - _CHARS} more characters: see --json)"
