"""Searching: skills by what they are called, described, told and accompanied by. Kept up as the catalog changes."""

from __future__ import annotations

from holon.core.skills import SkillUnusable
from holon.recall.lexical import Analysed, Field, LexicalIndex, analyse
from holon.skills.bodies import load_body
from holon.skills.catalog import Catalog
from holon.skills.descriptors import SkillDescriptor
from holon.skills.hits import Found

FIELDS = (
    Field("name", weight=3.0, usual_terms=3, is_title=True),
    Field("description", weight=1.5, usual_terms=20),
    Field("when_to_use", weight=1.5, usual_terms=20),
    Field("body", weight=0.3, usual_terms=400, length_penalty=0.6),
    Field("references", weight=0.5, usual_terms=6),
)
#: Of a long body its beginning says what it is about.
BODY_CHARS = 20_000


class SkillSearch:
    """The index of one catalog. `search` brings it up to date first: only skills that changed are read."""

    def __init__(self) -> None:
        self._index = LexicalIndex(FIELDS)
        self._indexed: dict[str, SkillDescriptor] = {}
        self._version = 0

    def search(self, catalog: Catalog, query: str, limit: int = 10) -> list[Found]:
        """Best first. An empty query lists by name; part of a word finds whatever has it in name or description."""
        self._keep_up(catalog)
        skills = {skill.name: skill for skill in catalog.visible()}
        if not query.strip():
            return [Found(skill, 0.0) for skill in list(skills.values())[:limit]]
        hits = [hit for hit in self._index.search(query, limit * 2) if hit.key in skills]
        found = [Found(skills[hit.key], hit.score, hit.matched) for hit in hits[:limit]]
        if len(found) < limit:
            have = {hit.skill.name for hit in found}
            part = query.strip().casefold()
            found += [
                Found(skill, 0.0, (part,))
                for name, skill in skills.items()
                if name not in have and part in f"{name} {skill.description}".casefold()
            ][: limit - len(found)]
        return found

    def knows(self, term: str) -> bool:
        return self._index.has_term(term)

    def _keep_up(self, catalog: Catalog) -> None:
        if self._version == catalog.version:
            return
        for name in [name for name in self._indexed if name not in catalog.skills]:
            self._index.remove(name)
            del self._indexed[name]
        for name, skill in catalog.skills.items():
            if self._indexed.get(name) is not skill:
                self._index.add(name, _analysed(skill))
                self._indexed[name] = skill
        self._version = catalog.version


def texts_of(skill: SkillDescriptor) -> dict[str, str]:
    try:
        body = load_body(skill).text[:BODY_CHARS]
    except SkillUnusable:
        body = ""
    return {
        "name": skill.own_name,
        "description": skill.description,
        "when_to_use": skill.front.when_to_use,
        "body": body,
        "references": " ".join(path.rpartition("/")[2].rpartition(".")[0] for path in skill.references),
    }


def _analysed(skill: SkillDescriptor) -> Analysed:
    return analyse(FIELDS, texts_of(skill))
