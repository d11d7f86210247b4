"""External triggers: one capability URL per agent. A delivery is a wake hint, whatever it carries.

The token is derived from the trigger's id with the home's key, so the store keeps its hash only and the URL can be
shown again to an operator who asks, on record.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from holon.core.agents import AgentStatus
from holon.core.clock import moment, to_ms
from holon.core.codec import Record
from holon.core.errors import AgentStopped, BodyTooLarge, HomeUnusable, InvalidInput, NotFound, TriggerRefused
from holon.core.event_kinds import CallbackDelivered, TriggerCreated, TriggerRevealed, TriggerRevoked
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import JsonBody, MessageBody, TextBody
from holon.core.nesting import is_flat_enough
from holon.core.transitions import Transition
from holon.core.triggers import (
    ExternalTrigger,
    HintDisposition,
    TriggerCapability,
    TriggerStatus,
    TriggerSummary,
    WakeHint,
)
from holon.core.values import Value
from holon.runtime.admission import require_agent
from holon.runtime.waking import submit_hint
from holon.store import Store, Tx, agents, triggers

DescriptorMode = Literal["wake_hint", "enqueue_message"]
_TOKEN = re.compile(r"cb_([0-9a-z]{22})_([0-9a-f]{64})")


class Delivery(Value, frozen=True, kw_only=True):
    """What an outside system sent to the URL. The payload is opaque: it is kept, not interpreted."""

    payload: bytes = b""
    content_type: str | None = None
    source: str | None = None
    resource: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None


class DeliveryOutcome(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    external_trigger_id: str
    delivery_mode: str
    scope: str
    disposition: HintDisposition


class Triggers:
    def __init__(
        self,
        store: Store,
        limits: Limits,
        default_agent_id: str,
        kick: Callable[[str], None],
        secret: bytes,
        base_url: Callable[[], str],
    ) -> None:
        self._store, self._limits, self._default, self._kick = store, limits, default_agent_id, kick
        self._secret, self._base_url = secret, base_url

    async def ensure(self, agent_id: str | None) -> TriggerCapability:
        """The agent's capability: the one that is there, or a new one."""
        target = agent_id or self._default
        trigger = await self._store.write(lambda tx: self._ensured(tx, target), at=Transition.TRIGGER_PROVISION)
        return self._capability(trigger)

    async def summary(self, agent_id: str | None) -> TriggerSummary:
        """The capability without its URL."""
        target = agent_id or self._default
        trigger = await self._store.write(lambda tx: self._ensured(tx, target), at=Transition.TRIGGER_PROVISION)
        return summary_of(trigger)

    async def reveal(self, agent_id: str | None, *, surface: str) -> TriggerCapability:
        """The URL once more, for an operator who configures an outside system. The asking is on record."""
        target = agent_id or self._default

        def step(tx: Tx) -> ExternalTrigger:
            trigger = self._ensured(tx, target)
            tx.emit(target, TriggerRevealed(external_trigger_id=trigger.external_trigger_id, surface=surface))
            return trigger

        return self._capability(await self._store.write(step, at=Transition.TRIGGER_REVEAL))

    async def rotate(self, agent_id: str | None, *, surface: str, ttl_ms: int | None = None) -> TriggerCapability:
        """A new URL; the old one is refused from now on. With `ttl_ms` it expires by itself."""
        target = agent_id or self._default
        if ttl_ms is not None and ttl_ms < 1:
            raise InvalidInput(
                "ttl_ms must be positive", hint="leave it out for a URL that does not expire", field="ttl_ms"
            )

        def step(tx: Tx) -> ExternalTrigger:
            require_agent(tx, target)
            self._revoked(tx, target, f"rotated by {surface}")
            return self._created(tx, target, f"rotated by {surface}", ttl_ms)

        return self._capability(await self._store.write(step, at=Transition.TRIGGER_PROVISION))

    async def revoke(self, agent_id: str | None, *, surface: str) -> TriggerSummary:
        target = agent_id or self._default

        def step(tx: Tx) -> ExternalTrigger:
            require_agent(tx, target)
            revoked = self._revoked(tx, target, f"revoked by {surface}")
            if revoked is None:
                raise NotFound(f"agent {target!r} has no active trigger", hint="'holon trigger rotate' makes one")
            return revoked

        return summary_of(await self._store.write(step, at=Transition.TRIGGER_REVOKE))

    async def deliver(self, token: str, delivery: Delivery, *, descriptor_mode: DescriptorMode) -> DeliveryOutcome:
        """Checks the token and submits a wake hint. The old enqueue form is a hint as well, marked as deprecated."""
        if len(delivery.payload) > self._limits.trigger_bytes:
            raise BodyTooLarge(
                f"the payload has {len(delivery.payload)} bytes, at most {self._limits.trigger_bytes} are taken",
                hint="send a reference to the content",
            )
        trigger_id = self._verified(token)
        outcome = await self._store.write(
            lambda tx: self._deliver(tx, trigger_id, token, delivery, descriptor_mode), at=Transition.WAKE_HINT
        )
        self._kick(outcome.agent_id)
        return outcome

    def _deliver(
        self, tx: Tx, trigger_id: str, token: str, delivery: Delivery, descriptor_mode: DescriptorMode
    ) -> DeliveryOutcome:
        trigger = triggers.get(tx, trigger_id)
        if trigger is None or not hmac.compare_digest(trigger.token_hash, _hash(token)):
            raise _refused()
        if trigger.status is not TriggerStatus.ACTIVE:
            raise _refused("it was revoked")
        if _expired(trigger, tx.now_ms):
            raise _refused("it has expired")
        stored = agents.get(tx, trigger.target_agent_id)
        if stored is None or stored.identity.archived_at is not None:
            raise _refused("its agent is gone")
        if stored.state.status is AgentStatus.STOPPED:
            agent_id = trigger.target_agent_id
            raise AgentStopped(f"agent {agent_id!r} is stopped", hint=f"run 'holon agent resume {agent_id}'")
        deprecated = descriptor_mode != "wake_hint"
        hint = WakeHint(
            id=new_id("hint", tx.now_ms),
            agent_id=trigger.target_agent_id,
            created_at=moment(tx.now_ms),
            reason=f"external trigger delivery{f' from {delivery.source}' if delivery.source else ''}",
            source=delivery.source,
            resource=delivery.resource,
            external_trigger_id=trigger_id,
            descriptor_mode=descriptor_mode if deprecated else None,
            deprecated=deprecated,
            content_type=delivery.content_type,
            body=_body(delivery),
            correlation_id=delivery.correlation_id,
            causation_id=delivery.causation_id,
        )
        trigger = msgspec.structs.replace(
            trigger, delivery_count=trigger.delivery_count + 1, last_delivered_at=moment(tx.now_ms)
        )
        triggers.save(tx, trigger)
        disposition = submit_hint(tx, stored, hint, self._limits)
        tx.emit(
            trigger.target_agent_id,
            CallbackDelivered(
                external_trigger_id=trigger_id,
                delivery_mode="wake_hint",
                disposition=disposition,
                delivery_count=trigger.delivery_count,
                descriptor_mode=hint.descriptor_mode,
                deprecated=deprecated,
                source=delivery.source,
                resource=delivery.resource,
                content_type=delivery.content_type,
                correlation_id=delivery.correlation_id,
                causation_id=delivery.causation_id,
            ),
        )
        return DeliveryOutcome(
            agent_id=trigger.target_agent_id,
            external_trigger_id=trigger_id,
            delivery_mode="wake_hint",
            scope=trigger.scope,
            disposition=disposition,
        )

    def _ensured(self, tx: Tx, agent_id: str) -> ExternalTrigger:
        require_agent(tx, agent_id, private=True)
        found = triggers.active(tx, agent_id)
        if found is not None and _expired(found, tx.now_ms):
            self._revoked(tx, agent_id, "expired")
            found = None
        return found or self._created(tx, agent_id, "default trigger of the agent", None)

    def _created(self, tx: Tx, agent_id: str, reason: str, ttl_ms: int | None) -> ExternalTrigger:
        trigger_id = new_id("trig", tx.now_ms)
        trigger = ExternalTrigger(
            external_trigger_id=trigger_id,
            target_agent_id=agent_id,
            token_hash=_hash(self._token(trigger_id)),
            status=TriggerStatus.ACTIVE,
            created_at=moment(tx.now_ms),
            expires_at=moment(tx.now_ms + ttl_ms) if ttl_ms else None,
        )
        triggers.save(tx, trigger)
        tx.emit(agent_id, TriggerCreated(external_trigger_id=trigger_id, reason=reason))
        return trigger

    def _revoked(self, tx: Tx, agent_id: str, reason: str) -> ExternalTrigger | None:
        trigger = triggers.active(tx, agent_id)
        if trigger is None:
            return None
        trigger = msgspec.structs.replace(trigger, status=TriggerStatus.REVOKED, revoked_at=moment(tx.now_ms))
        triggers.save(tx, trigger)
        tx.emit(agent_id, TriggerRevoked(external_trigger_id=trigger.external_trigger_id, reason=reason))
        return trigger

    def _capability(self, trigger: ExternalTrigger) -> TriggerCapability:
        token = self._token(trigger.external_trigger_id)
        return TriggerCapability(
            external_trigger_id=trigger.external_trigger_id,
            trigger_url=f"{self._base_url().rstrip('/')}/callbacks/wake/{token}",
            target_agent_id=trigger.target_agent_id,
            delivery_mode=trigger.delivery_mode,
            status=trigger.status,
        )

    def _token(self, trigger_id: str) -> str:
        plain = trigger_id.removeprefix("trig_")
        signature = hmac.new(self._secret, trigger_id.encode(), hashlib.sha256).hexdigest()
        return f"cb_{plain}_{signature}"

    def _verified(self, token: str) -> str:
        """The trigger's id, if the token bears our signature: garbage is refused without a look into the store."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise _refused()
        trigger_id = f"trig_{match[1]}"
        if not hmac.compare_digest(self._token(trigger_id), token):
            raise _refused()
        return trigger_id


def summary_of(trigger: ExternalTrigger) -> TriggerSummary:
    return TriggerSummary(
        external_trigger_id=trigger.external_trigger_id,
        target_agent_id=trigger.target_agent_id,
        delivery_mode=trigger.delivery_mode,
        status=trigger.status,
        delivery_count=trigger.delivery_count,
        created_at=trigger.created_at,
        revoked_at=trigger.revoked_at,
        expires_at=trigger.expires_at,
        last_delivered_at=trigger.last_delivered_at,
    )


def load_secret(path: Path) -> bytes:
    """The home's key, made at first use, readable by its owner only."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        secret, beside = os.urandom(32), path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        return secret
    except OSError as error:
        raise HomeUnusable(
            f"{path} cannot be written ({error.strerror})", hint="check the permissions of HOLON_HOME"
        ) from error


def _expired(trigger: ExternalTrigger, now_ms: int) -> bool:
    return trigger.expires_at is not None and to_ms(trigger.expires_at) <= now_ms


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _refused(why: str = "the token is not valid") -> TriggerRefused:
    return TriggerRefused(f"this trigger URL is refused: {why}", hint="ask the agent's operator for the current URL")


def _body(delivery: Delivery) -> MessageBody | None:
    """JSON stays JSON, text stays text, anything else is described."""
    if not delivery.payload:
        return None
    if "json" in (delivery.content_type or ""):
        try:
            value = msgspec.json.decode(delivery.payload)
            if is_flat_enough(value):  # else it is kept as text
                return JsonBody(value=value)
        except (msgspec.DecodeError, RecursionError):
            pass
    try:
        return TextBody(text=delivery.payload.decode())
    except UnicodeDecodeError:
        return TextBody(text=f"({len(delivery.payload)} bytes of {delivery.content_type or 'unknown content'})")
