"""Messages: the one envelope into which every input is normalised, and the labels that it carries."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from holon.core.codec import Record


class MessageKind(StrEnum):
    OPERATOR_PROMPT = "operator_prompt"
    CHANNEL_EVENT = "channel_event"
    WEBHOOK_EVENT = "webhook_event"
    CALLBACK_EVENT = "callback_event"
    TIMER_TICK = "timer_tick"
    SYSTEM_TICK = "system_tick"
    TASK_RESULT = "task_result"
    TASK_STATUS = "task_status"
    CONTROL = "control"
    BRIEF_ACK = "brief_ack"
    BRIEF_RESULT = "brief_result"
    INTERNAL_FOLLOWUP = "internal_followup"


class Trust(StrEnum):
    """A label kept for older callers; `AuthorityClass` decides."""

    TRUSTED_OPERATOR = "trusted_operator"
    TRUSTED_SYSTEM = "trusted_system"
    TRUSTED_INTEGRATION = "trusted_integration"
    UNTRUSTED_EXTERNAL = "untrusted_external"


class AuthorityClass(StrEnum):
    """How the content is to be taken: as instruction, as signal, or as evidence."""

    OPERATOR_INSTRUCTION = "operator_instruction"
    RUNTIME_INSTRUCTION = "runtime_instruction"
    INTEGRATION_SIGNAL = "integration_signal"
    EXTERNAL_EVIDENCE = "external_evidence"


class Priority(StrEnum):
    """A scheduling hint, never a sign of trust."""

    INTERJECT = "interject"
    NEXT = "next"
    NORMAL = "normal"
    BACKGROUND = "background"

    @property
    def lane(self) -> int:
        """The lane in which it waits: the lowest number is served first."""
        return _LANES[self]


_LANES = {priority: lane for lane, priority in enumerate(Priority)}


class TriggerKind(StrEnum):
    OPERATOR_INPUT = "operator_input"
    TASK_RESULT = "task_result"
    EXTERNAL_EVENT = "external_event"
    TIMER_FIRE = "timer_fire"
    INTERNAL_FOLLOWUP = "internal_followup"
    SYSTEM_TICK = "system_tick"


class DeliverySurface(StrEnum):
    """The way in through which a message was admitted."""

    CLI_PROMPT = "cli_prompt"
    RUN_ONCE = "run_once"
    HTTP_PUBLIC_ENQUEUE = "http_public_enqueue"
    HTTP_WEBHOOK = "http_webhook"
    HTTP_CALLBACK_ENQUEUE = "http_callback_enqueue"
    HTTP_CALLBACK_WAKE = "http_callback_wake"
    HTTP_CONTROL_PROMPT = "http_control_prompt"
    TIMER_SCHEDULER = "timer_scheduler"
    RUNTIME_SYSTEM = "runtime_system"
    TASK_REJOIN = "task_rejoin"


class AdmissionContext(StrEnum):
    """What the way in knew about its caller."""

    PUBLIC_UNAUTHENTICATED = "public_unauthenticated"
    CONTROL_AUTHENTICATED = "control_authenticated"
    EXTERNAL_TRIGGER_CAPABILITY = "external_trigger_capability"
    LOCAL_PROCESS = "local_process"
    RUNTIME_OWNED = "runtime_owned"


# Origins: where a message comes from, as data. Only `operator` is the agent's owner.


class _Origin(Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", forbid_unknown_fields=True):
    pass


class OperatorOrigin(_Origin, frozen=True, kw_only=True, tag="operator"):
    actor_id: str | None = None


class ChannelOrigin(_Origin, frozen=True, kw_only=True, tag="channel"):
    channel_id: str
    sender_id: str | None = None


class WebhookOrigin(_Origin, frozen=True, kw_only=True, tag="webhook"):
    source: str
    event_type: str | None = None


class CallbackOrigin(_Origin, frozen=True, kw_only=True, tag="callback"):
    descriptor_id: str
    source: str | None = None


class TimerOrigin(_Origin, frozen=True, kw_only=True, tag="timer"):
    timer_id: str


class SystemOrigin(_Origin, frozen=True, kw_only=True, tag="system"):
    subsystem: str


class TaskOrigin(_Origin, frozen=True, kw_only=True, tag="task"):
    task_id: str


MessageOrigin = (
    OperatorOrigin | ChannelOrigin | WebhookOrigin | CallbackOrigin | TimerOrigin | SystemOrigin | TaskOrigin
)


# Bodies: structured for as long as possible.


class BriefAttachment(Record, frozen=True, kw_only=True):
    kind: Literal["file", "log", "diff", "image", "json"]
    name: str
    uri: str | None = None
    value: Any = None


class _Body(Record, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", forbid_unknown_fields=True):
    pass


class TextBody(_Body, frozen=True, kw_only=True, tag="text"):
    text: str


class JsonBody(_Body, frozen=True, kw_only=True, tag="json"):
    value: Any


class BriefBody(_Body, frozen=True, kw_only=True, tag="brief"):
    text: str
    title: str | None = None
    attachments: list[BriefAttachment] | None = None


MessageBody = TextBody | JsonBody | BriefBody


def body_text(body: MessageBody | None) -> str:
    """A body as the text that a model reads."""
    match body:
        case None:
            return ""
        case TextBody(text=text):
            return text
        case BriefBody(title=title, text=text):
            return f"{title}\n\n{text}" if title else text
        case JsonBody(value=value):
            return msgspec.json.encode(value).decode()


class MessageEnvelope(Record, frozen=True, kw_only=True):
    """One admitted input. It is written once and never changed."""

    id: str
    agent_id: str
    created_at: datetime
    kind: MessageKind
    origin: MessageOrigin
    trust: Trust
    authority_class: AuthorityClass
    priority: Priority
    body: MessageBody
    trigger_kind: TriggerKind | None = None
    work_item_id: str | None = None
    task_id: str | None = None
    source_refs: dict[str, str] = msgspec.field(default_factory=dict)
    delivery_surface: DeliverySurface | None = None
    admission_context: AdmissionContext | None = None
    metadata: dict[str, Any] | None = None
    correlation_id: str | None = None
    causation_id: str | None = None

    @property
    def from_owner(self) -> bool:
        """Whether the agent's owner speaks. A person on a channel is not the owner."""
        return isinstance(self.origin, OperatorOrigin)

    @property
    def text(self) -> str:
        """The body as the text that a model reads."""
        return body_text(self.body)

    @property
    def contentful(self) -> bool:
        """Whether there is anything to think about: some text, or any JSON."""
        return isinstance(self.body, JsonBody) or bool(self.text.strip())


class QueueStatus(StrEnum):
    QUEUED = "queued"
    DEQUEUED = "dequeued"
    PROCESSED = "processed"
    INTERJECTED = "interjected"
    ABORTED = "aborted"
    DROPPED = "dropped"


class QueueEntry(Record, frozen=True, kw_only=True):
    """Where a message stands in its agent's queue, and who has claimed it for the how-manieth time."""

    message_id: str
    agent_id: str
    priority: Priority
    seq: int
    status: QueueStatus
    created_at: datetime
    updated_at: datetime
    run_id: str | None = None
    attempt: int = 0
