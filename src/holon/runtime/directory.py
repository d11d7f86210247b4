"""The directory: which agents there are. Making one is a control-plane change; nobody makes one by writing to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

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
from holon.core.errors import AgentExists, InvalidInput
from holon.core.event_kinds import AgentArchived, AgentCreated, TriggerRevoked
from holon.core.ids import new_id
from holon.core.transitions import Transition
from holon.core.triggers import TriggerStatus
from holon.runtime.admission import require_agent
from holon.runtime.standing import with_status
from holon.store import Store, Tx, agents, idempotency, outbox, timers, triggers
from holon.store.outbox import Errand

MAKE_HOME = "agent_home.make"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FOLDERS = ("memory", "notes", "work", "work-items", "skills", ".holon/state", ".holon/ledger", ".holon/indexes")


class Directory:
    def __init__(self, store: Store, agents_dir: Path, default_agent_id: str, kick: Callable[[str], None]) -> None:
        self._store, self._dir, self._default, self._kick = store, agents_dir, default_agent_id, kick

    async def create(self, agent_id: str, *, surface: str, idempotency_key: str | None = None) -> AgentIdentity:
        """A public, self-owned agent."""
        check_id(agent_id)
        identity = await self._store.write(
            lambda tx: self._create(tx, agent_id, surface, idempotency_key), at=Transition.AGENT_CREATE
        )
        await self.run_errands()
        return identity

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
            for folder in _FOLDERS:
                (self._dir / agent_id / folder).mkdir(parents=True, exist_ok=True)
        except OSError:
            await self._store.write(lambda tx: outbox.postpone(tx, errand.id, 5_000), at=Transition.AGENT_HOME_MADE)
            return
        await self._store.write(lambda tx: _ready(tx, agent_id, errand.id), at=Transition.AGENT_HOME_MADE)
        self._kick(agent_id)

    def _create(self, tx: Tx, agent_id: str, surface: str, key: str | None) -> AgentIdentity:
        print_ = idempotency.fingerprint(agent_id)
        if key and (first := idempotency.seen(tx, "agent", key, print_)):
            return loads(first, AgentIdentity)
        if agents.get(tx, agent_id) is not None:
            raise AgentExists(f"agent {agent_id!r} exists already", hint=f"see 'holon agent status {agent_id}'")
        identity = self._identity(agent_id, AgentKind.NAMED, Visibility.PUBLIC)
        insert_agent(tx, identity, surface)
        if key:
            idempotency.remember(tx, "agent", key, print_, dumps(identity))
        return identity

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


def check_id(agent_id: str) -> None:
    if not _ID.fullmatch(agent_id) or agent_id.startswith("tmp_") or ".." in agent_id:
        raise InvalidInput(
            f"{agent_id!r} cannot be the id of an agent",
            hint="use 1 to 64 letters, digits, '.', '-' or '_', beginning with a letter or digit and not with 'tmp_'",
            field="agent_id",
        )


def insert_agent(tx: Tx, identity: AgentIdentity, surface: str, state: AgentState | None = None) -> None:
    """A new agent: its record, its first event, and the errand that makes its home."""
    if agents.get(tx, identity.agent_id) is not None:
        agent_id = identity.agent_id
        raise AgentExists(f"agent {agent_id!r} exists already", hint=f"see 'holon agent status {agent_id}'")
    agents.insert(tx, identity, state or AgentState(id=identity.agent_id, status=AgentStatus.BOOTING))
    outbox.put(tx, MAKE_HOME, {"agent_id": identity.agent_id})
    tx.emit(
        identity.agent_id,
        AgentCreated(
            agent_kind=identity.kind, visibility=identity.visibility, ownership=identity.ownership, surface=surface
        ),
    )


def _ready(tx: Tx, agent_id: str, errand_id: str) -> None:
    outbox.done(tx, errand_id)
    stored = agents.get(tx, agent_id)
    if stored is not None and stored.state.status is AgentStatus.BOOTING:
        agents.save_state(tx, with_status(tx, stored.state, AgentStatus.AWAKE_IDLE, "its home is ready"))


def _archive(tx: Tx, agent_id: str, reason: str) -> AgentIdentity:
    stored = require_agent(tx, agent_id, private=True)
    identity = msgspec.structs.replace(stored.identity, status=RegistryStatus.ARCHIVED, archived_at=moment(tx.now_ms))
    agents.save_identity(tx, identity)
    agents.save_state(tx, with_status(tx, stored.state, AgentStatus.STOPPED, f"archived: {reason}"))
    if (trigger := triggers.active(tx, agent_id)) is not None:
        triggers.save(tx, msgspec.structs.replace(trigger, status=TriggerStatus.REVOKED, revoked_at=moment(tx.now_ms)))
        tx.emit(agent_id, TriggerRevoked(external_trigger_id=trigger.external_trigger_id, reason="agent archived"))
    timers.cancel_all(tx, agent_id)
    tx.emit(agent_id, AgentArchived(reason=reason))
    return identity
