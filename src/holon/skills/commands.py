"""Commands that touch skills: reading a SKILL.md, or running a script of a skill, through a shell.

Pure: a command's text, where it ran and a catalog lead to activations. The command tools call this with what succeeded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from holon.core.skills import LoadReason
from holon.core.values import Value
from holon.skills.catalog import Catalog
from holon.skills.descriptors import SkillDescriptor
from holon.skills.format import ENTRYPOINT

#: Commands longer than this are looked at up to here.
MAX_COMMAND_CHARS = 100_000
_WORDS = re.compile(r"[^\s'\"|;&()<>=`$,:]+(?:\\ [^\s'\"|;&()<>=`$,:]+)*")


class Activation(Value, frozen=True):
    skill: SkillDescriptor
    load_reason: LoadReason
    #: What triggered it: the SKILL.md, or the script.
    path: Path


def may_touch(command_text: str) -> bool:
    """Whether a command could read or run something of a skill at all. Most cannot, and then no catalog is needed."""
    text = command_text[:MAX_COMMAND_CHARS]
    return ENTRYPOINT in text or "scripts/" in text


def activations_in(
    command_text: str, catalog: Catalog, success: bool, cwd: Path | None = None, home: Path | None = None
) -> list[Activation]:
    """The skills that a command read or ran, each once; a failed command activates nothing.

    A skill whose SKILL.md was read and whose script was run counts as read: that is what brought its body in.
    """
    text = command_text[:MAX_COMMAND_CHARS]
    if not success or not may_touch(text):
        return []
    found: dict[str, Activation] = {}
    folders = _folders(catalog)
    before = ""
    for word in _WORDS.findall(text):
        path = _absolute(word.replace("\\ ", " "), cwd, home)
        if before == "cd":
            cwd = path
        before = word
        activation = _activation(path, folders) if path is not None else None
        if activation is None:
            continue
        known = found.get(activation.skill.name)
        if known is None or activation.load_reason is LoadReason.READ_SKILL_MD:
            found[activation.skill.name] = activation
    return list(found.values())


def _absolute(word: str, cwd: Path | None, home: Path | None) -> Path | None:
    path = Path(word)
    if word.startswith("~/") and home is not None:
        path = home / word[2:]
    if not path.is_absolute():
        if cwd is None:
            return None
        path = cwd / path
    return Path(os.path.normpath(path))


def _activation(path: Path, folders: dict[Path, SkillDescriptor]) -> Activation | None:
    for parent in path.parents:
        skill = folders.get(parent)
        if skill is None:
            continue
        inside = path.relative_to(parent)
        if inside == Path(ENTRYPOINT):
            return Activation(skill, LoadReason.READ_SKILL_MD, skill.entrypoint)
        if inside.parts[0] == "scripts" and len(inside.parts) > 1:
            return Activation(skill, LoadReason.RUN_SKILL_SCRIPT, skill.folder / inside)
        return None
    return None


def _folders(catalog: Catalog) -> dict[Path, SkillDescriptor]:
    """Skills by the folder that they are listed under, and by the one that links lead to."""
    folders: dict[Path, SkillDescriptor] = {}
    for skill in catalog.skills.values():
        folders[Path(os.path.normpath(skill.folder))] = skill
        folders.setdefault(Path(os.path.realpath(skill.folder)), skill)
    return folders
