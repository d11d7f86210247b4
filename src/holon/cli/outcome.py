"""Outcome: how one admitted message ended. It follows the agent's events until the message is settled, and then reads
the brief, so that what a person sees is the durable record and not a guess from the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from holon.cli.client import Client, agent_path
from holon.cli.output import DONE, FAILED, WAITING
from holon.cli.streams import follow
from holon.core.briefs import Brief, BriefKind
from holon.core.codec import Record, from_plain
from holon.core.events import EventEnvelope

OnEvent = Callable[[EventEnvelope], None]

#: Briefs to look through for the message's own; others may have been written meanwhile.
_BRIEFS = 50


FinalStatus = Literal["completed", "failed", "waiting", "max_turns_exceeded"]

EXIT_CODES: dict[FinalStatus, int] = {
    "completed": DONE,
    "failed": FAILED,
    "waiting": WAITING,
    "max_turns_exceeded": WAITING,
}


class Outcome(Record, frozen=True, kw_only=True):
    agent_id: str
    message_id: str
    final_status: FinalStatus
    #: What the agent said, or why there is nothing to read.
    text: str
    turn_id: str | None = None
    brief: Brief | None = None


def await_outcome(client: Client, agent_id: str, message_id: str, *, after_seq: int, on_event: OnEvent) -> Outcome:
    """Waits until the message is settled. `after_seq` is a place in the log from before its admission."""
    turn_id: str | None = None
    for envelope in follow(client, agent_id, after_seq):
        on_event(envelope)
        concerns = envelope.provenance.message_id == message_id
        if concerns and envelope.turn_id:
            turn_id = envelope.turn_id
        if envelope.type == "turn_terminal" and turn_id is not None and envelope.turn_id == turn_id:
            return _settled(client, agent_id, message_id, turn_id, str(envelope.payload.get("terminal", "")))
        if concerns and envelope.type in _ENDS_WITHOUT_TURN:
            return _settled(client, agent_id, message_id, turn_id, "aborted")
    raise AssertionError("a followed log does not end")


_ENDS_WITHOUT_TURN = ("message_dropped", "message_quarantined", "message_processing_aborted")


def _settled(client: Client, agent_id: str, message_id: str, turn_id: str | None, terminal: str) -> Outcome:
    listed = from_plain(client.get(agent_path(agent_id, "briefs"), limit=_BRIEFS), list[Brief])
    said = sorted((brief for brief in listed if brief.kind is not BriefKind.ACK), key=lambda brief: brief.created_at)
    own = [brief for brief in said if brief.related_message_id == message_id]
    # A message that was taken into a running turn is answered by that turn's brief.
    same_turn = [brief for brief in said if turn_id is not None and brief.turn_id == turn_id]
    brief = next(reversed(own or same_turn), None)
    if brief is None:
        status: FinalStatus = "completed" if terminal == "completed" else "failed"
        text = "" if status == "completed" else "the turn ended early and left no brief"
    else:
        status, text = _status_of(brief, terminal), brief.text
    return Outcome(
        agent_id=agent_id, message_id=message_id, final_status=status, text=text, turn_id=turn_id, brief=brief
    )


def _status_of(brief: Brief, terminal: str) -> FinalStatus:
    if brief.kind is BriefKind.FAILURE or terminal != "completed":
        return "failed"
    return "waiting" if brief.awaits_operator else "completed"
