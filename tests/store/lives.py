"""Agents that have lived for a while: whole turns on disk, at the moments that a test wants."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from holon.core.briefs import Brief, BriefKind
from holon.core.clock import ManualClock, moment
from holon.core.event_kinds import ControlApplied
from holon.core.ids import new_id
from holon.core.messages import QueueStatus
from holon.core.transcripts import TranscriptKind
from holon.core.turns import ToolCall, ToolCallStatus, Turn, TurnPhase
from holon.store import Store, Tx, agents, briefs, idempotency, queue, transcript, turns
from tests.core.samples import envelope, full

DAY_MS = 86_400_000


def begin(tx: Tx, agent_id: str = "main", *, text: str = "hello") -> Turn:
    """A message came in, was claimed, and its turn is open: two transcript entries, a tool call, two events."""
    message = envelope(agent_id, id=new_id("msg", tx.now_ms), text=text)
    queue.append(tx, message)
    stored = agents.get(tx, agent_id)
    assert stored is not None
    agents.save_state(tx, msgspec.structs.replace(stored.state, turn_index=stored.state.turn_index + 1))
    turn = full(
        Turn,
        id=new_id("turn", tx.now_ms),
        agent_id=agent_id,
        message_id=message.id,
        turn_index=stored.state.turn_index + 1,
        phase=TurnPhase.TOOLS,
        started_at=moment(tx.now_ms),
    )
    queue.claim_head(tx, agent_id, turn.run_id)
    turns.insert(tx, turn)
    call = full(ToolCall, turn_id=turn.id, agent_id=agent_id, round=1, ordinal=0, status=ToolCallStatus.COMPLETED)
    turns.insert_calls(tx, [call])
    transcript.append(tx, agent_id, TranscriptKind.INCOMING_MESSAGE, {}, turn_id=turn.id, message_id=message.id)
    transcript.append(tx, agent_id, TranscriptKind.ASSISTANT_ROUND, {"text": text}, turn_id=turn.id, round_=1)
    for step in ("begun", "answered"):
        tx.emit(agent_id, ControlApplied(action=step, surface="test"), message_id=message.id, turn_id=turn.id)
    return turn


def settle(tx: Tx, turn: Turn, *, text: str = "done") -> None:
    """The turn ends: with a brief and an event."""
    turns.save(tx, msgspec.structs.replace(turn, phase=TurnPhase.TERMINAL))
    queue.settle(tx, turn.message_id, QueueStatus.PROCESSED)
    brief = Brief(
        id=new_id("brief", tx.now_ms),
        agent_id=turn.agent_id,
        kind=BriefKind.RESULT,
        created_at=moment(tx.now_ms),
        text=text,
        related_message_id=turn.message_id,
    )
    briefs.insert(tx, brief)
    tx.emit(turn.agent_id, ControlApplied(action="settled", surface="test"), message_id=turn.message_id)
    idempotency.remember(tx, turn.agent_id, turn.message_id, "", turn.message_id)


def live(store: Store, clock: ManualClock, days: int, *, agent_id: str = "main", text: str = "hello") -> None:
    """One whole turn a day, and then the day ends. All days are one commit: the disk need not wait for a test."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(days):
            tx = Tx(connection, clock.now_ms())
            settle(tx, begin(tx, agent_id, text=text), text=text)
            tx.flush_events()
            clock.move(DAY_MS)
        connection.execute("COMMIT")


def move_window(tx: Tx, agent_id: str, after: int) -> None:
    stored = agents.get(tx, agent_id)
    assert stored is not None
    agents.save_state(tx, msgspec.structs.replace(stored.state, window_after=after))


def everything(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, read from outside."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}


def counts(path: Path) -> dict[str, int]:
    return {table: len(rows) for table, rows in everything(path).items()}
