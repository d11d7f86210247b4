"""The scripted model: a provider like any other, whose words stand in a script. For demos, tests and trials.

What it says depends on the request and the script alone. The same request after a crash gets the same answer, also the
same tool call ids; only `fail.times` counts attempts, in memory.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holon.core.codec import dumps
from holon.core.conversation import (
    AssistantBlocks,
    ConversationItem,
    ModelBlock,
    TextBlock,
    ThinkingBlock,
    ToolResults,
    ToolUseBlock,
    UserText,
)
from holon.core.tokens import estimate
from holon.core.usage import TokenUsage
from holon.core.values import Value
from holon.providers.contract import (
    FailureKind,
    OnProgress,
    ProviderFailure,
    ProviderRequest,
    ProviderResponse,
    StopReason,
)
from holon.providers.failures import kind_of_status
from holon.providers.scripts import ECHO, FailLine, InvalidScript, RoundLine, Rule, Script, load_script, parse_script


class ScriptedProvider:
    """Plays `scripted/<name>`: a script given here by name, else a file. `scripted/echo` repeats its input.

    `scripts` holds scripts or their YAML, for tests; `home` is where named files are looked for in `scripts/`.
    """

    name = "scripted"

    def __init__(
        self,
        *,
        scripts: Mapping[str, Script | str] | None = None,
        home: Path | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._scripts = {
            name: parse_script(script, source=name) if isinstance(script, str) else script
            for name, script in (scripts or {}).items()
        }
        self._home = home or Path(os.environ.get("HOLON_HOME", "~/.holon")).expanduser()
        self._sleep = sleep
        self._failed = _FailedAttempts()

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        line = line_for(self._script(request.model), scene_of(request))
        if line.fail is not None and self._failed.once_more(request, line.fail):
            await self._pause(line.delay_ms)
            raise _failure(line.fail)
        for piece in line.stream or [line.text]:
            await self._pause(line.delay_ms / max(1, len(line.stream)))
            if piece and on_progress is not None:
                on_progress(TextBlock(text=piece))
        return response_of(line, request)

    def _script(self, model_ref: str) -> Script:
        name = model_ref.partition("/")[2]
        if name == "echo":
            return ECHO
        try:
            return self._scripts.get(name) or load_script(name, self._home)
        except InvalidScript as error:
            raise ProviderFailure(FailureKind.CONTRACT_ERROR, str(error), diagnostics={"stage": "script"}) from error

    async def _pause(self, ms: float) -> None:
        if ms > 0:
            await self._sleep(ms / 1000)


class Scene(Value, frozen=True):
    """What a script can see of a request."""

    #: The newest input, without the line of provenance that the runtime puts in front.
    input: str
    #: Its kind, if that line was there.
    kind: str | None
    #: How many inputs there are, this one included.
    turn: int
    round: int
    #: What the tools of the round before said.
    result: str


def scene_of(request: ProviderRequest) -> Scene:
    """The scene of a request. Inputs have a line of provenance; where no item has one, each user text is an input.

    So what the runtime adds between inputs (a failure's notice, a reminder) changes neither the input nor its number.
    """
    texts = [item.text for item in request.conversation if isinstance(item, UserText)]
    inputs = [text for text in texts if _PROVENANCE.match(text)] or texts
    newest = inputs[-1] if inputs else ""
    header = _PROVENANCE.match(newest)
    return Scene(
        input=newest[header.end() :] if header else newest,
        kind=header["kind"] if header else None,
        turn=len(inputs),
        round=request.round,
        result=_newest_result(request.conversation) if request.round > 1 else "",  # not the turn's before
    )


def line_for(script: Script, scene: Scene) -> RoundLine:
    """What the script says here: its first fitting rule, with the placeholders filled; the echo if none fits.

    After its last round a rule says nothing, which ends the turn.
    """
    for rule in script.rules:
        groups = _groups(rule, scene)
        if groups is not None:
            index = 0 if rule.when.round is not None else scene.round - 1
            values = groups | {"input": scene.input, "result": scene.result}
            return _filled(rule.rounds[index], values) if index < len(rule.rounds) else RoundLine()
    return RoundLine(text=scene.input)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with `{name}` replaced by its value; `{{name}}` is a plain `{name}`. All other braces stay as they are.

    Values are put in once and never read again, so an input that holds braces is only text.
    """

    def replaced(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if escaped is not None:
            return f"{{{escaped}}}" if escaped in values else found[0]
        return values.get(name, found[0])

    return _PLACEHOLDER.sub(replaced, text)


def response_of(line: RoundLine, request: ProviderRequest) -> ProviderResponse:
    text = line.text or "".join(line.stream)
    blocks: list[ModelBlock] = []
    if line.thinking:
        blocks.append(ThinkingBlock(text=line.thinking))
    if text:
        blocks.append(TextBlock(text=text))
    blocks += [
        ToolUseBlock(id=f"call_{request.turn_id}_{request.round}_{number}", name=tool.name, input=tool.input)
        for number, tool in enumerate(line.tools, start=1)
    ]
    return ProviderResponse(
        blocks=blocks,
        stop_reason=line.stop_reason or (StopReason.TOOL_USE if line.tools else StopReason.END_TURN),
        usage=_usage(line, request, blocks),
    )


#: The line that `context.rendering` puts in front of an input: `[kind from origin · authority · id]`.
_PROVENANCE = re.compile(r"\[(?P<kind>[a-z_]+) from .* · [a-z_]+ · (?:via \w+, \w+ · )?[^\s\]]+\](?:\n|\Z)")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def _newest_result(conversation: list[ConversationItem]) -> str:
    """The results that stand at the conversation's end, behind whatever the runtime added after them."""
    for item in reversed(conversation):
        match item:
            case ToolResults(results=results):
                return "\n".join(result.content for result in results)
            case AssistantBlocks():
                return ""
    return ""


def _groups(rule: Rule, scene: Scene) -> dict[str, str] | None:
    """What the rule's pattern found, by number and by name; `None` if the rule does not fit."""
    when = rule.when
    fits = (
        (when.kind is None or when.kind == scene.kind)
        and (when.turn is None or when.turn == scene.turn)
        and (when.round is None or when.round == scene.round)
    )
    if not fits or when.pattern is None:
        return {} if fits else None
    found = re.search(when.pattern, scene.input)
    if found is None:
        return None
    numbered = {str(number): group for number, group in enumerate((found[0], *found.groups("")))}
    return numbered | found.groupdict("")


def _filled(line: RoundLine, values: Mapping[str, str]) -> RoundLine:
    return msgspec.structs.replace(
        line,
        thinking=fill(line.thinking, values),
        text=fill(line.text, values),
        stream=[fill(piece, values) for piece in line.stream],
        tools=[msgspec.structs.replace(tool, input=_filled_input(tool.input, values)) for tool in line.tools],
    )


def _filled_input(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return fill(value, values)
        case dict():
            return {key: _filled_input(inner, values) for key, inner in value.items()}
        case list():
            return [_filled_input(inner, values) for inner in value]
        case _:
            return value


def _failure(fail: FailLine) -> ProviderFailure:
    return ProviderFailure(
        fail.kind or kind_of_status(fail.status or 0),
        fail.message,
        status=fail.status,
        retry_after_ms=fail.retry_after_ms,
        usage=None if fail.usage is None else TokenUsage.of(fail.usage.input_tokens, fail.usage.output_tokens),
    )


def _usage(line: RoundLine, request: ProviderRequest, blocks: list[ModelBlock]) -> TokenUsage | None:
    match line.usage:
        case "none":
            return None
        case None:
            read = [request.frame.system_prompt, *(part for item in request.conversation for part in _parts(item))]
            return TokenUsage.of(_estimated(read), _estimated(_parts(AssistantBlocks(blocks=blocks))))
        case usage:
            return TokenUsage.of(usage.input_tokens, usage.output_tokens)


def _estimated(parts: Iterable[str]) -> int:
    return sum(map(estimate, parts))


def _parts(item: ConversationItem) -> Iterable[str]:
    match item:
        case UserText(text=text):
            yield text
        case ToolResults(results=results):
            yield from (result.content for result in results)
        case AssistantBlocks(blocks=blocks):
            for block in blocks:
                match block:
                    case ToolUseBlock():
                        yield block.name + dumps(block.input)
                    case TextBlock() | ThinkingBlock():
                        yield block.text


class _FailedAttempts:
    """How often each round has failed by `fail.times`. Bounded: the oldest rounds are forgotten."""

    _KEPT = 1_024

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}

    def once_more(self, request: ProviderRequest, fail: FailLine) -> bool:
        """Whether this attempt fails too; if it does, it is counted."""
        if fail.times is None:
            return True
        round_ = (request.model, request.turn_id, request.round)
        failed = self._counts.pop(round_, 0)
        self._counts[round_] = failed + 1
        if len(self._counts) > self._KEPT:
            self._counts.pop(next(iter(self._counts)))
        return failed < fail.times
