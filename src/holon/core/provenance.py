"""Provenance: the labels that the runtime derives at the door, as tables. No caller can set them.

Also the legacy reader for messages that were stored with `trust` and without `authority_class`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holon.core.codec import from_plain
from holon.core.messages import (
    AuthorityClass,
    CallbackOrigin,
    ChannelOrigin,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    OperatorOrigin,
    SystemOrigin,
    TaskOrigin,
    TimerOrigin,
    TriggerKind,
    Trust,
    WebhookOrigin,
)

#: Origin -> the compatibility label and the class that decides.
LABELS: dict[type, tuple[Trust, AuthorityClass]] = {
    OperatorOrigin: (Trust.TRUSTED_OPERATOR, AuthorityClass.OPERATOR_INSTRUCTION),
    SystemOrigin: (Trust.TRUSTED_SYSTEM, AuthorityClass.RUNTIME_INSTRUCTION),
    TimerOrigin: (Trust.TRUSTED_SYSTEM, AuthorityClass.RUNTIME_INSTRUCTION),
    TaskOrigin: (Trust.TRUSTED_SYSTEM, AuthorityClass.RUNTIME_INSTRUCTION),
    CallbackOrigin: (Trust.TRUSTED_INTEGRATION, AuthorityClass.INTEGRATION_SIGNAL),
    WebhookOrigin: (Trust.TRUSTED_INTEGRATION, AuthorityClass.INTEGRATION_SIGNAL),
    ChannelOrigin: (Trust.UNTRUSTED_EXTERNAL, AuthorityClass.EXTERNAL_EVIDENCE),
}

#: Kind -> the trigger that it is. Total: status and brief kinds have one too, and lead to no continuation.
TRIGGERS: dict[MessageKind, TriggerKind] = {
    MessageKind.OPERATOR_PROMPT: TriggerKind.OPERATOR_INPUT,
    MessageKind.CHANNEL_EVENT: TriggerKind.EXTERNAL_EVENT,
    MessageKind.WEBHOOK_EVENT: TriggerKind.EXTERNAL_EVENT,
    MessageKind.CALLBACK_EVENT: TriggerKind.EXTERNAL_EVENT,
    MessageKind.TIMER_TICK: TriggerKind.TIMER_FIRE,
    MessageKind.SYSTEM_TICK: TriggerKind.SYSTEM_TICK,
    MessageKind.TASK_RESULT: TriggerKind.TASK_RESULT,
    MessageKind.TASK_STATUS: TriggerKind.TASK_RESULT,
    MessageKind.INTERNAL_FOLLOWUP: TriggerKind.INTERNAL_FOLLOWUP,
    MessageKind.CONTROL: TriggerKind.SYSTEM_TICK,
    MessageKind.BRIEF_ACK: TriggerKind.SYSTEM_TICK,
    MessageKind.BRIEF_RESULT: TriggerKind.SYSTEM_TICK,
}

#: Kind -> the origins that may send it.
ALLOWED_ORIGINS: dict[MessageKind, tuple[type, ...]] = {
    MessageKind.OPERATOR_PROMPT: (OperatorOrigin,),
    MessageKind.CHANNEL_EVENT: (ChannelOrigin,),
    MessageKind.WEBHOOK_EVENT: (WebhookOrigin,),
    MessageKind.CALLBACK_EVENT: (CallbackOrigin,),
    MessageKind.TIMER_TICK: (TimerOrigin,),
    MessageKind.SYSTEM_TICK: (SystemOrigin,),
    MessageKind.INTERNAL_FOLLOWUP: (SystemOrigin,),
    MessageKind.TASK_RESULT: (TaskOrigin,),
    MessageKind.TASK_STATUS: (TaskOrigin,),
    MessageKind.CONTROL: (OperatorOrigin, SystemOrigin),
    MessageKind.BRIEF_ACK: (SystemOrigin,),
    MessageKind.BRIEF_RESULT: (SystemOrigin,),
}


def labels_for(origin: MessageOrigin, carries: Sequence[MessageOrigin] = ()) -> tuple[Trust, AuthorityClass]:
    """The labels of what an origin says, or of what it and those say that it carries words of: the least that any of
    them has. What the runtime only carries is no more than it was: a tick for hints from outside instructs nobody."""
    own = LABELS[type(origin)]
    if not carries:
        return own
    return max(own, *(LABELS[type(each)] for each in carries), key=lambda labels: _DESCENDING.index(labels[1]))


def kind_fits(kind: MessageKind, origin: MessageOrigin) -> bool:
    return isinstance(origin, ALLOWED_ORIGINS[kind])


def read_envelope(stored: dict[str, Any]) -> MessageEnvelope:
    """A stored message of any age. Where `authority_class` is missing it is the lesser of what the origin and the trust
    label give: old callers could set the label, and neither may lift evidence to an instruction."""
    if "authority_class" not in stored:
        envelope = from_plain({**stored, "authority_class": AuthorityClass.EXTERNAL_EVIDENCE}, MessageEnvelope)
        by_trust = dict(LABELS.values())[envelope.trust]
        stored = {**stored, "authority_class": max(labels_for(envelope.origin)[1], by_trust, key=_DESCENDING.index)}
    return from_plain(stored, MessageEnvelope)


_DESCENDING = list(AuthorityClass)  # from the most authority to the least
