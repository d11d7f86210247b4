"""Admission: the one door. Every input becomes an envelope here, with labels that only the runtime derives.

What is admitted is durable: the id is handed out after the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holon.core.agents import AgentStatus, RegistryStatus, Visibility
from holon.core.briefs import BriefKind
from holon.core.clock import moment
from holon.core.codec import Record, dumps, loads, to_plain
from holon.core.errors import (
    AgentArchived,
    AgentStopped,
    BodyTooLarge,
    InvalidInput,
    PrivateAgent,
    QueueFull,
    UnknownAgent,
)
from holon.core.event_kinds import MessageAdmitted
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    CallbackOrigin,
    DeliverySurface,
    MessageBody,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    Priority,
    TaskOrigin,
    TextBody,
    TimerOrigin,
    Trust,
)
from holon.core.provenance import TRIGGERS, kind_fits, labels_for
from holon.core.transitions import Transition
from holon.runtime.briefing import write_brief
from holon.store import Store, Tx, agents, idempotency, queue
from holon.store.agents import Standing, StoredAgent

PREVIEW_CHARS = 80

#: Metadata keys that name something, and the reference under which every ingress may keep them.
_REFERENCES = {
    "queued_event_id": "queued_event_id",
    "task_result_id": "task_result_id",
    "external_trigger_id": "external_trigger_id",
    "waiting_intent_id": "waiting_intent_id",
    "callback_delivery_id": "callback_delivery_id",
    "timer_id": "timer_id",
    "task_id": "task_id",
    "work_item_id": "work_item_id",
    "resource": "resource",
}

#: Surfaces from which the runtime itself speaks: only they may bind a message to a task or a work item.
_BINDING_SURFACES = (DeliverySurface.RUNTIME_SYSTEM, DeliverySurface.TASK_REJOIN, DeliverySurface.TIMER_SCHEDULER)


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What a surface knows: the raw input, where it came from, and the way it came in."""

    agent_id: str | None
    kind: MessageKind
    origin: MessageOrigin
    body: MessageBody
    surface: DeliverySurface
    context: AdmissionContext
    priority: Priority | None = None
    metadata: dict[str, Any] | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    idempotency_key: str | None = None
    source_refs: Mapping[str, str] = {}
    #: Names the one source of a runtime tick, so that a waiting one can be found again.
    source_key: str | None = None
    #: Whose words the body brings, where they are not the origin's own: the labels are the least that any of them has.
    carries: Sequence[MessageOrigin] = ()
    #: The admitting surface may speak to a private agent (its parent, or the process that made it).
    private: bool = False


class Admitted(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    message_id: str
    duplicate: bool = False


class Work(Protocol):
    """Who gives agents something to do."""

    def kick(self, agent_id: str) -> None: ...
    def expect(self, agent_id: str) -> bool: ...


class Inbox:
    """Admission for everything outside a transaction of the runtime."""

    def __init__(self, store: Store, limits: Limits, default_agent_id: str, work: Work) -> None:
        self._store, self._limits, self._default, self._work = store, limits, default_agent_id, work

    async def admit(self, admission: Admission) -> Admitted:
        agent_id = admission.agent_id or self._default
        check(admission, self._limits)
        expected = False

        def expect(_admitted: Admitted) -> None:
            nonlocal expected
            expected = self._work.expect(agent_id)

        admitted = await self._store.write(
            lambda tx: admit(tx, agent_id, admission, self._limits), at=Transition.MESSAGE_ADMIT, meanwhile=expect
        )
        if not expected:
            self._work.kick(agent_id)
        return admitted


def check(admission: Admission, limits: Limits) -> None:
    """What can be refused without looking at the store."""
    if not kind_fits(admission.kind, admission.origin):
        origin = to_plain(admission.origin)["kind"]
        raise InvalidInput(
            f"a {admission.kind} cannot come from origin {origin!r}",
            hint="send the kind that belongs to the origin; see docs/http.md",
            field="origin",
        )
    if not _surely_fits(admission.body, limits) and (size := len(dumps(admission.body))) > limits.message_bytes:
        raise BodyTooLarge(
            f"the body has {size} bytes, at most {limits.message_bytes} are taken",
            hint="send a reference to the content, or raise limits.message_bytes",
        )
    idempotency.check_key(admission.idempotency_key)


def _surely_fits(body: MessageBody, limits: Limits) -> bool:
    """A character takes at most six bytes: a short text need not be written out to be measured."""
    return isinstance(body, TextBody) and len(body.text) * 6 + 64 <= limits.message_bytes


def admit(tx: Tx, agent_id: str, admission: Admission, limits: Limits) -> Admitted:
    """Admits inside a transaction. Runtime-made messages come this way too: there is no other."""
    standing = _reachable(agent_id, agents.standing(tx, agent_id), private=admission.private)
    key, print_ = admission.idempotency_key, ""
    if key is not None:
        print_ = idempotency.fingerprint(_asked(admission))
        if first := idempotency.seen(tx, f"admit/{agent_id}", key, print_):
            return Admitted(agent_id=agent_id, message_id=loads(first, Admitted).message_id, duplicate=True)
    if not _is_result(admission):
        _check_running(agent_id, standing.status)
    if (waiting := tx.waiting(agent_id)) >= limits.queue_length and not _made_here(admission):
        raise QueueFull(
            f"{waiting} messages wait for agent {agent_id!r} already",
            hint="let it work them off, or raise limits.queue_length",
        )
    envelope = normalise(agent_id, admission, tx.now_ms)
    queue.append(tx, envelope, source_key=admission.source_key)
    tx.emit(agent_id, admitted_event(envelope), message_id=envelope.id)
    if standing.status == AgentStatus.PAUSED and envelope.from_owner:
        write_brief(
            tx,
            agent_id,
            BriefKind.ACK,
            f"The agent is paused. Your message waits and is taken up after 'holon agent resume {agent_id}'.",
            message_id=envelope.id,
        )
        stored = require_agent(tx, agent_id, private=True)
        agents.save_state(tx, msgspec.structs.replace(stored.state, last_brief_at=moment(tx.now_ms)))
    admitted = Admitted(agent_id=agent_id, message_id=envelope.id)
    if key is not None:
        idempotency.remember(tx, f"admit/{agent_id}", key, print_, dumps(admitted))
    return admitted


def _asked(admission: Admission) -> list[Any]:
    """All that a caller can ask for. What is left out is the same as its default."""
    return [
        admission.kind,
        admission.origin,
        admission.body,
        admission.metadata or None,
        admission.priority or Priority.NORMAL,
        admission.correlation_id,
        admission.causation_id,
    ]


def normalise(agent_id: str, admission: Admission, now_ms: int) -> MessageEnvelope:
    """The envelope: pure. Labels follow from the origin and from what it carries; bindings come from metadata only if
    the runtime speaks."""
    trust, authority = labels_for(admission.origin, admission.carries)
    metadata = admission.metadata or {}
    may_bind = (
        trust is Trust.TRUSTED_SYSTEM
        and admission.context is AdmissionContext.RUNTIME_OWNED
        and admission.surface in _BINDING_SURFACES
    )
    task_id = metadata.get("task_id") if may_bind else None
    if isinstance(admission.origin, TaskOrigin):
        task_id = admission.origin.task_id
    message_id = new_id("msg", now_ms)
    return MessageEnvelope(
        id=message_id,
        agent_id=agent_id,
        created_at=moment(now_ms),
        kind=admission.kind,
        origin=admission.origin,
        trust=trust,
        authority_class=authority,
        priority=admission.priority or Priority.NORMAL,
        body=admission.body,
        trigger_kind=TRIGGERS[admission.kind],
        work_item_id=metadata.get("work_item_id") if may_bind else None,
        task_id=task_id,
        source_refs=_source_refs(admission, metadata),
        delivery_surface=admission.surface,
        admission_context=admission.context,
        metadata=admission.metadata,
        correlation_id=admission.correlation_id,
        causation_id=admission.causation_id,
    )


def admitted_event(envelope: MessageEnvelope) -> MessageAdmitted:
    assert envelope.trigger_kind
    assert envelope.delivery_surface
    assert envelope.admission_context
    return MessageAdmitted(
        message_kind=envelope.kind,
        origin=to_plain(envelope.origin),
        trust=envelope.trust,
        authority_class=envelope.authority_class,
        priority=envelope.priority,
        trigger_kind=envelope.trigger_kind,
        delivery_surface=envelope.delivery_surface,
        admission_context=envelope.admission_context,
        preview=_preview(envelope),
        task_id=envelope.task_id,
        work_item_id=envelope.work_item_id,
        source_refs=envelope.source_refs,
    )


def _preview(envelope: MessageEnvelope) -> str:
    """A tick says why it came; everything else begins with what it says."""
    reason = (envelope.metadata or {}).get("reason")
    return str(reason if envelope.kind is MessageKind.SYSTEM_TICK and reason else envelope.text)[:PREVIEW_CHARS]


def require_agent(tx: Tx, agent_id: str, *, private: bool = False) -> StoredAgent:
    """The agent, or the error that says what is wrong with asking for it."""
    stored = agents.get(tx, agent_id)
    _reachable(agent_id, stored and stored.standing, private=private)
    assert stored is not None
    return stored


def check_boundary(stored: StoredAgent) -> None:
    _check_running(stored.identity.agent_id, stored.state.status)


def _reachable(agent_id: str, standing: Standing | None, *, private: bool) -> Standing:
    if standing is None:
        raise UnknownAgent(f"there is no agent {agent_id!r}", hint=f"create it with 'holon agent create {agent_id}'")
    if standing.visibility == Visibility.PRIVATE and not private:
        raise PrivateAgent(
            f"agent {agent_id!r} is private", hint="speak to the agent that supervises it, or to a public one"
        )
    if standing.registry_status == RegistryStatus.ARCHIVED:
        raise AgentArchived(f"agent {agent_id!r} is archived", hint="create a new one")
    return standing


def _check_running(agent_id: str, status: str) -> None:
    if status == AgentStatus.STOPPED:
        raise AgentStopped(f"agent {agent_id!r} is stopped", hint=f"run 'holon agent resume {agent_id}'")


def _is_result(admission: Admission) -> bool:
    """A task's own end is no message from outside: it comes once, so it waits where a stopped agent will find it."""
    return admission.kind is MessageKind.TASK_RESULT and _runtime_owned(admission)


def _made_here(admission: Admission) -> bool:
    """Whether the runtime made the message, whatever it carries: then refusing it would break a step of its own."""
    return _runtime_owned(admission) or admission.kind is MessageKind.SYSTEM_TICK


def _runtime_owned(admission: Admission) -> bool:
    return admission.context is AdmissionContext.RUNTIME_OWNED


def _source_refs(admission: Admission, metadata: Mapping[str, Any]) -> dict[str, str]:
    refs: dict[str, str] = {}
    if metadata:
        refs = {ref: str(metadata[key]) for key, ref in _REFERENCES.items() if metadata.get(key) is not None}
    match admission.origin:
        case TimerOrigin(timer_id=timer_id):
            refs["timer_id"] = timer_id
        case TaskOrigin(task_id=task_id):
            refs["task_id"] = task_id
        case CallbackOrigin(descriptor_id=descriptor_id):
            refs["external_trigger_id"] = descriptor_id
        case _:
            pass
    refs.update(admission.source_refs)
    return refs
