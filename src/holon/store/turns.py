"""Turns and their tool calls in the store."""

from __future__ import annotations

from holon.core.clock import to_ms
from holon.core.codec import dumps, loads
from holon.core.turns import ToolCall, Turn
from holon.store.transaction import Tx


def insert(tx: Tx, turn: Turn) -> None:
    tx.run(
        "INSERT INTO turns (id, agent_id, turn_index, message_id, phase, started_at, record)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        turn.id,
        turn.agent_id,
        turn.turn_index,
        turn.message_id,
        turn.phase,
        to_ms(turn.started_at),
        dumps(turn),
    )


def save(tx: Tx, turn: Turn) -> None:
    tx.run("UPDATE turns SET phase = ?, record = ? WHERE id = ?", turn.phase, dumps(turn), turn.id)


def get(tx: Tx, turn_id: str) -> Turn | None:
    row = tx.one("SELECT record FROM turns WHERE id = ?", turn_id)
    return loads(row[0], Turn) if row else None


def by_message(tx: Tx, message_id: str) -> Turn | None:
    """The latest turn that a message led to."""
    row = tx.one("SELECT record FROM turns WHERE message_id = ? ORDER BY turn_index DESC LIMIT 1", message_id)
    return loads(row[0], Turn) if row else None


def open_turns(tx: Tx) -> list[Turn]:
    """Turns without an end, of all agents."""
    return [
        loads(row[0], Turn) for row in tx.all("SELECT record FROM turns WHERE phase <> 'terminal' ORDER BY agent_id")
    ]


def recent(tx: Tx, agent_id: str, limit: int) -> list[Turn]:
    """The newest turns, newest first."""
    rows = tx.all("SELECT record FROM turns WHERE agent_id = ? ORDER BY turn_index DESC LIMIT ?", agent_id, limit)
    return [loads(row[0], Turn) for row in rows]


def started_at(tx: Tx, agent_id: str, turn_index: int) -> int | None:
    """When a turn began: one look-up, however long the history."""
    row = tx.one("SELECT started_at FROM turns WHERE agent_id = ? AND turn_index = ?", agent_id, turn_index)
    return int(row[0]) if row else None


def insert_calls(tx: Tx, calls: list[ToolCall]) -> None:
    tx.many(
        "INSERT INTO tool_calls (turn_id, round, ordinal, status, record) VALUES (?, ?, ?, ?, ?)",
        [(call.turn_id, call.round, call.ordinal, call.status, dumps(call)) for call in calls],
    )


def save_call(tx: Tx, call: ToolCall) -> None:
    tx.run(
        "UPDATE tool_calls SET status = ?, record = ? WHERE turn_id = ? AND round = ? AND ordinal = ?",
        call.status,
        dumps(call),
        call.turn_id,
        call.round,
        call.ordinal,
    )


def calls(tx: Tx, turn_id: str, round_: int | None = None) -> list[ToolCall]:
    rows = tx.all(
        "SELECT record FROM tool_calls WHERE turn_id = ? AND (? IS NULL OR round = ?) ORDER BY round, ordinal",
        turn_id,
        round_,
        round_,
    )
    return [loads(row[0], ToolCall) for row in rows]
