"""Coverage: will this skill be found? Its example prompts, and variants of them, against the whole catalog.

The gate for skills: it says how often the skill comes first or among the first three, which other skill wins instead,
and which words its description lacks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from holon.core.codec import Record
from holon.core.errors import InvalidInput
from holon.recall.words import terms, words
from holon.skills.catalog import Catalog
from holon.skills.descriptors import SkillDescriptor
from holon.skills.plain_files import read_plain
from holon.skills.searching import SkillSearch
from holon.skills.variation import variants

DEEP = 10
MISSING_WORDS = 8
MAX_PROMPTS = 200
MAX_EVALS_BYTES = 1024 * 1024


class Probe(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One prompt: where the skill came (0: not among the first ten), and who came first."""

    prompt: str
    rank: int
    winner: str | None
    is_variant: bool = False


class Coverage(Record, frozen=True, kw_only=True, omit_defaults=False):
    skill: str
    catalog_size: int
    probes: list[Probe]
    #: Shares of all probes.
    first: float
    in_three: float
    #: Skills that won instead, and how often.
    rivals: dict[str, int]
    #: Words of the prompts that were not won, which name and description of the skill do not have.
    missing_words: list[str]

    def passes(self, at_least: float) -> bool:
        return self.in_three >= at_least


def cover(skill: SkillDescriptor, catalog: Catalog, prompts: Sequence[str]) -> Coverage:
    """Measures a skill. `catalog` is what it competes with."""
    asked = list(dict.fromkeys(prompt.strip() for prompt in prompts if prompt.strip()))
    if not asked:
        raise InvalidInput(
            f"skill {skill.name!r} has no example prompts",
            hint="put some into evals/prompts.txt, a line each, or give them with --prompt",
        )
    search = SkillSearch()
    probes = []
    for prompt in asked[:MAX_PROMPTS]:
        probes.append(_probe(search, catalog, skill, prompt, is_variant=False))
        probes += [_probe(search, catalog, skill, text, is_variant=True) for text in variants(prompt)]
    lost = [probe for probe in probes if probe.rank != 1]
    rivals = Counter(probe.winner for probe in lost if probe.winner is not None)
    return Coverage(
        skill=skill.name,
        catalog_size=len(catalog.visible()),
        probes=probes,
        first=sum(probe.rank == 1 for probe in probes) / len(probes),
        in_three=sum(1 <= probe.rank <= 3 for probe in probes) / len(probes),
        rivals=dict(sorted(rivals.items(), key=lambda entry: (-entry[1], entry[0]))),
        missing_words=_missing(skill, [probe.prompt for probe in lost if not probe.is_variant] or []),
    )


def example_prompts(folder: Path) -> list[str]:
    """The prompts under evals/: lines of .txt and .md files, strings or `prompt`/`query` fields of .json and .yaml."""
    found: list[str] = []
    for path in sorted((folder / "evals").glob("*")) if (folder / "evals").is_dir() else []:
        try:
            text = (read_plain(path, MAX_EVALS_BYTES) or b"").decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if path.suffix in (".txt", ".md"):
            lines = [re.sub(r"^[-*]\s+", "", line.strip()) for line in text.splitlines()]
            found += [line for line in lines if line and not line.startswith("#")]
        elif path.suffix in (".json", ".jsonl", ".yaml", ".yml"):
            found += _prompts_in(_parsed(path, text))
    return found[:MAX_PROMPTS]


def _probe(search: SkillSearch, catalog: Catalog, skill: SkillDescriptor, prompt: str, *, is_variant: bool) -> Probe:
    names = [found.skill.name for found in search.search(catalog, prompt, DEEP)]
    rank = names.index(skill.name) + 1 if skill.name in names else 0
    return Probe(prompt=prompt, rank=rank, winner=names[0] if names else None, is_variant=is_variant)


def _missing(skill: SkillDescriptor, prompts: Sequence[str]) -> list[str]:
    known = set(terms(f"{skill.own_name} {skill.description} {skill.front.when_to_use}"))
    counted: Counter[str] = Counter()
    for prompt in prompts:
        counted.update({word for word in words(prompt) if terms(word) and not set(terms(word)) & known})
    return [word for word, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))][:MISSING_WORDS]


def _parsed(path: Path, text: str) -> Any:
    try:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        what = " ".join(str(error).split())[:200]
        raise InvalidInput(f"{path} cannot be read: {what}", hint="mend it, or write prompts into a .txt") from error


def _prompts_in(value: Any, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, list) and depth < 4:
        return [prompt for item in value for prompt in _prompts_in(item, depth + 1)]
    if isinstance(value, dict) and depth < 4:
        wanted = [value[key] for key in ("prompt", "query", "prompts", "queries", "evals") if key in value]
        return [prompt for item in wanted for prompt in _prompts_in(item, depth + 1)]
    return []
