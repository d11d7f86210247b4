"""Contents: what a template's folder holds. It must have `AGENTS.md` and may have `skills.json`; no more is read."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Annotated

import msgspec

from holon.core.codec import Input, InvalidJson, loads
from holon.core.values import Value
from holon.templates.places import AGENTS_MD
from holon.templates.sources import InvalidTemplate

SKILLS_JSON = "skills.json"
#: Below what a prompt takes of an AGENTS.md (64 KiB), so that the guidance which is added to it is never cut off.
MAX_AGENTS_MD = 48 * 1024
MAX_SKILLS_JSON = 64 * 1024
MAX_SKILLS = 32
_PACKAGE = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+?)(?:@(?P<skill>[\w.-]+))?")


class BuiltinSkill(Input, frozen=True, kw_only=True, tag_field="kind", tag="builtin"):
    """A skill that comes with Holon."""

    name: str

    @property
    def label(self) -> str:
        return f"builtin {self.name}"


class LocalSkill(Input, frozen=True, kw_only=True, tag_field="kind", tag="local"):
    """A skill's folder or archive on this machine, by its absolute path."""

    path: str

    @property
    def label(self) -> str:
        return self.path


class GithubSkill(Input, frozen=True, kw_only=True, tag_field="kind", tag="github"):
    """`owner/repo`, or `owner/repo@skill` where the repository has several; `ref` pins it."""

    package: str
    ref: str | None = None

    @property
    def label(self) -> str:
        return self.package + (f" at {self.ref}" if self.ref else "")

    @property
    def parts(self) -> tuple[str, str | None]:
        """The repository and the skill."""
        found = _PACKAGE.fullmatch(self.package)
        assert found is not None, "checked when it was read"
        return found["repo"], found["skill"]


SkillRef = BuiltinSkill | LocalSkill | GithubSkill


class SkillsFile(Input, frozen=True, kw_only=True):
    """`skills.json`."""

    skill_refs: Annotated[list[SkillRef], msgspec.Meta(max_length=MAX_SKILLS)] = msgspec.field(default_factory=list)


class Template(Value, frozen=True):
    agents_md: str
    skill_refs: tuple[SkillRef, ...]
    sha256: str


def read_template(folder: Path) -> Template:
    """The template in a folder, or `InvalidTemplate` with what is wrong with it."""
    guidance = _read(folder, AGENTS_MD, MAX_AGENTS_MD)
    if guidance is None:
        raise InvalidTemplate(
            f"{folder} is no template: it has no {AGENTS_MD}",
            hint="put one there: it is what the agent is told in every prompt",
            field="template",
        )
    skills = _read(folder, SKILLS_JSON, MAX_SKILLS_JSON)
    digest = hashlib.sha256(b"\0".join((guidance, skills or b""))).hexdigest()
    try:
        text = guidance.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _wrong(folder / AGENTS_MD, "is no UTF-8 text", "save it as UTF-8") from error
    if "\0" in text:
        raise _wrong(folder / AGENTS_MD, "is binary", "write it as text")
    return Template(text, _skill_refs(folder, skills), digest)


def _skill_refs(folder: Path, data: bytes | None) -> tuple[SkillRef, ...]:
    if data is None:
        return ()
    path = folder / SKILLS_JSON
    example = 'write it as {"skill_refs": [{"kind": "builtin", "name": "code-review"}]}'
    try:
        refs = loads(data, SkillsFile).skill_refs
    except (InvalidJson, UnicodeDecodeError) as error:
        raise _wrong(path, f"cannot be read ({error})", example) from error
    for ref in refs:
        if isinstance(ref, LocalSkill) and (not ref.path.startswith("/") or ".." in Path(ref.path).parts):
            raise _wrong(path, f"names the skill {ref.path[:200]!r}, which is no absolute path", "write its whole path")
        if isinstance(ref, GithubSkill) and _PACKAGE.fullmatch(ref.package) is None:
            raise _wrong(path, f"names the package {ref.package[:200]!r}", "write it as owner/repo or owner/repo@skill")
    return tuple(refs)


def _read(folder: Path, name: str, most: int) -> bytes | None:
    """A plain file of the template; `None` if there is none. A link may only lead to another file of the template."""
    path = folder / name
    if not os.path.lexists(path):
        return None
    try:
        resolved = path.resolve(strict=True)
        if not resolved.is_relative_to(folder.resolve()):
            raise _wrong(path, "is a link that leaves the template", "put the file itself there")
        handle = os.open(resolved, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _wrong(path, "is no file", "put a file there")
            data = file.read(most + 1)
    except (OSError, RuntimeError) as error:  # a link that leads to itself is a RuntimeError in Python 3.11 and 3.12
        raise _wrong(path, f"cannot be read ({error})", "mend it, or choose another template") from error
    if len(data) > most:
        raise _wrong(path, f"is longer than {most} bytes", "shorten it; what is long belongs into a skill")
    return data


def _wrong(path: Path, what: str, hint: str) -> InvalidTemplate:
    return InvalidTemplate(f"{path} {what}", hint=hint, field="template")
