"""Doing deeds: each is noted outside before it is asked for, and again when the runtime has answered."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from holon.core.agents import AgentIdentity
from holon.core.errors import Conflict, NotFound, OperatorError
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    JsonBody,
    MessageKind,
    OperatorOrigin,
    TextBody,
    WebhookOrigin,
)
from holon.runtime.admission import Admission
from holon.runtime.host import Host
from holon.runtime.timers import TimerRequest
from holon.runtime.triggers import Delivery
from holon.runtime.waking import WakeRequest
from holon.store import Tx
from tests.crash.deeds import Deed, Verb
from tests.crash.outside import REPOSITORY, Answer, Outside

SURFACE = "local test"
#: How long a plan waits for the runtime before it goes on without.
PATIENCE_S = 5.0


class Doer:
    def __init__(self, host: Host, outside: Outside) -> None:
        self._host, self._outside = host, outside

    async def do(self, deed: Deed) -> None:
        """Asks for it and notes the answer. A refusal is an answer too: nothing may have come of the deed."""
        match deed.verb:
            case Verb.SETTLE:
                await _settled(self._host, deed.agent)
            case Verb.RUNNING:
                await _running(self._host, deed.agent)
            case Verb.STALLED:
                await _stalled(self._host, deed.agent)
            case Verb.WAIT:
                await asyncio.sleep(deed.ms / 1000)
            case _:
                self._outside.intend(deed)
                await self._ask(deed)

    async def again(self, deed: Deed) -> None:
        """Asks once more, if the deed has a key that keeps it from happening twice."""
        if deed.verb.keyed:
            await self._ask(deed)

    async def _ask(self, deed: Deed) -> None:
        try:
            made = await _WAYS[deed.verb](self._host, deed)
        except OperatorError as error:
            self._outside.acknowledge(Answer(n=deed.n, refused=error.code))
        else:
            self._outside.acknowledge(Answer(n=deed.n, id=made))


async def until(met: Callable[[], Awaitable[bool]], deadline_s: float = PATIENCE_S) -> bool:
    """Waits until it is so; false if it is not so after a while."""
    end = time.monotonic() + deadline_s
    while not await met():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.003)
    return True


def admission_of(deed: Deed) -> Admission:
    """The message that a prompt or a webhook is: the checks compare it with what the store has kept."""
    if deed.verb is Verb.WEBHOOK:
        return Admission(
            agent_id=deed.agent,
            kind=MessageKind.WEBHOOK_EVENT,
            origin=WebhookOrigin(source="crash-test", event_type=deed.text),
            body=JsonBody(value={"word": deed.text, "tag": deed.tag}),
            surface=DeliverySurface.HTTP_WEBHOOK,
            context=AdmissionContext.CONTROL_AUTHENTICATED,
            priority=deed.priority,
            idempotency_key=deed.key,
        )
    return Admission(
        agent_id=deed.agent,
        kind=MessageKind.OPERATOR_PROMPT,
        origin=OperatorOrigin(actor_id=f"operator {deed.n}"),
        body=TextBody(text=f"{deed.text} {deed.tag}"),
        surface=DeliverySurface.CLI_PROMPT,
        context=AdmissionContext.LOCAL_PROCESS,
        priority=deed.priority,
        idempotency_key=deed.key,
        private=True,
    )


async def _settled(host: Host, agent: str) -> bool:
    async def settled() -> bool:
        return not await host.store.read(lambda tx: _busy(tx, agent))

    return await until(settled)


async def _running(host: Host, agent: str) -> bool:
    async def running() -> bool:
        return agent in host.dispatcher.live

    return await until(running)


async def _stalled(host: Host, agent: str) -> bool:
    """Only a turn that still runs can be found out: there is nothing to wait for behind its end."""

    async def stalled() -> bool:
        noticed = await host.store.read(lambda tx: _noticed(tx, agent))
        return noticed or agent not in host.dispatcher.live

    return await until(stalled)


def _noticed(tx: Tx, agent: str) -> bool:
    return tx.one("SELECT 1 FROM events WHERE agent_id = ? AND kind = 'agent_stalled'", agent) is not None


def _busy(tx: Tx, agent: str) -> bool:
    waits = tx.one("SELECT 1 FROM queue WHERE agent_id = ? AND status IN ('queued', 'dequeued')", agent)
    return waits is not None


async def _admit(host: Host, deed: Deed) -> str | None:
    return (await host.inbox.admit(admission_of(deed))).message_id


async def _create_agent(host: Host, deed: Deed) -> str | None:
    made: AgentIdentity = (await host.agents.create(deed.agent, surface=SURFACE, idempotency_key=deed.key)).value
    return made.agent_id


async def _wake(host: Host, deed: Deed) -> str | None:
    await host.waking.wake(deed.agent, WakeRequest(reason=f"{deed.text} {deed.tag}"), surface=SURFACE)
    return None


async def _deliver(host: Host, deed: Deed) -> str | None:
    capability = await host.triggers.ensure(deed.agent)
    token = capability.trigger_url.rsplit("/", 1)[1]
    payload = f"{deed.text} {deed.tag}".encode()
    delivery = Delivery(payload=payload, content_type="text/plain", source=deed.tag)
    await host.triggers.deliver(token, delivery, descriptor_mode="wake_hint")
    return None


async def _rotate(host: Host, deed: Deed) -> str | None:
    return (await host.triggers.rotate(deed.agent, surface=SURFACE)).external_trigger_id


async def _revoke(host: Host, deed: Deed) -> str | None:
    return (await host.triggers.revoke(deed.agent, surface=SURFACE)).external_trigger_id


async def _reveal(host: Host, deed: Deed) -> str | None:
    return (await host.triggers.reveal(deed.agent, surface=SURFACE)).external_trigger_id


async def _timer(host: Host, deed: Deed) -> str | None:
    request = TimerRequest(duration_ms=deed.ms, interval_ms=deed.every_ms, summary=f"{deed.text} {deed.tag}")
    return (await host.timers.create(deed.agent, request, surface=SURFACE, idempotency_key=deed.key)).value.id


async def _cancel_timer(host: Host, deed: Deed) -> str | None:
    """The newest that can still be cancelled."""
    for timer in await host.timers.listing(deed.agent, limit=5):
        try:
            return (await host.timers.cancel(deed.agent, timer.id, surface=SURFACE)).id
        except Conflict:
            continue
    raise NotFound("there is no timer to cancel")


async def _pause(host: Host, deed: Deed) -> str | None:
    await host.lifecycle.pause(deed.agent, SURFACE)
    return await _resume_later(host, deed)


async def _resume(host: Host, deed: Deed) -> str | None:
    await host.lifecycle.resume(deed.agent, SURFACE)
    return None


async def _stop(host: Host, deed: Deed) -> str | None:
    await host.lifecycle.stop(deed.agent, SURFACE)
    return await _resume_later(host, deed)


async def _resume_later(host: Host, deed: Deed) -> str | None:
    if deed.ms == 0:
        return None
    await asyncio.sleep(deed.ms / 1000)
    return await _resume(host, deed)


async def _abort(host: Host, deed: Deed) -> str | None:
    await asyncio.sleep(deed.ms / 1000)
    return (await host.lifecycle.abort(deed.agent, surface=SURFACE)).run_id


async def _temporary_agent(host: Host, deed: Deed) -> str | None:
    """As `holon run` does it: a private agent, one prompt, and out of service when it is done."""
    made = await host.agents.create_temporary(surface=SURFACE)
    await host.inbox.admit(admission_of(_for_agent(deed, made.agent_id)))
    await _settled(host, made.agent_id)
    await host.agents.archive(made.agent_id, "done")
    return made.agent_id


def _for_agent(deed: Deed, agent_id: str) -> Deed:
    return Deed(n=deed.n, verb=Verb.PROMPT, agent=agent_id, text=deed.text)


async def _retention(host: Host, _deed: Deed) -> str | None:
    await host.retention.apply()
    return None


async def _workspace(host: Host, deed: Deed) -> str | None:
    repository = host.settings.home.parent / f"{host.settings.home.name}-outside" / REPOSITORY
    await asyncio.to_thread(_make_repository, repository)
    return (await host.housing.enter(deed.agent, repository, surface=SURFACE)).active.workspace_id


def _make_repository(folder: Path) -> None:
    """Whole, or not at all: the process may be killed on the way."""
    if folder.exists():
        return
    making = folder.with_name(f"making-{os.getpid()}")
    making.mkdir()
    (making / "read.me").write_text("a project\n")
    person = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*person, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=making, check=True)
    making.rename(folder)


_WAYS: dict[Verb, Callable[[Host, Deed], Awaitable[str | None]]] = {
    Verb.CREATE_AGENT: _create_agent,
    Verb.PROMPT: _admit,
    Verb.WEBHOOK: _admit,
    Verb.WAKE: _wake,
    Verb.DELIVER: _deliver,
    Verb.ROTATE: _rotate,
    Verb.REVOKE: _revoke,
    Verb.REVEAL: _reveal,
    Verb.TIMER: _timer,
    Verb.CANCEL_TIMER: _cancel_timer,
    Verb.PAUSE: _pause,
    Verb.RESUME: _resume,
    Verb.STOP: _stop,
    Verb.ABORT: _abort,
    Verb.TEMPORARY_AGENT: _temporary_agent,
    Verb.RETENTION: _retention,
    Verb.WORKSPACE: _workspace,
}
