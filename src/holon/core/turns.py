"""Turns: one message's way through the model, as a record that a restart can take up again."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from holon.core.codec import Record


class TerminalKind(StrEnum):
    COMPLETED = "completed"
    ABORTED = "aborted"


class TurnTerminal(Record, frozen=True, kw_only=True):
    """How a turn ended: from runtime facts, never from what a text says."""

    turn_index: int
    kind: TerminalKind
    completed_at: datetime
    duration_ms: int
    last_assistant_message: str | None = None
    reason: str | None = None
    turn_id: str | None = None


class TurnPhase(StrEnum):
    """What stands on disk about an open turn. The turn goes on from here after a restart."""

    #: A provider round was begun; there is no answer yet.
    ROUND_BEGUN = "round_begun"
    #: The answer is on disk; its tool calls are being worked off, in order.
    TOOLS = "tools"
    #: Settled.
    TERMINAL = "terminal"


class Turn(Record, frozen=True, kw_only=True):
    id: str
    agent_id: str
    turn_index: int
    run_id: str
    message_id: str
    phase: TurnPhase
    #: The round that is begun, or whose tool calls are being worked off; the first is 1.
    round: int
    #: Whether an operator's prompt began it, who is owed a brief. `None` in records of earlier versions.
    asked_by_operator: bool | None = None
    #: How often a process died at the very step where the turn stands now.
    crashes: int = 0
    started_at: datetime
    #: The model that the turn began with; a change of the agent's model touches later turns only.
    model: str
    #: Set by an orderly shutdown: the restart that takes the turn up again is no crash.
    suspended: bool = False
    #: Set when an operator asked for the run to end; the turn settles as aborted at its next step.
    abort_requested: bool = False
    work_item_id: str | None = None
    #: How often an answer was cut at the output limit and continued, and what it said so far.
    continuations: int = 0
    partial_text: str = ""
    terminal: TurnTerminal | None = None


class ToolCallStatus(StrEnum):
    REQUESTED = "requested"
    BEGUN = "begun"
    COMPLETED = "completed"
    #: It had begun when the process died and has no result: it is never run again by itself.
    INTERRUPTED = "interrupted"


class ToolCall(Record, frozen=True, kw_only=True):
    turn_id: str
    agent_id: str
    round: int
    ordinal: int
    call_id: str
    name: str
    input: str
    status: ToolCallStatus
    requested_at: datetime
    begun_at: datetime | None = None
    completed_at: datetime | None = None
    result: str | None = None
    #: The answer that asked for it was cut at the output limit: its arguments may be incomplete.
    truncated: bool = False
    is_error: bool = False
    #: The whole error; the model reads a bounded receipt of it in `result`.
    error: dict[str, Any] | None = None
