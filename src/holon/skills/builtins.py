"""Builtins: skills that come with Holon. No agent has one by itself: a template or an operator installs it."""

from __future__ import annotations

from pathlib import Path

from holon.core.errors import NotFound
from holon.skills.format import ENTRYPOINT, valid_name

FOLDER = Path(__file__).parent / "builtin"


def builtin_skill(name: str) -> Path:
    """The folder to install from."""
    folder = FOLDER / name
    if not valid_name(name) or not (folder / ENTRYPOINT).is_file():
        raise NotFound(f"no skill {name[:100]!r} comes with Holon", hint=f"there are: {', '.join(builtin_skills())}")
    return folder


def builtin_skills() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{ENTRYPOINT}"))
