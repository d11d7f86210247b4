"""Skill activations in the store: one row a skill of an agent's session."""

from __future__ import annotations

import msgspec

from holon.core.codec import dumps, loads
from holon.core.skills import ActivationState, SkillActivation
from holon.store.transaction import Tx


def save(tx: Tx, agent_id: str, activation: SkillActivation) -> None:
    tx.run(
        "INSERT INTO skill_activations (agent_id, name, state, turn_id, record) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (agent_id, name) DO UPDATE SET state = excluded.state, turn_id = excluded.turn_id,"
        " record = excluded.record",
        agent_id,
        activation.name,
        activation.state,
        activation.turn_id,
        dumps(activation),
    )


def of_agent(tx: Tx, agent_id: str) -> list[SkillActivation]:
    rows = tx.all("SELECT record FROM skill_activations WHERE agent_id = ? ORDER BY name", agent_id)
    return [loads(row[0], SkillActivation) for row in rows]


def get(tx: Tx, agent_id: str, name: str) -> SkillActivation | None:
    row = tx.one("SELECT record FROM skill_activations WHERE agent_id = ? AND name = ?", agent_id, name)
    return loads(row[0], SkillActivation) if row else None


def remove(tx: Tx, agent_id: str, name: str) -> None:
    tx.run("DELETE FROM skill_activations WHERE agent_id = ? AND name = ?", agent_id, name)


def end_turn(tx: Tx, agent_id: str, turn_id: str, *, completed: bool) -> None:
    """What was active in the turn is active in the session, if the turn ended well."""
    rows = tx.all(
        "SELECT record FROM skill_activations WHERE agent_id = ? AND turn_id = ? AND state = ?",
        agent_id,
        turn_id,
        ActivationState.TURN_ACTIVE,
    )
    after = ActivationState.SESSION_ACTIVE if completed else ActivationState.LAPSED
    for row in rows:
        save(tx, agent_id, msgspec.structs.replace(loads(row[0], SkillActivation), state=after))


def restore(tx: Tx) -> int:
    """At a start: what was active in a session is shown as restored. How many there are."""
    rows = tx.all("SELECT agent_id, record FROM skill_activations WHERE state = ?", ActivationState.SESSION_ACTIVE)
    for agent_id, record in rows:
        save(tx, agent_id, msgspec.structs.replace(loads(record, SkillActivation), state=ActivationState.RESTORED))
    return len(rows)
