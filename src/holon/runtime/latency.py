"""Latency: where the time of a turn went, read from its events."""

from __future__ import annotations

from holon.core.codec import Record
from holon.core.turns import Turn
from holon.store import Tx, events, turns

EVENTS_PER_TURN = 5_000


class TurnLatency(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Milliseconds. `cleanup` is what is left of the turn's own duration; waiting in the queue is not part of it."""

    turn_index: int
    turn_id: str
    queue_wait_ms: float
    context_build_ms: float
    provider_ms: float
    tool_ms: float
    cleanup_ms: float
    total_ms: float
    rounds: int


def latencies(tx: Tx, agent_id: str, limit: int) -> list[TurnLatency]:
    """The newest settled turns, newest first. It reads the log backwards until it has seen them all."""
    wanted = {turn.id: turn for turn in turns.recent(tx, agent_id, limit) if turn.terminal is not None}
    if not wanted:
        return []
    sums: dict[str, dict[str, float]] = {turn_id: {} for turn_id in wanted}
    by_message = {turn.message_id: turn.id for turn in wanted.values()}
    before: int | None = None
    oldest_start = min(turn.started_at for turn in wanted.values())
    for _ in range(EVENTS_PER_TURN // 500):
        page = events.before(tx, agent_id, before, 500)
        for event in page:
            turn_id = event.turn_id or by_message.get(event.message_id or "")
            if turn_id in sums:
                _add(sums[turn_id], event.kind, event.payload)
        if not page or page[-1].created_at < oldest_start:
            break
        before = page[-1].event_seq
    return [_line(turn, sums[turn.id]) for turn in wanted.values()]


def _add(sums: dict[str, float], kind: str, payload: dict[str, float]) -> None:
    match kind:
        case "message_processing_started":
            sums["queue"] = float(payload["queue_wait_ms"])
        case "turn_context_built":
            sums["context"] = sums.get("context", 0.0) + payload["duration_ms"]
        case "provider_round_completed":
            sums["context"] = sums.get("context", 0.0) + payload["context_build_ms"]
            sums["provider"] = sums.get("provider", 0.0) + payload["provider_round_ms"]
            sums["rounds"] = sums.get("rounds", 0.0) + 1
        case "tool_executed":
            sums["tool"] = sums.get("tool", 0.0) + payload["duration_ms"]
        case "turn_terminal":
            sums["total"] = float(payload["duration_ms"])
        case _:
            pass


def _line(turn: Turn, sums: dict[str, float]) -> TurnLatency:
    total = sums.get("total", 0.0)
    known = sums.get("provider", 0.0) + sums.get("tool", 0.0)
    return TurnLatency(
        turn_index=turn.turn_index,
        turn_id=turn.id,
        queue_wait_ms=sums.get("queue", 0.0),
        context_build_ms=round(sums.get("context", 0.0), 3),
        provider_ms=round(sums.get("provider", 0.0), 3),
        tool_ms=round(sums.get("tool", 0.0), 3),
        cleanup_ms=round(max(0.0, total - known), 3),
        total_ms=total,
        rounds=int(sums.get("rounds", 0)),
    )
