"""Sample records for tests that write something and read it back."""

from __future__ import annotations

import types
import typing
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

import msgspec

from holon.core.agents import (
    AgentIdentity,
    AgentKind,
    AgentState,
    Ownership,
    ProfilePreset,
    RegistryStatus,
    Visibility,
)
from holon.core.ids import new_id
from holon.core.messages import (
    CallbackOrigin,
    ChannelOrigin,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    OperatorOrigin,
    Priority,
    SystemOrigin,
    TaskOrigin,
    TextBody,
    TimerOrigin,
    WebhookOrigin,
)
from holon.core.provenance import labels_for

S = TypeVar("S", bound=msgspec.Struct)

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 250_000, UTC)

#: One of each, with every field.
ORIGINS: dict[str, MessageOrigin] = {
    "operator": OperatorOrigin(actor_id="ada"),
    "channel": ChannelOrigin(channel_id="general", sender_id="someone"),
    "webhook": WebhookOrigin(source="github", event_type="push"),
    "callback": CallbackOrigin(descriptor_id="trig_1", source="ci"),
    "timer": TimerOrigin(timer_id="timer_1"),
    "system": SystemOrigin(subsystem="wake_hint"),
    "task": TaskOrigin(task_id="task_1"),
}


def envelope(agent_id: str = "main", *, text: str = "hello", **changes: Any) -> MessageEnvelope:
    """An operator's prompt with only what an envelope must have, changed where a test asks for it."""
    origin: MessageOrigin = changes.pop("origin", OperatorOrigin())
    trust, authority = labels_for(origin)
    plain = MessageEnvelope(
        id=new_id("msg"),
        agent_id=agent_id,
        created_at=MOMENT,
        kind=MessageKind.OPERATOR_PROMPT,
        origin=origin,
        trust=trust,
        authority_class=authority,
        priority=Priority.NORMAL,
        body=TextBody(text=text),
    )
    return msgspec.structs.replace(plain, **changes)


def identity(agent_id: str = "main", **changes: Any) -> AgentIdentity:
    plain = AgentIdentity(
        agent_id=agent_id,
        agent_home=f"/home/agents/{agent_id}",
        kind=AgentKind.NAMED,
        visibility=Visibility.PUBLIC,
        ownership=Ownership.SELF_OWNED,
        profile_preset=ProfilePreset.PUBLIC_NAMED,
        status=RegistryStatus.ACTIVE,
        created_at=MOMENT,
    )
    return msgspec.structs.replace(plain, **changes)


def state(agent_id: str = "main", **changes: Any) -> AgentState:
    return msgspec.structs.replace(AgentState(id=agent_id), **changes)


def full(type_: type[S], **changes: Any) -> S:
    """A record in which every field is set, to something other than its default where its type allows."""
    values = {field.name: _value(field.type, field.name, field.default) for field in msgspec.structs.fields(type_)}
    return type_(**values | changes)


def smallest(type_: type[S], **changes: Any) -> S:
    """A record with only the fields that it must have."""
    required = [field for field in msgspec.structs.fields(type_) if field.required]
    return type_(**{field.name: _value(field.type, field.name) for field in required} | changes)


def _value(type_: Any, name: str, default: Any = None) -> Any:
    origin, parts = typing.get_origin(type_), typing.get_args(type_)
    if origin is typing.Annotated:
        return _value(parts[0], name)
    if origin in (typing.Union, types.UnionType):
        return _value(next(part for part in parts if part is not types.NoneType), name)
    if origin is typing.Literal:
        return parts[-1]
    if origin is list:
        return [_value(parts[0], name)]
    if origin is dict:
        return {f"{name}_key": _value(parts[1], name)}
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return full(type_)
    if isinstance(type_, type) and issubclass(type_, Enum):
        return next(member for member in type_ if member != default)
    return {str: f"{name} ünï", int: 7, float: 12.5, bool: True, datetime: MOMENT, Any: {"any": [1, None]}}[type_]
