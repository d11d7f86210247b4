"""The index: one line a skill in the agent's prompt. Names and descriptions only, within a budget of tokens.

Nothing is hidden silently. If the lines do not fit, descriptions are shortened; if they still do not fit, the rest is
named without descriptions; and if even that is too long, the prompt says how many are missing and how to find them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holon.context.sections import Place, Section
from holon.core.prompts import Stability
from holon.core.skills import SkillActivation
from holon.core.tokens import estimate
from holon.skills.descriptors import SkillDescriptor

GUIDE = """\
# Skills
Each line is a skill that you can load. If one matches the task, open its SKILL.md with skill_load(name) before you \
follow its workflow; if none seems to, try skill_search(query). [preloaded] means that the body already stands in this \
prompt. Details of a skill are in its references: load_skill_instructions(skill_name, reference)."""

SHORT_CHARS = 120


def index_section(skills: Sequence[SkillDescriptor], preloaded: Collection[str], budget_tokens: int) -> Section:
    text = render_index(skills, preloaded, budget_tokens)
    return Section("skill_index", Place.SKILL_INDEX, Stability.AGENT_SCOPED, text, "skills")


def render_index(skills: Sequence[SkillDescriptor], preloaded: Collection[str], budget_tokens: int) -> str:
    if not skills:
        return ""
    room = budget_tokens - estimate(GUIDE)
    lines = [_line(skill, preloaded) for skill in skills]
    if estimate("\n".join(lines)) <= room:
        return "\n".join([GUIDE, *lines])
    lines = [_line(skill, preloaded, SHORT_CHARS) for skill in skills]
    if estimate("\n".join(lines)) <= room:
        note = "[descriptions are shortened to fit: skill_search shows them whole]"
        return "\n".join([GUIDE, *lines, note])
    return "\n".join([GUIDE, *_cut(skills, lines, room)])


def active_section(active: Sequence[SkillActivation]) -> Section:
    """Which skills are in use: names and how they stand, no bodies."""
    lines = [f"- {each.name} ({each.state}, {each.load_reason})" for each in active]
    text = "\n".join(["# Skills in use", *lines]) if lines else ""
    return Section("active_skills", Place.SKILL_INDEX, Stability.AGENT_SCOPED, text, "skills")


def _line(skill: SkillDescriptor, preloaded: Collection[str], most: int | None = None) -> str:
    mark = " [preloaded]" if skill.name in preloaded else ""
    return f"- {skill.name}{mark}: {_shortened(skill.description, most)}"


def _shortened(description: str, most: int | None) -> str:
    flat = " ".join(description.split())
    return flat if most is None or len(flat) <= most else flat[:most].rsplit(" ", 1)[0] + "…"


def _cut(skills: Sequence[SkillDescriptor], lines: Sequence[str], room: int) -> list[str]:
    """As many lines as fit into two thirds of the room; names of the others in the rest of it."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += estimate(line + "\n")
        if used > room * 2 // 3:
            break
        kept.append(line)
    names = [skill.name for skill in skills[len(kept) :]]
    left, shown = room - used - 40, list[str]()
    for name in names:
        left -= estimate(name + ", ")
        if left < 0:
            break
        shown.append(name)
    unnamed = len(names) - len(shown)
    rest = f" and {unnamed} more" if unnamed else ""
    note = (
        f"[{len(names)} of {len(skills)} skills are not described here, to save room: {', '.join(shown)}{rest}."
        " They can be loaded like the others; skill_search(query) describes them]"
    )
    return [*kept, note]
