"""External triggers: one capability URL per agent, through which the outside can say "something changed".

A delivery is a wake hint. It never becomes a queued message of its own.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from holon.core.codec import Record
from holon.core.messages import CallbackOrigin, MessageBody, MessageOrigin, SystemOrigin

#: The part of the runtime that makes ticks of hints.
WAKE_HINT = "wake_hint"


class TriggerStatus(StrEnum):
    ACTIVE = "active"
    REVOKED = "revoked"


class ExternalTrigger(Record, frozen=True, kw_only=True):
    """The record of a capability. It knows the hash of its token, never the token."""

    external_trigger_id: str
    target_agent_id: str
    token_hash: str
    status: TriggerStatus
    created_at: datetime
    delivery_mode: Literal["wake_hint"] = "wake_hint"
    scope: Literal["agent"] = "agent"
    revoked_at: datetime | None = None
    expires_at: datetime | None = None
    last_delivered_at: datetime | None = None
    delivery_count: int = 0


class TriggerSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What status surfaces show of a capability: everything but the secret and its hash."""

    external_trigger_id: str
    target_agent_id: str
    delivery_mode: str
    status: TriggerStatus
    delivery_count: int
    created_at: datetime
    revoked_at: datetime | None = None
    expires_at: datetime | None = None
    last_delivered_at: datetime | None = None


class TriggerCapability(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A capability with its URL: shown when it is made, and afterwards only on an explicit, audited request."""

    external_trigger_id: str
    trigger_url: str
    target_agent_id: str
    delivery_mode: str
    status: TriggerStatus


class HintDisposition(StrEnum):
    TRIGGERED = "triggered"
    COALESCED = "coalesced"
    IGNORED = "ignored"


class WakeHint(Record, frozen=True, kw_only=True):
    """Something changed; you may want to look. Kept with its payload until the agent is free to look."""

    id: str
    agent_id: str
    created_at: datetime
    reason: str
    source: str | None = None
    resource: str | None = None
    external_trigger_id: str | None = None
    delivery_mode: str = "wake_hint"
    #: What the caller's descriptor or URL called itself, where it differs.
    descriptor_mode: str | None = None
    deprecated: bool = False
    content_type: str | None = None
    body: MessageBody | None = None
    waiting_intent_id: str | None = None
    work_item_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None

    @property
    def origin(self) -> MessageOrigin:
        """Who gave it: whoever has the trigger's URL, or else an operator, for whom the runtime speaks."""
        if self.external_trigger_id is not None:
            return CallbackOrigin(descriptor_id=self.external_trigger_id, source=self.source)
        return SystemOrigin(subsystem=WAKE_HINT)
