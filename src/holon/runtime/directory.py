"""The directory: which agents there are. Making one is a control-plane change; nobody makes one by writing to it.

A home from a template is made beside its place first, then the agent is committed, then an errand moves the home in:
killed before the commit there is no agent and no home; killed after it, the errand is still there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holon.core.agents import (
    AgentIdentity,
    AgentKind,
    AgentState,
    AgentStatus,
    Ownership,
    ProfilePreset,
    RegistryStatus,
    Visibility,
)
from holon.core.clock import moment
from holon.core.codec import dumps, loads
from holon.core.errors import AgentExists, Conflict, HolonError, InvalidInput
from holon.core.event_kinds import AgentCreated
from holon.core.ids import new_id
from holon.core.templates import TemplateEntry
from holon.core.transitions import Transition
from holon.runtime.admission import require_agent
from holon.runtime.archiving import archive
from holon.runtime.standing import with_status
from holon.store import Store, Tx, agents, idempotency, outbox
from holon.store.idempotency import Answer
from holon.store.outbox import Errand
from holon.templates.places import AGENTS_MD
from holon.templates.seeding import seed
from holon.templates.staging import Staging

if TYPE_CHECKING:
    from holon.templates.applying import Prepared, Templates

log = logging.getLogger("holon.agents")

MAKE_HOME = "agent_home.make"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: What a default agent without instructions of its own is made from.
DEFAULT_TEMPLATE = "holon-default"
_FOLDERS = ("memory", "notes", "work", "work-items", "skills", ".holon/state", ".holon/ledger", ".holon/indexes")


class Directory:
    def __init__(
        self,
        store: Store,
        agents_dir: Path,
        default_agent_id: str,
        kick: Callable[[str], None],
        user_home: Path | None = None,
    ) -> None:
        self._store, self._dir, self._default, self._kick = store, agents_dir, default_agent_id, kick
        self._user_home, self._staging = user_home, Staging(agents_dir)

    @cached_property
    def _templates(self) -> Templates:
        from holon.templates.applying import Templates  # most starts need none of it, and every start is waited for

        return Templates(self._staging, self._user_home, lambda: moment(self._store.clock.now_ms()))

    async def create(
        self, agent_id: str, *, surface: str, idempotency_key: str | None = None, template: str | None = None
    ) -> Answer[AgentIdentity]:
        """A public, self-owned agent; with a template, its home begins as that says."""
        check_id(agent_id)
        asked = _Asked(agent_id, surface, idempotency_key, template)
        if template is None:
            answer = await self._store.write(lambda tx: self._create(tx, asked, None), at=Transition.AGENT_CREATE)
        else:
            answer = await self._create_from(template, asked)
        await self.run_errands()
        return answer

    async def prepare(self, agent_id: str, template: str) -> Prepared:
        """The home of a new agent, ready to be moved in by the errand of its creation (`insert_agent(…, staged=)`)."""
        home = self._dir / agent_id
        await self._store.read(lambda tx: check_free(tx, agent_id))
        if await asyncio.to_thread(_occupied, home):
            raise Conflict(
                f"{home} is there already, though there is no agent {agent_id!r}",
                hint="move that folder aside, or choose another id",
            )
        return await self._templates.prepare(template)

    async def create_temporary(self, *, surface: str) -> AgentIdentity:
        """A private agent for one run; it is in no list."""
        identity = self._identity(new_id("tmp_run"), AgentKind.CHILD, Visibility.PRIVATE)
        await self._store.write(lambda tx: insert_agent(tx, identity, surface), at=Transition.AGENT_CREATE)
        await self.run_errands()
        return identity

    async def ensure_default(self) -> None:
        def step(tx: Tx) -> None:
            if agents.get(tx, self._default) is None:
                check_id(self._default)
                insert_agent(tx, self._identity(self._default, AgentKind.DEFAULT, Visibility.PUBLIC), "runtime")

        await self._store.write(step, at=Transition.AGENT_CREATE)
        await self.run_errands()
        await asyncio.to_thread(self._instruct_default)

    async def tidy(self) -> None:
        """At a start, before anything is created: the shipped templates in their place, no homes left half made."""
        await asyncio.to_thread(seed, self._user_home)
        if not (left := self._staging.left()):
            return
        errands = await self._store.read(lambda tx: outbox.of_topic(tx, MAKE_HOME))
        for token in left - {errand.payload.get("staged") for errand in errands}:
            await asyncio.to_thread(self._staging.discard, token)

    async def template_listing(self) -> list[TemplateEntry]:
        """The templates that can be named by their id."""
        from holon.templates.catalog import listing

        return await asyncio.to_thread(listing, self._user_home)

    async def archive(self, agent_id: str, reason: str) -> AgentIdentity:
        """Takes an agent out of service. Its records stay."""
        return await self._store.write(lambda tx: _archive(tx, agent_id, reason), at=Transition.AGENT_ARCHIVE)

    async def run_errands(self) -> None:
        """Makes the homes that commits asked for. Safe to do twice; what fails is tried again later."""
        for errand in await self._store.read(outbox.due):
            if errand.topic == MAKE_HOME:
                await self._make_home(errand)

    async def _make_home(self, errand: Errand) -> None:
        agent_id = str(errand.payload["agent_id"])
        try:
            if (staged := errand.payload.get("staged")) is not None:
                await asyncio.to_thread(self._staging.move_in, staged, self._dir / agent_id)
            for folder in _FOLDERS:
                (self._dir / agent_id / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            log.warning("the home of agent %s is not ready (%s): it is tried again", agent_id, error)
            await self._store.write(lambda tx: outbox.postpone(tx, errand.id, 5_000), at=Transition.AGENT_HOME_MADE)
            return
        await self._store.write(lambda tx: _ready(tx, agent_id, errand.id), at=Transition.AGENT_HOME_MADE)
        self._kick(agent_id)

    def _instruct_default(self) -> None:
        """Instructions for a default agent that has none; even an empty AGENTS.md is its owner's word."""
        home = self._dir / self._default
        if os.path.lexists(home / AGENTS_MD) or not home.is_dir():
            return
        # A copy that somebody broke must not keep the default agent from having any.
        for whose in (self._user_home, None):
            try:
                self._templates.complete(home, DEFAULT_TEMPLATE, whose)
            except (HolonError, OSError) as error:
                log.warning("agent %s got no %s from %s (%s)", self._default, AGENTS_MD, DEFAULT_TEMPLATE, error)
            else:
                return

    async def _create_from(self, template: str, asked: _Asked) -> Answer[AgentIdentity]:
        if (known := await self._store.read(lambda tx: _known(tx, asked))) is not None:
            return Answer(known, replayed=True)
        try:
            prepared = await self.prepare(asked.agent_id, template)
        except (AgentExists, Conflict):
            # The same request, sent twice at once, may have been answered meanwhile.
            if (known := await self._store.read(lambda tx: _known(tx, asked))) is not None:
                return Answer(known, replayed=True)
            raise
        try:
            answer = await self._store.write(
                lambda tx: self._create(tx, asked, prepared.token), at=Transition.AGENT_CREATE
            )
        except Exception:  # not a cancellation: then nobody knows whether it was committed, and the next start looks
            await asyncio.to_thread(prepared.discard)
            raise
        if answer.replayed:
            await asyncio.to_thread(prepared.discard)
        return answer

    def _create(self, tx: Tx, asked: _Asked, staged: str | None) -> Answer[AgentIdentity]:
        if (known := _known(tx, asked)) is not None:
            return Answer(known, replayed=True)
        identity = self._identity(asked.agent_id, AgentKind.NAMED, Visibility.PUBLIC)
        insert_agent(tx, identity, asked.surface, staged=staged)
        if asked.key:
            idempotency.remember(tx, "agent", asked.key, asked.fingerprint, dumps(identity))
        return Answer(identity)

    def _identity(self, agent_id: str, kind: AgentKind, visibility: Visibility) -> AgentIdentity:
        public = visibility is Visibility.PUBLIC
        return AgentIdentity(
            agent_id=agent_id,
            agent_home=str(self._dir / agent_id),
            kind=kind,
            visibility=visibility,
            ownership=Ownership.SELF_OWNED,
            profile_preset=ProfilePreset.PUBLIC_NAMED if public else ProfilePreset.PRIVATE_CHILD,
            status=RegistryStatus.ACTIVE,
            created_at=moment(self._store.clock.now_ms()),
            is_default_agent=kind is AgentKind.DEFAULT,
        )


class _Asked(NamedTuple):
    agent_id: str
    surface: str
    key: str | None
    template: str | None

    @property
    def fingerprint(self) -> str:
        return idempotency.fingerprint([self.agent_id, self.template] if self.template else self.agent_id)


def check_id(agent_id: str) -> None:
    if not _ID.fullmatch(agent_id) or agent_id.startswith("tmp_") or ".." in agent_id:
        raise InvalidInput(
            f"{agent_id!r} cannot be the id of an agent",
            hint="use 1 to 64 letters, digits, '.', '-' or '_', beginning with a letter or digit and not with 'tmp_'",
            field="agent_id",
        )


def insert_agent(
    tx: Tx, identity: AgentIdentity, surface: str, state: AgentState | None = None, *, staged: str | None = None
) -> None:
    """A new agent: its record, its first event, and the errand that makes its home, or moves in a prepared one."""
    check_free(tx, identity.agent_id)
    agents.insert(tx, identity, state or AgentState(id=identity.agent_id, status=AgentStatus.BOOTING))
    outbox.put(tx, MAKE_HOME, {"agent_id": identity.agent_id} | ({"staged": staged} if staged else {}))
    tx.emit(
        identity.agent_id,
        AgentCreated(
            agent_kind=identity.kind, visibility=identity.visibility, ownership=identity.ownership, surface=surface
        ),
    )


def check_free(tx: Tx, agent_id: str) -> None:
    if agents.get(tx, agent_id) is not None:
        raise AgentExists(f"agent {agent_id!r} exists already", hint=f"see 'holon agent status {agent_id}'")


def _known(tx: Tx, asked: _Asked) -> AgentIdentity | None:
    """The answer that this very request got before; `AgentExists` if another one took the name."""
    if asked.key and (first := idempotency.seen(tx, "agent", asked.key, asked.fingerprint)):
        return loads(first, AgentIdentity)
    check_free(tx, asked.agent_id)
    return None


def _occupied(home: Path) -> bool:
    return os.path.lexists(home) and not (home.is_dir() and not os.listdir(home))


def _ready(tx: Tx, agent_id: str, errand_id: str) -> None:
    outbox.done(tx, errand_id)
    stored = agents.get(tx, agent_id)
    if stored is not None and stored.state.status is AgentStatus.BOOTING:
        agents.save_state(tx, with_status(tx, stored.state, AgentStatus.AWAKE_IDLE, "its home is ready"))


def _archive(tx: Tx, agent_id: str, reason: str) -> AgentIdentity:
    stored = require_agent(tx, agent_id, private=True)
    agents.save_state(tx, archive(tx, stored.state, reason))
    after = agents.get(tx, agent_id)
    assert after is not None
    return after.identity
