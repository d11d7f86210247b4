"""Skills: how fast a catalog of 1,000 is looked through and searched, and how well the search finds what is meant.

Quality is measured on public queries over 4,076 tools, taken as if they were skills, beside plain full-text search.
"""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks import homes
from benchmarks.measures import Bound, Measure, Result, Scale, middle, quantile
from benchmarks.progress import Progress
from holon.recall.lexical import LexicalIndex
from holon.recall.words import words
from holon.skills.catalog import CatalogReader, Places
from holon.skills.searching import FIELDS, SkillSearch

DATA = Path(__file__).resolve().parent / "data" / "seal-tools"
LIMIT_COLD_MS, LIMIT_WARM_MS, LIMIT_SEARCH_MS = 1_000, 50, 10
#: Skills on disk; times that they are looked through; queries of each set (`None`: all).
SIZES: dict[Scale, tuple[int, int, int | None]] = {
    Scale.QUICK: (50, 3, 20),
    Scale.NORMAL: (1_000, 15, None),
    Scale.FULL: (1_000, 51, None),
}
TOP = 10
_SETS = {"in domain": "test_in_domain", "out of domain": "test_out_domain"}


def measure(scale: Scale, progress: Progress) -> Result:
    skills, rounds, queries = SIZES[scale]
    tools = list(_read("tools"))
    measures: list[Measure] = []
    details: dict[str, Any] = {"skills": skills, "tools": len(tools)}
    with homes.scratch() as home:
        progress.say(f"writing {skills} skills")
        _write_skills(home / "skills", tools[:skills])
        asked = [row["query"] for row in _read("dev")][: queries or 200]
        measures += _speed(Places(home), rounds, asked, progress, details)
    measures += _quality(tools, queries, progress, details)
    return Result(measures=measures, details=details)


def _speed(places: Places, rounds: int, asked: list[str], progress: Progress, details: dict[str, Any]) -> list[Measure]:
    cold, warm, bare = [], [], []
    for number in range(rounds):
        progress.say(f"discovery, {number + 1} of {rounds}")
        reader = CatalogReader()
        cold.append(_ms(lambda: reader.read(places)))  # noqa: B023 - called at once
        warm.append(_ms(lambda: reader.read(places)))  # noqa: B023
        bare.append(_ms(lambda: [path.read_bytes() for path in sorted(places.agent_home.glob("skills/*/SKILL.md"))]))
    catalog, search = reader.read(places), SkillSearch()
    details["first_search_ms"] = round(_ms(lambda: search.search(catalog, "warm up")), 1)
    short = [" ".join(list(words(query))[:8]) for query in asked]
    progress.say("searching")
    times = [_ms(lambda: search.search(catalog, query)) for query in short]  # noqa: B023
    details["long_query_p95_ms"] = round(quantile([_ms(lambda: search.search(catalog, q)) for q in asked], 0.95), 2)  # noqa: B023
    baseline = _full_text([{"name": s.name, "description": s.description, "field": ""} for s in catalog.visible()])
    plain = [_ms(lambda: baseline(query)) for query in short]  # noqa: B023
    reads = "reading the same files and nothing else"
    return [
        Measure(
            what="discovery, cold",
            unit="ms",
            ours=middle(cold),
            baseline=middle(bare),
            baseline_is=reads,
            limit=LIMIT_COLD_MS,
            limit_is="all skills described",
        ),
        Measure(
            what="discovery, warm",
            unit="ms",
            ours=middle(warm),
            baseline=middle(bare),
            baseline_is=reads,
            limit=LIMIT_WARM_MS,
            limit_is="nothing changed",
        ),
        Measure(
            what="skill_search p95",
            unit="ms",
            ours=quantile(times, 0.95),
            baseline=quantile(plain, 0.95),
            baseline_is="FTS5 over names and descriptions only",
            limit=LIMIT_SEARCH_MS,
            limit_is="queries of eight words",
        ),
    ]


def _quality(
    tools: list[dict[str, Any]], queries: int | None, progress: Progress, details: dict[str, Any]
) -> list[Measure]:
    progress.say(f"indexing {len(tools)} tools")
    index = LexicalIndex(FIELDS)
    for tool in tools:
        index.add(
            tool["name"],
            {"name": tool["name"], "description": tool["description"], "references": tool["field"],
             "body": tool["parameters"]},
        )  # fmt: skip
    plain = _full_text(tools)
    found = []
    for label, name in {**_SETS, "(dev)": "dev"}.items():
        rows = list(_read(name))[:queries]
        progress.say(f"searching {label}")
        ours = _recall(rows, lambda query: [hit.key for hit in index.search(query, TOP)])
        baseline = _recall(rows, plain)
        if label == "(dev)":
            details["recall_at_10_dev"] = round(ours, 4)
            continue
        found.append(
            Measure(
                what=f"recall@10, {label}",
                unit="",
                ours=ours,
                baseline=baseline,
                baseline_is="FTS5 (porter unicode61) over name, description, field; any of the query's words",
                limit=baseline,
                limit_is="the baseline",
                bound=Bound.AT_LEAST,
            )
        )
    return found


def _recall(rows: list[dict[str, Any]], search: Callable[[str], list[str]]) -> float:
    """The share of the right tools among the first ten, averaged over queries."""
    shares = [len(set(search(row["query"])) & set(row["tools"])) / len(row["tools"]) for row in rows]
    return sum(shares) / len(shares)


def _full_text(tools: list[dict[str, Any]]) -> Callable[[str], list[str]]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE t USING fts5(name, description, field, tokenize='porter unicode61')")
    for number, tool in enumerate(tools):
        name = " ".join(words(tool["name"]))
        database.execute(
            "INSERT INTO t (rowid, name, description, field) VALUES (?, ?, ?, ?)",
            (number, name, tool["description"], tool["field"]),
        )

    def search(query: str) -> list[str]:
        asked = dict.fromkeys(word for part in query.lower().split() for word in _plain_words(part))
        if not asked:
            return []
        match = " OR ".join(f'"{word}"' for word in asked)
        with closing(database.cursor()) as cursor:
            rows = cursor.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (match, TOP)).fetchall()
        return [tools[row[0]]["name"] for row in rows]

    return search


def _plain_words(text: str) -> Iterator[str]:
    word = ""
    for letter in text + " ":
        if letter.isalnum() or letter == "_":
            word += letter
        elif word:
            yield word
            word = ""


def _write_skills(root: Path, tools: list[dict[str, Any]]) -> None:
    """Skills as people write them: a name, a description, a body of some 400 words, two references."""
    chance = random.Random(7)
    vocabulary = sorted({word for tool in tools for word in words(tool["description"]) if word.isalpha()})
    for number, tool in enumerate(tools):
        folder = root / f"{'-'.join(list(words(tool['name']))[:5])}-{number}"
        (folder / "references").mkdir(parents=True)
        text = " ".join(chance.choices(vocabulary, k=400))
        (folder / "SKILL.md").write_text(
            f"---\nname: {folder.name}\ndescription: {json.dumps(tool['description'])}\nlicense: MIT\n---\n\n"
            f"# {tool['name']}\n\n{tool['parameters']}\n\n{text}\n"
        )
        for name in ("details.md", "errors.md"):
            (folder / "references" / name).write_text(tool["description"])


def _read(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
