"""The format of SKILL.md: front matter between two fences, then the body. Lenient on reading, strict on writing.

Reading never raises: whatever is wrong becomes a warning beside what could be made of the text, so that a skill written
for another product, or in a hurry, still works.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from holon.core.errors import InvalidInput
from holon.core.tokens import count
from holon.core.values import Value

ENTRYPOINT = "SKILL.md"
NAME_CHARS = 64
DESCRIPTION_CHARS = 1_024
COMPATIBILITY_CHARS = 500
BODY_TOKENS = 5_000
BODY_LINES = 500
FRONT_MATTER_BYTES = 64 * 1024

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCED = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(r"(?:^|[\s\[{,:-])[&*][\w-]", re.MULTILINE)
_YES = ("true", "yes", "on", "1")

#: Fields of the open format, then those that other products added. Any other field is kept by name and warned about.
KNOWN_FIELDS = (
    "name", "description", "license", "compatibility", "metadata", "allowed-tools",
    "when_to_use", "disable-model-invocation", "user-invocable", "paths", "context", "references",
    "version", "model", "agent", "hooks", "argument-hint", "arguments", "effort", "shell",
)  # fmt: skip


class FrontMatter(Value, frozen=True):
    """What stands between the fences, typed."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    allowed_tools: tuple[str, ...] = ()
    when_to_use: str = ""
    #: The model neither sees nor loads it; only a person does.
    disable_model_invocation: bool = False
    user_invocable: bool = True
    paths: tuple[str, ...] = ()
    context: str = ""
    #: `None`: the author listed none, so the files under references/ are the list.
    references: tuple[str, ...] | None = None


class SkillText(Value, frozen=True):
    front: FrontMatter
    body: str
    warnings: tuple[str, ...] = msgspec.field(default=())


def read_skill(text: str, folder_name: str) -> SkillText:
    """A SKILL.md as far as it can be understood. `folder_name` stands in for a name that is missing."""
    warnings: list[str] = []
    found = _FENCED.match(text)
    if found is None:
        hint = "the second '---' is missing" if text.lstrip("\ufeff").startswith("---") else "it begins without '---'"
        warnings.append(f"no front matter ({hint}); name and description are guessed")
        front = FrontMatter(name=folder_name, description=_first_paragraph(text))
        return SkillText(front, text.strip(), tuple(warnings))
    raw = _parse(found[1], warnings)
    body = text[found.end() :].strip()
    front = _typed(raw, folder_name, body, warnings)
    return SkillText(front, body, tuple(warnings))


def valid_name(name: str) -> bool:
    return len(name) <= NAME_CHARS and _NAME.fullmatch(name) is not None


def check_fields(front: FrontMatter, folder_name: str) -> list[str]:
    """What the open format does not allow, each as a sentence with the next step."""
    problems = []
    if not valid_name(front.name):
        problems.append(f"name {front.name!r} must be 1–{NAME_CHARS} of a–z, 0–9 and single hyphens")
    if front.name != folder_name:
        problems.append(f"name {front.name!r} is not the folder's name {folder_name!r}: rename one of them")
    if not front.description.strip():
        problems.append("description is empty: say what the skill does and when to use it")
    for label, value, most in (
        ("description", front.description, DESCRIPTION_CHARS),
        ("compatibility", front.compatibility, COMPATIBILITY_CHARS),
    ):
        if len(value) > most:
            problems.append(f"{label} has {len(value)} characters: the limit is {most}")
    return problems


def check_body(body: str) -> list[str]:
    problems = []
    if not body.strip():
        problems.append("the body is empty: nothing would be loaded")
    if (lines := body.count("\n") + 1) > BODY_LINES:
        problems.append(f"the body has {lines} lines: the limit is {BODY_LINES}; move details into references/")
    if len(body) > BODY_TOKENS and (tokens := count(body)) > BODY_TOKENS:
        problems.append(f"the body has {tokens} tokens: the limit is {BODY_TOKENS}; move details into references/")
    return problems


def write_skill(front: FrontMatter, body: str) -> str:
    """The text of a SKILL.md. Refused if it would break the format."""
    if problems := check_fields(front, front.name) + check_body(body):
        raise InvalidInput("; ".join(problems), hint="mend it and write it again", field="skill")
    fields: dict[str, Any] = {"name": front.name, "description": front.description}
    for key, value in (("license", front.license), ("compatibility", front.compatibility)):
        if value:
            fields[key] = value
    if front.allowed_tools:
        fields["allowed-tools"] = " ".join(front.allowed_tools)
    if front.when_to_use:
        fields["when_to_use"] = front.when_to_use
    if front.references is not None:
        fields["references"] = list(front.references)
    if front.metadata:
        fields["metadata"] = dict(front.metadata)
    head = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1_000)
    return f"---\n{head}---\n\n{body.strip()}\n"


def _parse(text: str, warnings: list[str]) -> dict[str, Any]:
    """The fields as strings, lists and maps of strings. Every scalar is a string: `no` stays `no`."""
    if len(text) > FRONT_MATTER_BYTES:
        warnings.append(f"the front matter is longer than {FRONT_MATTER_BYTES} bytes; only its plain lines were read")
        return _plain_lines(text[:FRONT_MATTER_BYTES])
    try:
        if _MARKUP.search(text) and any(isinstance(event, yaml.AliasEvent) for event in _events(text)):
            warnings.append("the front matter uses YAML aliases, which are not followed; its plain lines were read")
            return _plain_lines(text)
        loaded = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(getattr(error, "problem_mark", None), "line", None)
        line = f" at line {where + 2}" if where is not None else ""
        warnings.append(f"the front matter is not valid YAML{line}; its plain lines were read")
        return _plain_lines(text)
    if loaded in (None, ""):
        return {}
    if not isinstance(loaded, dict):
        warnings.append("the front matter is not a list of fields")
        return {}
    return {str(key): value for key, value in loaded.items()}


_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def _events(text: str) -> Any:
    return yaml.parse(text, Loader=_Loader)


def _plain_lines(text: str) -> dict[str, Any]:
    """`key: value` lines at the left edge, for front matter that YAML refuses (an unquoted colon, mostly)."""
    fields: dict[str, Any] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and re.fullmatch(r"[A-Za-z][\w-]*", key):
            fields.setdefault(key, value.strip().strip("\"'"))
    return fields


def _typed(raw: dict[str, Any], folder_name: str, body: str, warnings: list[str]) -> FrontMatter:
    raw = {**raw}
    for other, ours in (("when-to-use", "when_to_use"), ("allowed_tools", "allowed-tools")):
        if other in raw:
            raw.setdefault(ours, raw.pop(other))
    if unknown := sorted(set(raw) - set(KNOWN_FIELDS)):
        warnings.append(f"unknown fields: {', '.join(unknown[:8])[:200]}")
    name = _text(raw, "name", warnings)
    if not valid_name(name):
        if name:
            warnings.append(f"name {name[:80]!r} is not of the format; the folder's name {folder_name!r} is used")
        else:
            warnings.append(f"name is missing; the folder's name {folder_name!r} is used")
        name = folder_name
    elif name != folder_name:
        warnings.append(f"name {name!r} is not the folder's name {folder_name!r}")
    description = _cut(raw, "description", DESCRIPTION_CHARS, warnings)
    if not description:
        warnings.append("description is missing; the body's first paragraph is used")
        description = _first_paragraph(body)
    return FrontMatter(
        name=name,
        description=description,
        license=_text(raw, "license", warnings),
        compatibility=_cut(raw, "compatibility", COMPATIBILITY_CHARS, warnings),
        metadata=_pairs(raw.get("metadata"), warnings),
        allowed_tools=_words(raw.get("allowed-tools"), r"[\s,]+(?![^(]*\))"),
        when_to_use=_cut(raw, "when_to_use", DESCRIPTION_CHARS, warnings),
        disable_model_invocation=_text(raw, "disable-model-invocation", warnings).lower() in _YES,
        user_invocable=_text(raw, "user-invocable", warnings).lower() not in ("false", "no", "off", "0"),
        paths=_words(raw.get("paths"), r"\s*,\s*"),
        context=_text(raw, "context", warnings),
        references=_words(raw["references"], r"\s*,\s*") if "references" in raw else None,
    )


def _text(raw: dict[str, Any], key: str, warnings: list[str]) -> str:
    value = raw.get(key, "")
    if isinstance(value, str):
        return value.strip()
    warnings.append(f"{key} is not a text; it is left out")
    return ""


def _cut(raw: dict[str, Any], key: str, most: int, warnings: list[str]) -> str:
    """A text in one line, no longer than the format allows."""
    text = " ".join(_text(raw, key, warnings).split())
    if len(text) <= most:
        return text
    warnings.append(f"{key} has {len(text)} characters; it is cut at {most}")
    return text[: most - 1] + "…"


def _words(value: Any, separator: str) -> tuple[str, ...]:
    if isinstance(value, str):
        value = re.split(separator, value.strip())
    if not isinstance(value, list):
        return ()
    return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())


def _pairs(value: Any, warnings: list[str]) -> tuple[tuple[str, str], ...]:
    if value in (None, ""):
        return ()
    if not isinstance(value, dict):
        warnings.append("metadata is not a map of texts; it is left out")
        return ()
    return tuple((str(key), item) for key, item in value.items() if isinstance(item, str))


def _first_paragraph(text: str) -> str:
    for paragraph in re.split(r"\n\s*\n", text[:8_192]):
        plain = " ".join(line.strip() for line in paragraph.splitlines() if not line.startswith("#"))
        if plain.strip("-= "):
            return plain.strip()[: DESCRIPTION_CHARS - 1]
    return ""
