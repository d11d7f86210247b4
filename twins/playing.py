"""Playing: which rule of a script speaks for a request, and what it says. Counts calls and faults, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import groupby, takewhile
from typing import Any

import msgspec

from twins.script import Answer, ApiName, Chunk, Fault, FaultKind, Rule, Script, ToolCall, When


class Speaker(StrEnum):
    SYSTEM = "system"
    USER = "user"
    TOOL = "tool"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a conversation, as far as a script can see it: the same for all APIs."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Scene:
    api: ApiName
    model: str
    call: int
    #: The newest user text.
    input: str
    #: The tool results that the request ends with; empty if it does not end with any.
    result: str
    round: int


@dataclass(frozen=True, slots=True)
class Line:
    answer: Answer
    fault: Fault | None


def scene_of(api: ApiName, model: str, call: int, turns: Sequence[Turn]) -> Scene:
    said = [turn for turn in turns if turn.speaker is not Speaker.SYSTEM]
    newest = next((n for n in range(len(said) - 1, -1, -1) if said[n].speaker is Speaker.USER), None)
    since = said if newest is None else said[newest + 1 :]
    answers = sum(speaker is Speaker.ASSISTANT for speaker, _ in groupby(since, key=lambda turn: turn.speaker))
    results = [turn.text for turn in takewhile(lambda turn: turn.speaker is Speaker.TOOL, reversed(said))]
    return Scene(
        api=api,
        model=model,
        call=call,
        input=said[newest].text if newest is not None else "",
        result="\n".join(reversed(results)),
        round=answers + 1,
    )


class Player:
    """Plays a script. An injected fault comes in the place of the script's answer, until it is used up."""

    def __init__(self, script: Script) -> None:
        self._rules = [_Part(rule) for rule in script.rules]
        self._injected: list[_Part] = []

    def inject(self, fault: Fault, when: When) -> None:
        self._injected.append(_Part(Rule(when=when, fault=fault)))

    def play(self, scene: Scene) -> Line:
        fitting = ((part, _fits(part.rule.when, scene)) for part in self._rules)
        part, groups = next(((part, groups) for part, groups in fitting if groups is not None), (_ECHOING, {}))
        answer = _answer(part.rule, scene, groups)
        injected = (one.next_fault(answer) for one in self._injected if _fits(one.rule.when, scene) is not None)
        fault = next((fault for fault in injected if fault is not None), None)
        return Line(answer, fault or part.next_fault(answer))


class _Part:
    """A rule, and how often its fault was played."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._faults = 0

    def next_fault(self, answer: Answer) -> Fault | None:
        fault = self.rule.fault
        if fault is None or (fault.times is not None and self._faults >= fault.times):
            return None
        if fault.kind is FaultKind.BROKEN_ARGUMENTS and not answer.tools:
            return None  # there is nothing to break
        self._faults += 1
        return fault


_ECHOING = _Part(Rule())
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def _echo(scene: Scene) -> Answer:
    return Answer(text=scene.input or "(there is no user text to echo)")


def _fits(when: When, scene: Scene) -> dict[str, str] | None:
    """What the patterns found, by number and by name; `None` if the rule does not fit."""
    plain = (
        (when.api is None or when.api is scene.api)
        and (when.call is None or when.call == scene.call)
        and (when.round is None or when.round == scene.round)
        and (when.model is None or fnmatchcase(scene.model, when.model))
        and (when.result is None or (scene.result and re.search(when.result, scene.result)))
    )
    found = re.search(when.pattern or "", scene.input)
    if not plain or found is None:
        return None
    numbered = {str(number): group or "" for number, group in enumerate((found[0], *found.groups()))}
    return numbered | found.groupdict("")


def _answer(rule: Rule, scene: Scene, groups: Mapping[str, str]) -> Answer:
    number = 1 if rule.when.round is not None else scene.round
    if number > len(rule.answers):
        return _echo(scene)
    return _filled(rule.answers[number - 1], {**groups, "input": scene.input, "result": scene.result})


def _filled(answer: Answer, values: Mapping[str, str]) -> Answer:
    def fill(value: Any) -> Any:
        match value:
            case str():
                return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), value)
            case Chunk():
                return msgspec.structs.replace(value, text=fill(value.text))
            case ToolCall():
                return msgspec.structs.replace(value, input=fill(value.input))
            case dict():
                return {key: fill(inner) for key, inner in value.items()}
            case list():
                return [fill(inner) for inner in value]
            case _:
                return value

    return msgspec.structs.replace(
        answer,
        thinking=fill(answer.thinking),
        text=fill(answer.text),
        chunks=fill(answer.chunks),
        tools=fill(answer.tools),
    )
