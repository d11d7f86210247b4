"""Briefing: a brief is written as an explicit record, together with its event."""

from __future__ import annotations

from holon.core.briefs import Brief, BriefKind
from holon.core.clock import moment
from holon.core.event_kinds import BriefCreated
from holon.core.ids import new_id
from holon.store import Tx, briefs

EVENT_CHARS = 2_000


def write_brief(
    tx: Tx,
    agent_id: str,
    kind: BriefKind,
    text: str,
    *,
    message_id: str | None = None,
    turn_id: str | None = None,
    work_item_id: str | None = None,
    awaits_operator: bool = False,
) -> Brief:
    brief = Brief(
        id=new_id("brief", tx.now_ms),
        agent_id=agent_id,
        kind=kind,
        created_at=moment(tx.now_ms),
        text=text,
        related_message_id=message_id,
        turn_id=turn_id,
        work_item_id=work_item_id,
        awaits_operator=awaits_operator,
    )
    briefs.insert(tx, brief)
    tx.emit(
        agent_id,
        BriefCreated(
            brief_id=brief.id,
            brief_kind=kind,
            text=text[:EVENT_CHARS],
            work_item_id=work_item_id,
            awaits_operator=awaits_operator,
        ),
        message_id=message_id,
        turn_id=turn_id,
    )
    return brief
