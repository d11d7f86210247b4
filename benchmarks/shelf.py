"""The shelf: the skills of the reference workload as files, found by the catalog and loaded by the model's tool."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks import homes
from holon.context.sections import Section
from holon.core.skills import ActivationBudget, SkillScope
from holon.core.tokens import count
from holon.runtime.admission import admit
from holon.skills.bodies import heading
from holon.skills.catalog import describe
from holon.skills.descriptors import SkillDescriptor
from holon.skills.format import ENTRYPOINT, FrontMatter, write_skill
from holon.skills.index import index_section
from holon.skills.library import Library
from holon.skills.linting import lint_skill
from holon.store import Store, Tx, agents, loads, queue
from holon.tools.registry import CallContext
from holon.tools.skills import SkillLoadInput, SkillTools

AGENT = "main"


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a prompt says of the skills, and what `skill_load` answered for those that were used."""

    index: Section
    bodies: dict[str, str]


def fill(home: Path, *, skills: int, line_tokens: int, body_tokens: int, used: int) -> Shelf:
    """Writes the skills into an agent's home, looks through it and loads some, as a turn does."""
    names = [f"skill-{number:02d}" for number in range(skills)]
    for name in names:
        _write(home / "agents" / AGENT / "skills", name, line_tokens, body_tokens)
    with closing(Store(home / "state" / "holon.sqlite3")) as store:
        return asyncio.run(_use(store, home, names[1 : used + 1]))


async def _use(store: Store, home: Path, wanted: list[str]) -> Shelf:
    await store.write(lambda tx: homes.add_agents(tx, home, [AGENT]))
    context = await store.write(_context)
    library, budget = Library(), ActivationBudget()
    tools = SkillTools(store, library, budget)
    bodies = {}
    for name in wanted:
        outcome = await tools.load(context, SkillLoadInput(name=name))
        assert outcome.effect is not None
        await store.write(outcome.effect)
        bodies[name] = outcome.content
    booked = await store.read(lambda tx: loads.of_agent(tx, AGENT))
    assert sorted(load.name for load in booked) == wanted, "a load is not in the ledger"
    return Shelf(index_section(library.catalog(context.agent).visible(), (), budget.index_tokens), bodies)


def _context(tx: Tx) -> CallContext:
    stored = agents.get(tx, AGENT)
    assert stored is not None
    message_id = admit(tx, AGENT, homes.prompt(AGENT), homes.UNBOUND).message_id
    return CallContext(stored.identity, queue.messages(tx, [message_id])[message_id], "turn_1", "run_1", "call_1")


def _write(root: Path, name: str, line_tokens: int, body_tokens: int) -> None:
    """A skill that is sound, whose index line and whose body under its heading have exactly so many tokens."""
    folder = root / name
    folder.mkdir(parents=True)
    description = words(line_tokens, before=f"- {name}: ")
    top = heading(SkillDescriptor(name=name, description="", scope=SkillScope.AGENT, folder=folder))
    body = words(body_tokens, before=f"{top}\n\n")
    (folder / ENTRYPOINT).write_text(write_skill(FrontMatter(name=name, description=description), body))
    assert isinstance(describe(SkillScope.AGENT, root, folder), SkillDescriptor)
    assert [finding for finding in lint_skill(folder) if finding.fails] == []


def words(tokens: int, before: str = "") -> str:
    """Text that makes up so many tokens of the cl100k vocabulary with what stands before it."""
    text = "word" + " word" * (tokens - count(before + "word"))
    assert count(before + text) == tokens
    return text
