"""Descriptors: what is known of a skill without loading it. Immutable and hashable; `references` is the allowlist."""

from __future__ import annotations

from pathlib import Path

from holon.core.skills import SkillScope
from holon.core.values import Value
from holon.skills.format import ENTRYPOINT, FrontMatter

_BLANK = FrontMatter()


class SkillDescriptor(Value, frozen=True):
    #: What the skill is called in this catalog: its own name, or `scope:name` where another one has that name.
    name: str
    description: str
    scope: SkillScope
    folder: Path
    #: Paths inside the folder, as the author listed them. Nothing else can be loaded as a reference.
    references: tuple[str, ...] = ()
    front: FrontMatter = _BLANK
    warnings: tuple[str, ...] = ()
    #: Size of SKILL.md, in bytes.
    size: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.references, tuple) or not all(isinstance(path, str) for path in self.references):
            raise TypeError(f"references must be a tuple of str, not {self.references!r}")

    @property
    def entrypoint(self) -> Path:
        return self.folder / ENTRYPOINT

    @property
    def own_name(self) -> str:
        return self.front.name or self.name

    @property
    def model_visible(self) -> bool:
        """Whether the agent may find and load it; a skill may be kept for people only."""
        return not self.front.disable_model_invocation
