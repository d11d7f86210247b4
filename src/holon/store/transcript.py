"""The transcript in the store: appended to, read by window or by turn, never rewritten."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.clock import moment
from holon.core.codec import dumps
from holon.core.transcripts import TranscriptEntry, TranscriptKind
from holon.store.transaction import END, Row, Tx

_COLUMNS = "SELECT agent_id, seq, created_at, kind, turn_id, round, message_id, data FROM transcript"


def append(
    tx: Tx,
    agent_id: str,
    kind: TranscriptKind,
    data: dict[str, Any],
    *,
    turn_id: str | None = None,
    round_: int | None = None,
    message_id: str | None = None,
) -> int:
    seq = tx.next_in_transcript(agent_id)
    tx.run(
        "INSERT INTO transcript (agent_id, seq, created_at, kind, turn_id, round, message_id, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        agent_id,
        seq,
        tx.now_ms,
        kind,
        turn_id,
        round_,
        message_id,
        dumps(data),
    )
    return seq


def window(tx: Tx, agent_id: str, *, before_seq: int | None = None, limit: int = 50) -> list[TranscriptEntry]:
    """The newest entries (before `before_seq`), oldest first. Its cost is its length, not the history's."""
    rows = tx.all(
        _COLUMNS + " WHERE agent_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
        agent_id,
        END if before_seq is None else before_seq,
        limit,
    )
    return [_read(row) for row in reversed(rows)]


def after(tx: Tx, agent_id: str, after_seq: int, limit: int = 500) -> list[TranscriptEntry]:
    rows = tx.all(_COLUMNS + " WHERE agent_id = ? AND seq > ? ORDER BY seq LIMIT ?", agent_id, after_seq, limit)
    return [_read(row) for row in rows]


def _read(row: Row) -> TranscriptEntry:
    data: dict[str, Any] = msgspec.json.decode(row[7])
    return TranscriptEntry(
        agent_id=row[0],
        seq=row[1],
        created_at=moment(row[2]),
        kind=TranscriptKind(row[3]),
        turn_id=row[4],
        round=row[5],
        related_message_id=row[6],
        stop_reason=data.get("stop_reason"),
        input_tokens=(data.get("token_usage") or {}).get("input_tokens"),
        output_tokens=(data.get("token_usage") or {}).get("output_tokens"),
        data=data,
    )
