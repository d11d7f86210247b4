"""A host that a test drives: ways in, ways to wait for what follows, and ways to look at what is stored.

Everything is real: the store on disk, the dispatcher, the pulse, the scripted model. Waiting means following the log
with a deadline, never sleeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from holon.core.agents import AgentState, AgentStatus, AgentSummary
from holon.core.briefs import Brief
from holon.core.clock import Clock
from holon.core.codec import Input
from holon.core.events import EventEnvelope
from holon.core.messages import (
    AdmissionContext,
    ChannelOrigin,
    DeliverySurface,
    JsonBody,
    MessageBody,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    OperatorOrigin,
    QueueStatus,
    SystemOrigin,
    TaskOrigin,
    TextBody,
    TimerOrigin,
    WebhookOrigin,
)
from holon.core.transcripts import TranscriptEntry, TranscriptKind
from holon.core.triggers import HintDisposition
from holon.core.turns import ToolCall, Turn
from holon.providers.contract import OnProgress, ProviderRequest, ProviderResponse
from holon.providers.scripted import ScriptedProvider
from holon.providers.selection import ProviderEntry, Providers
from holon.runtime.admission import Admission
from holon.runtime.host import Host
from holon.runtime.settings import load_settings
from holon.runtime.triggers import Delivery
from holon.runtime.views import EventQuery, MessageStatus
from holon.store import agents, events, queue, tasks, triggers, turns
from holon.tools.registry import CallContext, Tool, ToolOutcome

T = TypeVar("T")

DEADLINE_S = 10.0
SURFACE = "cli"

_FINAL = (QueueStatus.PROCESSED, QueueStatus.INTERJECTED, QueueStatus.ABORTED, QueueStatus.DROPPED)
_BUSY = (AgentStatus.BOOTING, AgentStatus.AWAKE_IDLE, AgentStatus.AWAKE_RUNNING)


class Model(ScriptedProvider):
    """The scripted model, which also remembers what it was asked, and can be made to think until it is let go."""

    def __init__(self, script: str, home: Path) -> None:
        super().__init__(scripts={"test": script}, home=home)
        self.requests: list[ProviderRequest] = []
        self._gate: asyncio.Event | None = None
        self._asked, self._held = asyncio.Event(), 0

    async def respond(self, request: ProviderRequest, on_progress: OnProgress | None = None) -> ProviderResponse:
        self.requests.append(request)
        if self._gate is not None:
            self._held += 1
            self._asked.set()
            await self._gate.wait()
        return await super().respond(request, on_progress)

    def hold(self) -> None:
        """From now on every answer waits for `release`."""
        self._gate, self._held = asyncio.Event(), 0

    async def asked(self, times: int = 1) -> None:
        """Until the model was asked so many times since `hold`."""
        async with asyncio.timeout(DEADLINE_S):
            while self._held < times:
                self._asked.clear()
                await self._asked.wait()

    def release(self) -> None:
        assert self._gate is not None
        self._gate.set()
        self._gate = None

    @property
    def shown(self) -> str:
        """All that the newest request showed of inputs, as one text."""
        return "\n".join(getattr(item, "text", "") for item in self.requests[-1].conversation)


async def soon(look: Callable[[], bool]) -> None:
    """Until something is so that no event tells of."""
    for _ in range(int(DEADLINE_S * 500)):
        if look():
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"not within {DEADLINE_S:.0f} s")


class NoteInput(Input, frozen=True, kw_only=True):
    text: str = ""


class Gate:
    """A tool `Wait` that runs until it is let go. It counts its runs, and those that ended."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self._entered, self._open = asyncio.Event(), asyncio.Event()

    @property
    def tool(self) -> Tool:
        return Tool(name="Wait", description="Waits.", input_type=NoteInput, run=self._run)

    async def entered(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self._entered.wait()

    def open(self) -> None:
        self._open.set()

    async def _run(self, _context: CallContext, asked: NoteInput) -> ToolOutcome:
        self.begun += 1
        self._entered.set()
        await self._open.wait()
        self.ended += 1
        return ToolOutcome(content=f"waited: {asked.text}", summary="waited")


async def _note(_context: CallContext, asked: NoteInput) -> ToolOutcome:
    return ToolOutcome(content=f"noted: {asked.text}", summary=f"noted {asked.text}")


async def _break(_context: CallContext, asked: NoteInput) -> ToolOutcome:
    raise ValueError(asked.text)


NOTE = Tool(name="Note", description="Takes a note.", input_type=NoteInput, run=_note)
BREAK = Tool(name="Break", description="Has a defect.", input_type=NoteInput, run=_break)


class Living:
    def __init__(self, host: Host, model: Model) -> None:
        self.host, self.model = host, model

    @classmethod
    async def open(
        cls,
        home: Path,
        script: str,
        *,
        clock: Clock | None = None,
        tools: Sequence[Tool] = (),
        held: bool = False,
        **settings: Any,
    ) -> Living:
        """`held`: the model thinks until it is released, also about a turn that is taken up at the start."""
        model = Model(script, home)
        if held:
            model.hold()
        providers = Providers([ProviderEntry("scripted", "scripted")], {"scripted": lambda _entry: model})
        loaded = load_settings(home, {}, **{"model_default": "scripted/test", "http_port": 0, **settings})
        host = await Host.open(loaded, purpose="test", clock=clock, providers=providers, tools=list(tools))
        return cls(host, model)

    async def close(self) -> None:
        await self.host.close()

    # Ways in

    async def admit(
        self,
        kind: MessageKind,
        origin: MessageOrigin,
        body: MessageBody | str,
        surface: DeliverySurface,
        context: AdmissionContext,
        agent_id: str | None = "main",
        **more: Any,
    ) -> str:
        body = TextBody(text=body) if isinstance(body, str) else body
        admission = Admission(
            agent_id=agent_id, kind=kind, origin=origin, body=body, surface=surface, context=context, **more
        )
        return (await self.host.inbox.admit(admission)).message_id

    async def say(self, text: str, agent_id: str | None = "main", **more: Any) -> str:
        """The operator speaks."""
        return await self.admit(
            MessageKind.OPERATOR_PROMPT,
            OperatorOrigin(),
            text,
            DeliverySurface.CLI_PROMPT,
            AdmissionContext.LOCAL_PROCESS,
            agent_id,
            **more,
        )

    async def webhook(self, value: Any, agent_id: str | None = "main", **more: Any) -> str:
        return await self.admit(
            MessageKind.WEBHOOK_EVENT,
            WebhookOrigin(source="forge", event_type="push"),
            JsonBody(value=value),
            DeliverySurface.HTTP_WEBHOOK,
            AdmissionContext.PUBLIC_UNAUTHENTICATED,
            agent_id,
            **more,
        )

    async def channel(self, text: str, agent_id: str | None = "main", **more: Any) -> str:
        return await self.admit(
            MessageKind.CHANNEL_EVENT,
            ChannelOrigin(channel_id="general", sender_id="eve"),
            text,
            DeliverySurface.HTTP_PUBLIC_ENQUEUE,
            AdmissionContext.PUBLIC_UNAUTHENTICATED,
            agent_id,
            **more,
        )

    async def follow_up(self, text: str, agent_id: str | None = "main", **more: Any) -> str:
        """What the runtime queues for the agent itself."""
        return await self.admit(
            MessageKind.INTERNAL_FOLLOWUP,
            SystemOrigin(subsystem="self_followup"),
            text,
            DeliverySurface.RUNTIME_SYSTEM,
            AdmissionContext.RUNTIME_OWNED,
            agent_id,
            **more,
        )

    async def task_message(self, kind: MessageKind, text: str, task_id: str = "task_1", **more: Any) -> str:
        return await self.admit(
            kind,
            TaskOrigin(task_id=task_id),
            text,
            DeliverySurface.TASK_REJOIN,
            AdmissionContext.RUNTIME_OWNED,
            **more,
        )

    async def tick(self, timer_id: str = "timer_1", text: str = "look", **more: Any) -> str:
        return await self.admit(
            MessageKind.TIMER_TICK,
            TimerOrigin(timer_id=timer_id),
            text,
            DeliverySurface.TIMER_SCHEDULER,
            AdmissionContext.RUNTIME_OWNED,
            **more,
        )

    async def deliver(self, payload: bytes = b"", agent_id: str | None = "main", **more: Any) -> HintDisposition:
        """Somebody outside uses the agent's trigger URL."""
        token = (await self.host.triggers.ensure(agent_id)).trigger_url.rsplit("/", 1)[1]
        delivery = Delivery(payload=payload, **more)
        return (await self.host.triggers.deliver(token, delivery, descriptor_mode="wake_hint")).disposition

    async def trigger(self, payload: bytes, agent_id: str = "main", **more: Any) -> str:
        """The same, for an agent at rest: the tick that carries it."""
        assert await self.deliver(payload, agent_id, **more) is HintDisposition.TRIGGERED
        return (await self.messages(agent_id))[-1].id

    async def ask(self, text: str, agent_id: str | None = "main", **more: Any) -> MessageStatus:
        """The operator speaks, and the message is followed to its end."""
        return await self.settled(await self.say(text, agent_id, **more), agent_id)

    # Waiting

    async def until(self, look: Callable[[], Awaitable[T | None]], agent_id: str | None = "main") -> T:
        """Looks now and after every further event of the agent, until there is something."""
        newest = (await self.host.views.summary(agent_id, private=True)).newest_event_seq
        async with asyncio.timeout(DEADLINE_S):
            if found := await look():
                return found
            async with aclosing(self.host.events.follow(agent_id, newest, include_private=True)) as stream:  # type: ignore[type-var]
                async for _ in stream:
                    if found := await look():
                        return found
        raise AssertionError("the log ended")

    async def settled(self, message_id: str, agent_id: str | None = "main") -> MessageStatus:
        async def look() -> MessageStatus | None:
            status = await self.host.views.message(agent_id, message_id, private=True)
            return status if status.queue and status.queue.status in _FINAL else None

        return await self.until(look, agent_id)

    async def at_rest(self, agent_id: str | None = "main") -> AgentSummary:
        """Nothing runs, and nothing waits that could run."""

        async def look() -> AgentSummary | None:
            summary = await self.host.views.summary(agent_id, private=True)
            idle = summary.agent.current_run_id is None and summary.agent.status not in _BUSY
            return summary if idle and (summary.agent.pending == 0 or summary.lifecycle.resume_required) else None

        return await self.until(look, agent_id)

    async def event(self, kind: str, agent_id: str | None = "main", *, count: int = 1) -> EventEnvelope:
        """The so-manieth event of this kind, once it is there."""

        async def look() -> EventEnvelope | None:
            found = await self.events(kind, agent_id=agent_id)
            return found[count - 1] if len(found) >= count else None

        return await self.until(look, agent_id)

    # Looking

    async def events(self, *kinds: str, agent_id: str | None = "main", after: int = 0) -> list[EventEnvelope]:
        """The whole log, or those of its events that have one of these kinds."""
        found: list[EventEnvelope] = []
        while page := (
            await self.host.views.events(agent_id, EventQuery(after_seq=after, limit=512), private=True)
        ).events:
            found += page
            after = page[-1].event_seq
        return [event for event in found if not kinds or event.type in kinds]

    async def kinds(self, agent_id: str | None = "main", after: int = 0) -> list[str]:
        return [event.type for event in await self.events(agent_id=agent_id, after=after)]

    async def runtime_events(self, *kinds: str) -> list[dict[str, Any]]:
        found = await self.host.store.read(lambda tx: events.after(tx, "_runtime", 0, 1_000))
        return [event.payload for event in found if not kinds or event.kind in kinds]

    async def newest(self, agent_id: str | None = "main") -> int:
        return (await self.host.views.summary(agent_id, private=True)).newest_event_seq

    async def state(self, agent_id: str | None = "main") -> AgentState:
        return (await self.host.views.summary(agent_id, private=True)).agent

    async def status(self, agent_id: str | None = "main") -> AgentStatus:
        return (await self.state(agent_id)).status

    async def envelope(self, message_id: str, agent_id: str | None = "main") -> MessageEnvelope:
        return (await self.host.views.message(agent_id, message_id, private=True)).envelope

    async def waiting(self, agent_id: str = "main") -> list[MessageEnvelope]:
        found = await self.host.store.read(lambda tx: queue.waiting(tx, agent_id, limit=1_000))
        return [waits.envelope for waits in found]

    async def messages(self, agent_id: str = "main") -> list[MessageEnvelope]:
        """Every message that was ever admitted for the agent, in the order of admission."""
        ids = [event.provenance.message_id for event in await self.events("message_admitted", agent_id=agent_id)]
        found = await self.host.store.read(lambda tx: queue.messages(tx, [id_ for id_ in ids if id_]))
        return [found[id_] for id_ in ids if id_]

    async def briefs(self, agent_id: str | None = "main") -> list[Brief]:
        """Oldest first."""
        found = await self.host.views.briefs(agent_id, 500, private=True)
        return sorted(found, key=lambda brief: brief.id)

    async def transcript(self, *kinds: TranscriptKind, agent_id: str | None = "main") -> list[TranscriptEntry]:
        found = await self.host.views.transcript(agent_id, 500, private=True)
        return [entry for entry in found if not kinds or entry.kind in kinds]

    async def turns(self, agent_id: str = "main") -> list[Turn]:
        """Oldest first."""
        return (await self.host.store.read(lambda tx: turns.recent(tx, agent_id, 1_000)))[::-1]

    async def calls(self, turn_id: str) -> list[ToolCall]:
        return await self.host.store.read(lambda tx: turns.calls(tx, turn_id))

    async def hints(self, agent_id: str = "main") -> list[Any]:
        return await self.host.store.read(lambda tx: triggers.hints(tx, agent_id))

    async def tasks(self, agent_id: str = "main") -> list[Any]:
        return await self.host.store.read(lambda tx: tasks.of_agent(tx, agent_id))

    async def change(self, fn: Callable[[AgentState], AgentState], agent_id: str = "main") -> None:
        """Writes the agent's state as a test needs it to stand."""

        def step(tx: Any) -> None:
            stored = agents.get(tx, agent_id)
            assert stored is not None
            agents.save_state(tx, fn(stored.state))

        await self.host.store.write(step)
