"""Bodies: a skill's SKILL.md below its front matter, read when it is wanted, with its version and its size."""

from __future__ import annotations

import hashlib
import os

from holon.core.skills import SkillUnusable
from holon.core.tokens import estimate
from holon.core.values import Value
from holon.skills.descriptors import SkillDescriptor
from holon.skills.format import read_skill

#: A SKILL.md above this is not loaded. The format's own limit is far below it.
MAX_BODY_BYTES = 256 * 1024


class Body(Value, frozen=True):
    text: str
    version: str
    tokens: int


def load_body(skill: SkillDescriptor) -> Body:
    """The body as it goes into a prompt, under its heading."""
    if skill.size > MAX_BODY_BYTES:
        raise _unusable(skill, f"is {skill.size} bytes long, and the limit is {MAX_BODY_BYTES}")
    try:
        with open(skill.entrypoint, "rb") as file:
            data = file.read(MAX_BODY_BYTES + 1)
    except OSError as error:
        raise _unusable(skill, f"cannot be read ({error.strerror})") from error
    if b"\0" in data or len(data) > MAX_BODY_BYTES:
        raise _unusable(skill, "is binary or too long")
    read = read_skill(data.decode("utf-8", "replace"), skill.folder.name)
    text = f"{heading(skill)}\n\n{read.body}"
    return Body(text, version_of(read.body), estimate(text))


def heading(skill: SkillDescriptor) -> str:
    return f"# Skill: {skill.name} (source: {skill.scope})"


def version_of(body: str) -> str:
    """Of the body alone: an edit of the front matter is no other version."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _unusable(skill: SkillDescriptor, why: str) -> SkillUnusable:
    return SkillUnusable(
        f"the body of skill {skill.name!r} {why}",
        hint=f"ask its author to split it ('holon skills lint {os.path.basename(skill.folder)}'), or load a reference",
    )
