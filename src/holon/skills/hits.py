"""Hits: what a search for skills found. Apart from the search, which is loaded with the first one."""

from __future__ import annotations

from holon.core.values import Value
from holon.skills.descriptors import SkillDescriptor

MAX_HITS = 50


class Found(Value, frozen=True):
    skill: SkillDescriptor
    score: float
    matched: tuple[str, ...] = ()
