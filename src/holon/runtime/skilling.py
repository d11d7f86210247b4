"""Skilling: skills as a service of the host. What an agent's prompt says of them, and what surfaces ask.

Files are the library's business, rules are the room's; this module joins them with the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from holon.context.epochs import Epoch
from holon.context.offers import NOTHING, Offer
from holon.context.padding import Filler
from holon.core.agents import AgentIdentity
from holon.core.clock import moment, to_ms
from holon.core.codec import Input, Record
from holon.core.errors import InvalidInput
from holon.core.event_kinds import SkillInstalled
from holon.core.ledger import cost_of
from holon.core.skills import (
    ActivationBudget,
    ActivationState,
    LoadLine,
    LoadReason,
    SkillActivation,
    SkillScope,
    SkillUnusable,
    UnknownSkillError,
)
from holon.core.transitions import Transition
from holon.core.usage import InputBuckets
from holon.providers.models import ModelTable
from holon.runtime.admission import require_agent
from holon.skills.activation import SkillActivationRegistry
from holon.skills.bodies import load_body
from holon.skills.catalog import Catalog
from holon.skills.commands import Activation, activations_in, may_touch
from holon.skills.descriptors import SkillDescriptor
from holon.skills.index import active_section, index_section
from holon.skills.installing import Installed, Provenance, install, provenance_of, uninstall
from holon.skills.library import Anchors, Library
from holon.skills.recording import Cause, begin_epoch, record_activation
from holon.skills.repositories import is_git_url
from holon.store import Store, Tx, activations, agents, loads
from holon.store.agents import StoredAgent
from holon.tools.registry import CallContext

#: Bodies that are looked at for padding, by name, and the longest that could fit between a floor and its upper bound.
PADDING_BODIES = 64
PADDING_BYTES = 24 * 1024
DEFAULT_DAYS = 30
IDENTITIES = 1_024


class SkillView(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A skill as people see it. Never its body."""

    name: str
    description: str
    scope: SkillScope
    folder: str
    references: list[str]
    warnings: list[str]
    model_visible: bool
    active: SkillActivation | None = None
    provenance: Provenance | None = None


class SkillsView(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    session_id: str | None
    skills: list[SkillView]
    #: Folders that look like skills and are none, and why.
    problems: list[str]
    explicit_count: int
    explicit_tokens: int
    budget: ActivationBudget


class SkillsReport(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`/analytics/skills`."""

    since: str
    agent_id: str | None
    lines: list[LoadLine]
    #: In the catalogs of all agents asked about, and not loaded once.
    never_used: list[str]
    #: Loaded, and nothing showed afterwards that it was of use.
    unused: list[str]
    #: Asked for in vain at least as often as it came.
    often_refused: list[str]
    #: The fewest skills that make up half of the money, or of the tokens where nothing was paid.
    expensive: list[str]


class SkillInstallRequest(Input, frozen=True, kw_only=True):
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]
    ref: str | None = None
    skill: str | None = None
    replace: bool = False


class SkillUninstallRequest(Input, frozen=True, kw_only=True):
    name: str
    force: bool = False


class Skilling:
    def __init__(
        self,
        store: Store,
        models: ModelTable,
        agents_dir: Path,
        default_agent_id: str,
        budget: ActivationBudget,
        user_home: Path | None,
        anchor_of: Anchors,
    ) -> None:
        self._store, self._models, self._default = store, models, default_agent_id
        self._agents_dir, self.budget = agents_dir, budget
        self.library = Library(user_home, anchor_of)
        #: Of those who ask often. What matters of an identity here never changes.
        self._identities: dict[str, AgentIdentity] = {}

    async def offer(self, agent_id: str) -> Callable[[Tx], Offer]:
        """What the agent's next prompt may say and hold of skills. The catalog is looked at here; what was loaded is
        read in the transaction that makes the prompt.

        A large one is looked at on a thread: a thousand skills are tens of milliseconds during which all would wait.
        """
        identity = self._identities.get(agent_id) or self._identify(agent_id)
        if identity is None:
            return lambda _: NOTHING
        catalog = self.library.catalog_at_once(identity)
        if catalog is None:
            catalog = await asyncio.to_thread(self.library.catalog, identity)
        return partial(self._offer, agent_id, catalog)

    def _offer(self, agent_id: str, catalog: Catalog, tx: Tx) -> Offer:
        active = activations.of_agent(tx, agent_id)
        if not catalog.skills and not active:
            return NOTHING
        in_use = [each for each in active if each.load_reason.explicit and each.state is not ActivationState.LAPSED]
        registry = SkillActivationRegistry(active, self.budget)
        return Offer(
            sections=lambda heads: [
                index_section(catalog.visible(), heads, self.budget.index_tokens),
                active_section(in_use),
            ],
            bodies=lambda: _fillers(_small(catalog)),
            carried=lambda cut: _fillers(_found(catalog, registry.carried(cut))),
        )

    def opened(self, tx: Tx, session_id: str, epoch: Epoch, carried: Sequence[str]) -> None:
        """An epoch was opened: its preloads are activations of the session, and what was unloaded is gone."""
        agent_id = epoch.agent_id
        begin_epoch(tx, agent_id, carried, epoch.after_seq)
        preloaded = [name for name in epoch.preloaded if name not in carried]
        stored = agents.get(tx, agent_id) if preloaded else None
        if stored is None:
            return
        for skill in _found(self.library.known_catalog(stored.identity), preloaded):
            try:
                body = load_body(skill)
            except SkillUnusable:  # gone since the head was put together; its text stands there all the same
                continue
            record_activation(
                tx, Cause(agent_id), skill, body, LoadReason.ALWAYS, session_id=session_id, epoch=epoch.number
            )

    def costing(self, model_ref: str, tokens: int) -> int:
        """What it costs to write so many tokens into a prompt, once."""
        return cost_of(self._models.card(model_ref).prices, InputBuckets(written=tokens), 0)

    def touched(self, agent: AgentIdentity, command: str, cwd: Path | None, *, success: bool) -> list[Activation]:
        """The skills that a command read or ran: what command tools hand to `note_commands` with their result."""
        if not success or not may_touch(command):
            return []
        return activations_in(command, self.library.catalog(agent), success, cwd, self.library.user_home)

    def notice(self, context: CallContext, done: Sequence[tuple[str, Path]]) -> Callable[[Tx], None] | None:
        """Commands that ended well, with their folders: what is to be committed with their result."""
        found = [each for cmd, cwd in done for each in self.touched(context.agent, cmd, cwd, success=True)]
        if not found:
            return None
        cause = Cause(context.agent.agent_id, context.turn_id, context.call_id)
        return lambda tx: self.note_commands(tx, cause, found)

    def note_commands(self, tx: Tx, cause: Cause, touched: Sequence[Activation]) -> None:
        for activation in touched:
            try:
                body = load_body(activation.skill)
            except SkillUnusable:
                continue
            record_activation(
                tx, cause, activation.skill, body, activation.load_reason, self.costing, path=activation.path
            )

    async def listing(self, agent_id: str | None = None) -> SkillsView:
        """The agent's catalog, and what of it is active."""
        stored, active = await self._store.read(lambda tx: self._standing(tx, agent_id))
        catalog = await asyncio.to_thread(self.library.catalog, stored.identity)
        by_name = {each.name: each for each in active}
        registry = SkillActivationRegistry(active, self.budget)
        return SkillsView(
            agent_id=stored.identity.agent_id,
            session_id=stored.state.session_id,
            skills=[_view(skill, by_name.get(skill.name)) for skill in catalog.skills.values()],
            problems=list(catalog.problems),
            explicit_count=len(registry.explicit),
            explicit_tokens=registry.explicit_tokens,
            budget=self.budget,
        )

    async def install(self, agent_id: str | None, asked: SkillInstallRequest, *, surface: str) -> Installed:
        """Into the agent's own root. Nothing of the skill is run."""
        stored, _ = await self._store.read(lambda tx: self._standing(tx, agent_id))
        if not is_git_url(asked.source) and not Path(asked.source).is_absolute():
            raise InvalidInput(
                f"{asked.source[:100]!r} is neither an absolute path nor a git URL",
                hint="give the whole path, or a URL that begins with https://, ssh://, git@ or file://",
                field="source",
            )
        root = self._root(stored.identity)
        now = moment(self._store.clock.now_ms())
        done = await asyncio.to_thread(
            lambda: install(asked.source, root, now, ref=asked.ref, skill=asked.skill, replace=asked.replace)
        )
        event = SkillInstalled(
            skill_id=done.name, source=done.provenance.source, surface=surface, commit=done.provenance.commit
        )
        await self._store.write(lambda tx: tx.emit(stored.identity.agent_id, event), at=Transition.AUDIT)
        return done

    async def uninstall(self, agent_id: str | None, asked: SkillUninstallRequest, *, surface: str) -> Provenance | None:
        stored, _ = await self._store.read(lambda tx: self._standing(tx, agent_id))
        found = await asyncio.to_thread(lambda: uninstall(asked.name, self._root(stored.identity), force=asked.force))
        event = SkillInstalled(
            skill_id=asked.name, source=found.source if found else "(local)", surface=surface, removed=True
        )
        await self._store.write(lambda tx: tx.emit(stored.identity.agent_id, event), at=Transition.AUDIT)
        return found

    async def report(self, *, days: int = DEFAULT_DAYS, agent_id: str | None = None) -> SkillsReport:
        """Loads of the last days, a line a skill; and skills of the catalog that nobody loaded."""
        if not 1 <= days <= 36_500:
            raise InvalidInput("days must be between 1 and 36500", field="days")
        stored, _ = await self._store.read(lambda tx: self._standing(tx, agent_id))
        since = moment(self._store.clock.now_ms()) - timedelta(days=days)
        lines = await self._store.read(lambda tx: loads.summary(tx, since_ms=to_ms(since), agent_id=agent_id))
        catalog = await asyncio.to_thread(self.library.catalog, stored.identity)
        loaded = {line.name for line in lines if line.loads or line.preloads}
        return SkillsReport(
            since=since.strftime("%Y-%m-%dT%H:%M:%SZ"),
            agent_id=agent_id,
            lines=lines,
            never_used=[name for name in catalog.skills if name not in loaded],
            unused=[line.name for line in lines if line.loads and not line.used],
            often_refused=[line.name for line in lines if line.refused and line.refused >= line.loads],
            expensive=_expensive(lines),
        )

    def _identify(self, agent_id: str) -> AgentIdentity | None:
        stored = self._store.read_now(lambda tx: agents.get(tx, agent_id))
        if stored is None:
            return None
        if len(self._identities) >= IDENTITIES:
            self._identities.clear()
        self._identities[agent_id] = stored.identity
        return stored.identity

    def _standing(self, tx: Tx, agent_id: str | None) -> tuple[StoredAgent, list[SkillActivation]]:
        stored = require_agent(tx, agent_id or self._default, private=False)
        return stored, activations.of_agent(tx, stored.identity.agent_id)

    def _root(self, agent: AgentIdentity) -> Path:
        return self.library.places(agent).root(SkillScope.AGENT) or Path(agent.agent_home) / "skills"


def _expensive(lines: Sequence[LoadLine]) -> list[str]:
    paid = any(line.dollars for line in lines)
    costs = sorted(((line.dollars if paid else line.tokens, line.name) for line in lines), key=lambda c: (-c[0], c[1]))
    half, found = sum(cost for cost, _ in costs) / 2, list[str]()
    for cost, name in costs:
        if half <= 0:
            break
        found.append(name)
        half -= cost
    return found


def _small(catalog: Catalog) -> list[SkillDescriptor]:
    return [skill for skill in catalog.visible() if skill.size <= PADDING_BYTES][:PADDING_BODIES]


def _found(catalog: Catalog, names: Sequence[str]) -> list[SkillDescriptor]:
    """The skills of these names that are still there."""
    found = []
    for name in names:
        try:
            found.append(catalog.find(name))
        except UnknownSkillError:
            continue
    return found


def _fillers(skills: Sequence[SkillDescriptor]) -> list[Filler]:
    found = []
    for skill in skills:
        try:
            found.append(Filler(skill.name, load_body(skill).text))
        except SkillUnusable:
            continue
    return found


def _view(skill: SkillDescriptor, active: SkillActivation | None) -> SkillView:
    return SkillView(
        name=skill.name,
        description=skill.description,
        scope=skill.scope,
        folder=str(skill.folder),
        references=list(skill.references),
        warnings=list(skill.warnings),
        model_visible=skill.model_visible,
        active=active,
        provenance=provenance_of(skill.folder),
    )
