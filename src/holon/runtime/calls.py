"""Calls: how the tool calls of a round come to an end on record, also those that never get a result.

Every call in an answer has its result in the transcript before anything else is said: providers refuse a conversation
in which one is missing.
"""

from __future__ import annotations

import msgspec

from holon.context.window import WindowItem
from holon.core.clock import moment
from holon.core.codec import to_plain
from holon.core.conversation import ToolResultBlock, ToolResults
from holon.core.event_kinds import ToolCallInterrupted
from holon.core.transcripts import TranscriptKind
from holon.core.turns import ToolCall, ToolCallStatus, Turn, TurnPhase
from holon.store import Tx, transcript, turns
from holon.tools.envelope import ABORTED, INTERRUPTED, NOT_RUN, ToolError, receipt


def add_results(tx: Tx, turn: Turn, calls: list[ToolCall]) -> WindowItem:
    """Appends the results of a round, in the order of its calls. The transcript keeps errors whole."""
    results = [
        ToolResultBlock(tool_use_id=call.call_id, content=call.result or "", is_error=call.is_error) for call in calls
    ]
    errors = [{} if call.error is None else {"error": call.error} for call in calls]
    seq = transcript.append(
        tx,
        turn.agent_id,
        TranscriptKind.TOOL_RESULTS,
        {"results": [{**result, **error} for result, error in zip(to_plain(results), errors, strict=True)]},
        turn_id=turn.id,
        round_=turn.round,
        message_id=turn.message_id,
    )
    return WindowItem(seq, ToolResults(results=results), opens_turn=False, source="tool_results")


def interrupt_begun(tx: Tx, turn: Turn, error: ToolError = INTERRUPTED) -> None:
    """Calls that had begun and have no result are not run again: the model is told."""
    for call in turns.calls(tx, turn.id, turn.round):
        if call.status is not ToolCallStatus.BEGUN:
            continue
        _end(tx, msgspec.structs.replace(call, status=ToolCallStatus.INTERRUPTED), error)
        tx.emit(
            turn.agent_id,
            ToolCallInterrupted(tool_call_id=call.call_id, tool_name=call.name, round=call.round),
            message_id=turn.message_id,
            turn_id=turn.id,
        )


def close_calls(tx: Tx, turn: Turn) -> Turn:
    """For a turn that ends at its tools: what runs is interrupted, what has not begun never will."""
    if turn.phase is not TurnPhase.TOOLS:
        return turn
    interrupt_begun(tx, turn, ABORTED)
    for call in turns.calls(tx, turn.id, turn.round):
        if call.status is ToolCallStatus.REQUESTED:
            _end(tx, call, NOT_RUN)
    add_results(tx, turn, turns.calls(tx, turn.id, turn.round))
    return msgspec.structs.replace(turn, phase=TurnPhase.ROUND_BEGUN)


def _end(tx: Tx, call: ToolCall, error: ToolError) -> None:
    turns.save_call(
        tx,
        msgspec.structs.replace(
            call,
            completed_at=moment(tx.now_ms),
            result=receipt(call.name, error),
            is_error=True,
            error=to_plain(error),
        ),
    )
