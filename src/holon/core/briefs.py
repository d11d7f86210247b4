"""Briefs: what an agent says to people. Each is an explicit record, never deduced from model text later."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from holon.core.codec import Record
from holon.core.messages import BriefAttachment


class BriefKind(StrEnum):
    ACK = "ack"
    RESULT = "result"
    FAILURE = "failure"


class Brief(Record, frozen=True, kw_only=True):
    id: str
    agent_id: str
    kind: BriefKind
    created_at: datetime
    text: str
    workspace_id: str = "agent_home"
    work_item_id: str | None = None
    attachments: list[BriefAttachment] | None = None
    related_message_id: str | None = None
    related_task_id: str | None = None
    turn_id: str | None = None
    #: Set when the agent waits for the operator's answer: the brief asks for action.
    awaits_operator: bool = False
    #: Set when the brief reports the completion of `work_item_id`.
    completes_work: bool = False
