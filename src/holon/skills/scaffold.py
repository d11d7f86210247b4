"""Scaffolding: a new skill that passes its own lint, for an author to fill."""

from __future__ import annotations

from pathlib import Path

from holon.core.errors import Conflict
from holon.skills.format import ENTRYPOINT, FrontMatter, write_skill
from holon.skills.plain_files import disk_errors_told

_BODY = """\
# {title}

{description}

## When to use it

Say which tasks this skill is for, and which it is not for.

## Steps

1. Say what to do first, with the exact command or tool.
2. Say how to see that it worked.

For details load the reference `details.md` with `load_skill_instructions`."""

_REFERENCE = """\
# Details of {name}

What is long, or only needed sometimes, stands here: it costs nothing until it is loaded.
"""

_PROMPTS = """\
# One prompt a line, as a user would write it; 'holon skills test {name}' tries them.
{description}
"""


def scaffold(name: str, description: str, root: Path) -> Path:
    """Makes `root/name` with a SKILL.md, a reference and example prompts; returns the folder."""
    front = FrontMatter(name=name, description=" ".join(description.split()))
    title = name.replace("-", " ").capitalize()
    text = write_skill(front, _BODY.format(title=title, description=front.description))
    folder = root / name
    if folder.exists():
        raise Conflict(f"{folder} already exists", hint="choose another name, or edit it")
    with disk_errors_told(root):
        (folder / "references").mkdir(parents=True)
        (folder / "evals").mkdir()
        (folder / ENTRYPOINT).write_text(text, encoding="utf-8")
        (folder / "references" / "details.md").write_text(_REFERENCE.format(name=name), encoding="utf-8")
        (folder / "evals" / "prompts.txt").write_text(
            _PROMPTS.format(name=name, description=front.description), encoding="utf-8"
        )
    return folder
