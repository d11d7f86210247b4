"""The catalog: which templates can be named by their id on this machine, and what each of them gives."""

from __future__ import annotations

import os
from pathlib import Path

from holon.core.errors import HolonError
from holon.core.templates import SourceKind, TemplateEntry
from holon.templates.contents import read_template
from holon.templates.places import BUILTIN, is_template_id, user_folder
from holon.templates.seeding import builtin_ids, digest_of

_DESCRIPTION_CHARS = 160


def listing(user_home: Path | None) -> list[TemplateEntry]:
    """The user's folder, and what comes with Holon where that folder does not have it."""
    found = {id_: BUILTIN / id_ for id_ in builtin_ids()}
    root = user_folder(user_home)
    if root is not None and root.is_dir():
        found |= {name: root / name for name in os.listdir(root) if is_template_id(name) and (root / name).is_dir()}
    return [_entry(id_, folder) for id_, folder in sorted(found.items())]


def _entry(template_id: str, folder: Path) -> TemplateEntry:
    ours = digest_of(BUILTIN / template_id)
    source = SourceKind.BUILTIN if ours is not None and digest_of(folder) == ours else SourceKind.USER
    try:
        template = read_template(folder)
    except HolonError as error:
        return TemplateEntry(
            template_id=template_id,
            source=source,
            path=str(folder),
            description="",
            included_skills=[],
            problem=str(error),
        )
    return TemplateEntry(
        template_id=template_id,
        source=source,
        path=str(folder),
        description=_description(template.agents_md),
        included_skills=[ref.label for ref in template.skill_refs],
    )


def _description(text: str) -> str:
    """The first paragraph that is no heading."""
    for paragraph in text.split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip() and not line.startswith("#")]
        if lines:
            said = " ".join(lines)
            return said if len(said) <= _DESCRIPTION_CHARS else said[: _DESCRIPTION_CHARS - 1] + "…"
    return ""
