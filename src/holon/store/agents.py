"""Agents in the store: identity, state, and the places in their queue and logs."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from holon.core.agents import AgentIdentity, AgentState, AgentStatus, RegistryStatus, Visibility
from holon.core.clock import to_ms
from holon.core.codec import dumps, loads
from holon.core.failures import RuntimeFailure
from holon.store.transaction import Row, Tx


class Counters(NamedTuple):
    event_seq: int
    oldest_event_seq: int
    queue_seq: int
    transcript_seq: int
    pending: int


class Standing(NamedTuple):
    """What a door must know of an agent before it lets a message in."""

    visibility: str
    registry_status: str
    status: str


class StoredAgent(NamedTuple):
    identity: AgentIdentity
    state: AgentState
    counters: Counters

    @property
    def standing(self) -> Standing:
        return Standing(self.identity.visibility, self.identity.status, self.state.status)


_COLUMNS = (
    "SELECT a.identity, a.state, c.event_seq, c.oldest_event_seq, c.queue_seq, c.transcript_seq, c.pending"
    " FROM agents a JOIN counters c ON c.scope = a.id"
)


_DOOR = (
    "SELECT a.visibility, a.registry_status, a.status, c.event_seq, c.queue_seq, c.transcript_seq, c.pending"
    " FROM agents a JOIN counters c ON c.scope = a.id WHERE a.id = ?"
)


def insert(tx: Tx, identity: AgentIdentity, state: AgentState) -> None:
    tx.kept.pop(identity.agent_id, None)
    tx.run(
        "INSERT INTO agents (id, visibility, registry_status, parent_agent_id, status, created_at, identity, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        identity.agent_id,
        identity.visibility,
        identity.status,
        identity.parent_agent_id,
        state.status,
        tx.now_ms,
        dumps(identity),
        dumps(state),
    )
    tx.run("INSERT INTO counters (scope) VALUES (?) ON CONFLICT (scope) DO NOTHING", identity.agent_id)


def get(tx: Tx, agent_id: str) -> StoredAgent | None:
    row = tx.one(_COLUMNS + " WHERE a.id = ?", agent_id)
    return _read(tx, row) if row else None


def standing(tx: Tx, agent_id: str) -> Standing | None:
    """Every admission asks: so nothing is decoded, and messages that are admitted together ask once."""
    known: Standing | None = tx.kept.get(agent_id)
    if known is None:
        row = tx.look(_DOOR, agent_id)
        if row is not None:
            tx.know_places(agent_id, *row[3:])
        known = tx.kept[agent_id] = Standing(*row[:3]) if row else None
    return known


def listing(tx: Tx, *, visibility: Visibility | None = None, after: str = "", limit: int = 1_000) -> list[StoredAgent]:
    """Active agents in the order of their ids, a page at a time."""
    rows = tx.all(
        _COLUMNS + " WHERE a.id > ? AND a.registry_status = ? AND (? IS NULL OR a.visibility = ?)"
        " ORDER BY a.id LIMIT ?",
        after,
        RegistryStatus.ACTIVE,
        visibility,
        visibility,
        limit,
    )
    return [_read(tx, row) for row in rows]


def children(tx: Tx, parent_agent_id: str) -> list[StoredAgent]:
    return [_read(tx, row) for row in tx.all(_COLUMNS + " WHERE a.parent_agent_id = ? ORDER BY a.id", parent_agent_id)]


def depth(tx: Tx, agent_id: str, most: int) -> int:
    """How many agents stand above this one, each the supervisor of the next; nobody looks further than `most`."""
    for found in range(most):
        row = tx.one("SELECT parent_agent_id FROM agents WHERE id = ?", agent_id)
        if row is None or row[0] is None:
            return found
        agent_id = row[0]
    return most


def save_state(tx: Tx, state: AgentState) -> None:
    """Writes the whole state. `pending` is counted beside it and filled in when it is read."""
    tx.kept.pop(state.id, None)
    tx.run(
        "UPDATE agents SET status = ?, failed_at = ?, state = ? WHERE id = ?",
        state.status,
        to_ms(state.last_runtime_failure.occurred_at) if state.last_runtime_failure else None,
        dumps(msgspec.structs.replace(state, pending=0)),
        state.id,
    )


def save_identity(tx: Tx, identity: AgentIdentity) -> None:
    tx.kept.pop(identity.agent_id, None)
    tx.run(
        "UPDATE agents SET visibility = ?, registry_status = ?, parent_agent_id = ?, identity = ? WHERE id = ?",
        identity.visibility,
        identity.status,
        identity.parent_agent_id,
        dumps(identity),
        identity.agent_id,
    )


def working_in(tx: Tx, execution_root: str) -> list[str]:
    """The active agents that have entered this folder. Reads all of them: for a person's question, not for an event."""
    wanted = re.sub(r"([%_\\])", r"\\\1", f'"execution_root":{dumps(execution_root)}')
    rows = tx.all(
        "SELECT id FROM agents WHERE registry_status = 'active' AND state LIKE ? ESCAPE '\\' ORDER BY id", f"%{wanted}%"
    )
    return [row[0] for row in rows]


def ids_in_status(tx: Tx, statuses: list[AgentStatus]) -> list[str]:
    marks = ", ".join("?" for _ in statuses)
    return [
        row[0]
        for row in tx.all(
            f"SELECT id FROM agents WHERE registry_status = 'active' AND status IN ({marks}) ORDER BY id", *statuses
        )
    ]


def count_by_status(tx: Tx, visibility: Visibility | None = None) -> dict[str, int]:
    return dict(
        tx.all(
            "SELECT status, COUNT(*) FROM agents WHERE registry_status = 'active' AND (? IS NULL OR visibility = ?)"
            " GROUP BY status",
            visibility,
            visibility,
        )
    )


def newest_failure(tx: Tx) -> RuntimeFailure | None:
    """The latest failure of an agent that has not completed a turn since."""
    rows = tx.all(
        "SELECT state FROM agents WHERE registry_status = 'active' AND failed_at IS NOT NULL"
        " ORDER BY failed_at DESC LIMIT 1"
    )
    return loads(rows[0][0], AgentState).last_runtime_failure if rows else None


def _read(tx: Tx, row: Row) -> StoredAgent:
    identity, state = loads(row[0], AgentIdentity), loads(row[1], AgentState)
    event_seq, oldest_event_seq, *others = row[2:]
    places = tx.know_places(identity.agent_id, event_seq, *others)
    if places.pending:
        state = msgspec.structs.replace(state, pending=places.pending)
    counters = Counters(event_seq, oldest_event_seq, places.queue_seq, places.transcript_seq, places.pending)
    return StoredAgent(identity, state, counters)
