"""Settling: ends a turn. Terminal record, brief, queue entry, state and closure in one transaction."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.core.agents import AgentState
from holon.core.briefs import BriefKind
from holon.core.clock import moment, to_ms
from holon.core.codec import to_plain
from holon.core.event_kinds import MessageProcessingAborted, RuntimeErrorRaised, TurnEnded
from holon.core.failures import FailureArtifact, FailurePhase, RuntimeFailure
from holon.core.limits import Limits
from holon.core.messages import MessageKind, QueueStatus
from holon.core.transcripts import TranscriptKind
from holon.core.turns import TerminalKind, Turn, TurnPhase, TurnTerminal
from holon.core.usage import TokenUsage
from holon.runtime.briefing import write_brief
from holon.runtime.calls import close_calls
from holon.runtime.resting import rest
from holon.skills.recording import end_turn
from holon.store import Tx, agents, queue, transcript, turns


def settle(
    tx: Tx,
    state: AgentState,
    turn: Turn,
    limits: Limits,
    *,
    text: str | None = None,
    aborted: str | None = None,
    pending: int | None = None,
) -> AgentState:
    """Ends the turn: completed with its last text, or aborted for a reason. Then the agent rests, or goes on."""
    kind = TerminalKind.ABORTED if aborted else TerminalKind.COMPLETED
    if aborted:
        turn = close_calls(tx, turn)
    terminal = TurnTerminal(
        turn_index=turn.turn_index,
        kind=kind,
        completed_at=moment(tx.now_ms),
        duration_ms=max(0, tx.now_ms - to_ms(turn.started_at)),
        last_assistant_message=text,
        reason=aborted,
        turn_id=turn.id,
    )
    turns.save(tx, msgspec.structs.replace(turn, phase=TurnPhase.TERMINAL, terminal=terminal))
    queue.settle(tx, turn.message_id, QueueStatus.ABORTED if aborted else QueueStatus.PROCESSED)
    tx.emit(
        turn.agent_id,
        TurnEnded(
            turn_index=turn.turn_index,
            run_id=turn.run_id,
            terminal=kind,
            duration_ms=terminal.duration_ms,
            rounds=turn.round,
            reason=aborted,
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    if aborted:
        tx.emit(turn.agent_id, MessageProcessingAborted(reason=aborted), message_id=turn.message_id, turn_id=turn.id)
    end_turn(tx, turn.agent_id, turn.id, completed=not aborted, said=text or "")
    briefed = _brief(tx, turn, text, aborted)
    state = msgspec.structs.replace(
        state,
        current_run_id=None,
        current_turn_id=None,
        last_turn_terminal=terminal,
        runtime_error_active=state.runtime_error_active and kind is not TerminalKind.COMPLETED,
        last_brief_at=moment(tx.now_ms) if briefed else state.last_brief_at,
    )
    if pending is None:
        stored = agents.get(tx, turn.agent_id)
        pending = stored.counters.pending if stored else 0
    return rest(tx, state, pending, limits, reason=aborted or (state.sleep.reason if state.sleep else "turn ended"))


def fail(
    tx: Tx,
    turn: Turn,
    artifact: FailureArtifact,
    limits: Limits,
    *,
    timeline: dict[str, Any] | None = None,
    usage: TokenUsage | None = None,
) -> AgentState:
    """Ends the turn as failed, visibly: brief, transcript entry, `runtime_error`, and the agent's last failure."""
    stored = agents.get(tx, turn.agent_id)
    assert stored is not None
    artifact, turn = artifact.bounded(), close_calls(tx, turn)
    shown_usage = to_plain(usage) if usage else None
    data: dict[str, Any] = {"text": artifact.summary, "failure_artifact": to_plain(artifact)}
    if timeline:
        data["provider_attempt_timeline"] = timeline
    if shown_usage:
        data["token_usage"] = shown_usage
    transcript.append(
        tx,
        turn.agent_id,
        TranscriptKind.RUNTIME_FAILURE,
        data,
        turn_id=turn.id,
        round_=turn.round,
        message_id=turn.message_id,
    )
    tx.emit(
        turn.agent_id,
        RuntimeErrorRaised(
            summary=artifact.summary,
            failure_artifact=to_plain(artifact),
            provider_attempt_timeline=timeline,
            token_usage=shown_usage,
        ),
        message_id=turn.message_id,
        turn_id=turn.id,
    )
    failure = RuntimeFailure(
        occurred_at=moment(tx.now_ms),
        summary=artifact.summary,
        phase=FailurePhase.RUNTIME_TURN,
        detail_hint=f"holon transcript --agent {turn.agent_id}",
        failure_artifact=artifact,
    )
    state = msgspec.structs.replace(stored.state, runtime_error_active=True, last_runtime_failure=failure)
    return settle(tx, state, turn, limits, aborted=artifact.summary, pending=stored.counters.pending)


def _brief(tx: Tx, turn: Turn, text: str | None, aborted: str | None) -> bool:
    """An operator's turn always gets its one brief; other turns when there is something to say."""
    if aborted:
        write_brief(
            tx,
            turn.agent_id,
            BriefKind.FAILURE,
            aborted,
            message_id=turn.message_id,
            turn_id=turn.id,
            work_item_id=turn.work_item_id,
        )
        return True
    if not _asked(tx, turn) and not (text or "").strip():
        return False
    write_brief(
        tx,
        turn.agent_id,
        BriefKind.RESULT,
        text or "",
        message_id=turn.message_id,
        turn_id=turn.id,
        work_item_id=turn.work_item_id,
    )
    return True


def _asked(tx: Tx, turn: Turn) -> bool:
    if turn.asked_by_operator is not None:
        return turn.asked_by_operator
    envelope = queue.message(tx, turn.message_id)
    return envelope is not None and envelope.kind is MessageKind.OPERATOR_PROMPT
