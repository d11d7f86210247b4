"""Scripts: what the scripted model says, as a file that a person writes. docs/scripted-model.md teaches the format.

This module reads, checks and finds scripts; `scripted` plays them.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from holon.core.codec import Input, InvalidJson, InvalidShape, from_plain
from holon.core.errors import OperatorError
from holon.core.messages import MessageKind
from holon.providers.contract import FailureKind, StopReason

NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]

#: What `{…}` in a text stands for, beside the groups of the rule's pattern.
RESERVED_NAMES = frozenset({"input", "result"})
SUFFIXES = ("", ".yaml", ".yml", ".json")


class InvalidScript(OperatorError):
    """The script is missing, or is not a script."""

    code = "invalid_script"


class When(Input, frozen=True, kw_only=True):
    """The inputs for which a rule speaks. All that is given must hold; nothing given holds always."""

    #: A regular expression that is searched for in the input's text.
    pattern: str | None = None
    #: What woke the agent, for example `timer_tick`.
    kind: MessageKind | None = None
    #: The input's number in the conversation that the model is shown; the first is 1.
    turn: Positive | None = None
    #: The round's number in its turn; the first is 1.
    round: Positive | None = None

    def __post_init__(self) -> None:
        if self.pattern is None:
            return
        try:
            names = re.compile(self.pattern).groupindex
        except re.error as error:
            raise ValueError(f"`pattern` is not a regular expression: {error}") from error
        if taken := RESERVED_NAMES & names.keys():
            raise ValueError(f"`pattern` names a group {min(taken)!r}, which texts already have: choose another name")


class ToolLine(Input, frozen=True, kw_only=True):
    """A tool that the model calls. Texts inside `input` are filled like `text`."""

    name: str
    input: dict[str, Any] = msgspec.field(default_factory=dict)


class UsageLine(Input, frozen=True, kw_only=True):
    input_tokens: NotNegative = 0
    output_tokens: NotNegative = 0


class FailLine(Input, frozen=True, kw_only=True):
    """How attempts of this round fail."""

    kind: FailureKind | None = None
    #: An HTTP status. It gives the kind where none is written.
    status: Annotated[int, msgspec.Meta(ge=100, le=599)] | None = None
    message: str = "the script says that this attempt fails"
    retry_after_ms: NotNegative | None = None
    #: The first so many attempts fail, the next one speaks; without it every attempt fails.
    times: Positive | None = None
    usage: UsageLine | None = None

    def __post_init__(self) -> None:
        if self.kind is None and self.status is None:
            raise ValueError("`fail` needs a `kind` or a `status`")


class RoundLine(Input, frozen=True, kw_only=True):
    """One round: what the model thinks, says and calls. Empty, it ends the turn without a word."""

    thinking: str = ""
    text: str = ""
    #: The text in the pieces in which it arrives, instead of `text`.
    stream: list[str] = msgspec.field(default_factory=list)
    tools: list[ToolLine] = msgspec.field(default_factory=list)
    fail: FailLine | None = None
    #: How long the answer takes, spread evenly over its pieces.
    delay_ms: NotNegative = 0
    stop_reason: StopReason | None = None
    #: `none` is a provider that reports no usage; left out, usage is characters / 4.
    usage: UsageLine | Literal["none"] | None = None

    def __post_init__(self) -> None:
        if self.text and self.stream:
            raise ValueError("give `text` or `stream`, not both: the pieces of `stream` are the text")


class Rule(Input, frozen=True, kw_only=True):
    rounds: Annotated[list[RoundLine], msgspec.Meta(min_length=1)]
    when: When = When()

    def __post_init__(self) -> None:
        if self.when.round is not None and len(self.rounds) > 1:
            raise ValueError("a rule with `when.round` speaks in that round only, so it has one entry in `rounds`")


class Script(Input, frozen=True, kw_only=True):
    """The first rule that fits speaks; where none fits, the input is echoed."""

    rules: list[Rule]


ECHO = Script(rules=[])


def parse_script(text: str, *, source: str) -> Script:
    """The script in a text of YAML or JSON; `source` is what an error calls it."""
    try:
        plain = msgspec.json.decode(text) if source.endswith(".json") else _parse_yaml(text)
        return from_plain(plain, Script)
    except InvalidShape as error:
        raise InvalidScript(f"script {source} is not valid: {error}", hint="see docs/scripted-model.md") from error
    except (InvalidJson, ValueError) as error:
        raise InvalidScript(f"script {source} cannot be read: {error}") from error


def load_script(name: str, home: Path) -> Script:
    """The script of that name, read again if its file has changed."""
    path = find_script(name, home)
    try:
        stat = path.stat()
        return _load(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise InvalidScript(f"script {path} cannot be read: {error.strerror}") from error


def find_script(name: str, home: Path) -> Path:
    """The file that `scripted/<name>` means: a path as it stands, from here, or from the home's `scripts`."""
    wanted = os.path.expanduser(name)
    roots = (Path.cwd(), home / "scripts")  # a root before an absolute path has no effect
    for root in roots:
        for suffix in SUFFIXES:
            path = root / (wanted + suffix)
            if path.is_file():
                return path
    raise InvalidScript(
        f"there is no script {name!r}",
        hint=f"write it to {roots[-1] / wanted}.yaml, give a path to it, or use scripted/echo",
    )


@lru_cache(maxsize=64)
def _load(path: Path, _changed_ns: int, _size: int) -> Script:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidScript(f"script {path} cannot be read: it is not UTF-8 text") from error
    return parse_script(text, source=str(path))


def _parse_yaml(text: str) -> Any:
    import yaml  # read by those who play scripts only

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:  # its own words quote the file, which need not be a script at all
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ValueError(f"line {line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError("it is not YAML") from error
