"""Run once: one prompt, followed until the agent rests. `holon run` is this, in its own process or through a daemon.

A run only watches: the agent works as it always does, and goes on if nobody watches any more. What bounds it
(`max_turns`) travels with its message, so that the limit holds whoever watches, and over a restart too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from holon.core.agents import AgentState, AgentStatus, RegistryStatus
from holon.core.codec import Input, dumps, loads, to_plain
from holon.core.errors import AgentArchived, AgentExists, Conflict, HolonError, InvalidInput, UnknownAgent
from holon.core.event_kinds import MessageDropped
from holon.core.events import EventEnvelope
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    OperatorOrigin,
    QueueStatus,
    TextBody,
)
from holon.core.tasks import TaskKind
from holon.core.transitions import Transition
from holon.core.values import Value
from holon.providers.selection import ModelRef
from holon.runtime.admission import Admission, admit, check, require_agent
from holon.runtime.archiving import archive
from holon.runtime.host import Host
from holon.runtime.run_results import FinalStatus, RunResult, RunTicket, RunWatch, is_held, result_of, work_of
from holon.runtime.standing import held
from holon.store import Tx, agents, idempotency, queue, tasks
from holon.store.agents import StoredAgent
from holon.workspaces import anchors

SURFACE = "run_once"
#: How long a silence lasts before the run looks for itself whether it is over: a hold may stand without an event.
LOOK_S = 0.25


class RunRequest(Input, frozen=True, kw_only=True):
    """What to do, by whom, and how far. Without an agent the run gets a private one of its own."""

    text: str
    agent_id: str | None = None
    create_agent: bool = False
    #: The run is over after so many turns. What the agent queued for itself by then waits for news from outside.
    max_turns: Annotated[int, msgspec.Meta(ge=1)] | None = None
    model: str | None = None
    #: A folder or repository on this machine, in which the agent works from then on.
    workspace: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    #: What an agent that is made for the run begins with.
    template: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    #: The run is over when what it started in the background is over too, and the agent has seen what came of it.
    wait_for_tasks: bool = True


async def run_once(
    host: Host, request: RunRequest, on_event: Callable[[EventEnvelope], None] | None = None
) -> RunResult:
    """Admits the prompt and waits until the agent has settled it and rests."""
    run = await begin_run(host, request)
    async with contextlib.aclosing(run.steps()) as steps:
        async for step in steps:
            if isinstance(step, RunResult):
                return step
            if on_event is not None:
                on_event(step)
    raise Conflict("the runtime ended before the run did", hint="the turn is taken up again when Holon next runs")


async def begin_run(
    host: Host,
    request: RunRequest,
    *,
    context: AdmissionContext = AdmissionContext.LOCAL_PROCESS,
    idempotency_key: str | None = None,
) -> Run:
    """Admits the prompt, or refuses it at once. Asked again under its key, it is the run that began then."""
    _check(request, idempotency_key)
    key = _Key(idempotency_key, idempotency.fingerprint(to_plain(request))) if idempotency_key else None
    if key and (first := await host.store.read(key.ticket)):
        return Run(host, request, first, key, replayed=True)
    if request.workspace is not None:
        anchors.detect(request.workspace)
    admission = Admission(
        agent_id=request.agent_id,
        kind=MessageKind.OPERATOR_PROMPT,
        origin=OperatorOrigin(),
        body=TextBody(text=request.text),
        surface=DeliverySurface.RUN_ONCE,
        context=context,
        metadata=_metadata(request),
        private=True,
    )
    check(admission, host.settings.limits)  # as much as can be refused is refused before an agent is made for it
    agent_id = await _agent_for(host, request)
    try:
        if request.workspace is not None:
            await host.housing.enter(agent_id, Path(request.workspace), surface=SURFACE)
        ticket, replayed = await _admit_run(host, request, admission, agent_id, key)
    except BaseException:  # a caller that goes away, too: then the message may be in already, and the agent keeps it
        if request.agent_id is None:
            with contextlib.suppress(HolonError):  # what was refused is told, not what comes of it
                await asyncio.shield(_withdraw(host, agent_id))
        raise
    if ticket.agent_id != agent_id and request.agent_id is None:
        await _withdraw(host, agent_id)  # the same request came twice at once, and the other one was faster
    host.dispatcher.kick(ticket.agent_id)
    return Run(host, request, ticket, key, replayed=replayed)


async def _admit_run(
    host: Host, request: RunRequest, admission: Admission, agent_id: str, key: _Key | None
) -> tuple[RunTicket, bool]:
    """The ticket, and whether it was there already."""

    def step(tx: Tx) -> tuple[RunTicket, bool]:
        if key and (first := key.ticket(tx)):
            return first, True
        before = require_agent(tx, agent_id, private=True)
        _refuse_paused(before)
        admitted = admit(tx, agent_id, admission, host.settings.limits)
        ticket = RunTicket(
            agent_id=agent_id,
            message_id=admitted.message_id,
            after_seq=before.counters.event_seq,
            message_count=before.state.total_message_count,
            input_tokens=before.state.total_input_tokens,
            output_tokens=before.state.total_output_tokens,
            model_rounds=before.state.total_model_rounds,
            temporary=request.agent_id is None,
        )
        if key:
            key.keep(tx, ticket)
        return ticket, False

    return await host.store.write(step, at=Transition.MESSAGE_ADMIT)


async def _withdraw(host: Host, agent_id: str) -> None:
    """Archives the temporary agent of a run that did not come about: one that no message ever came for."""

    def step(tx: Tx) -> None:
        stored = agents.get(tx, agent_id)
        if stored is not None and stored.counters.queue_seq == 0:
            agents.save_state(tx, archive(tx, stored.state, "its run was refused"))

    await host.store.write(step, at=Transition.AGENT_ARCHIVE)


class Run:
    """One run, from its admission to its result."""

    def __init__(
        self, host: Host, request: RunRequest, ticket: RunTicket, key: _Key | None, *, replayed: bool = False
    ) -> None:
        self._host, self._request, self._key = host, request, key
        self.ticket, self.replayed = ticket, replayed

    async def steps(self) -> AsyncGenerator[EventEnvelope | RunResult, None]:
        """The agent's events since the admission, and at last the result. Without one if the runtime ended before."""
        if self._key and (known := await self._host.store.read(self._key.result)):
            yield known
            return
        ticket, watch = self.ticket, RunWatch(self.ticket.message_id)
        followed = self._host.events.follow(ticket.agent_id, ticket.after_seq, include_private=True)
        async with contextlib.aclosing(_with_pauses(followed)) as stream:
            async for event in stream:
                if event is not None:
                    watch.note(event)
                    yield event
                if not watch.may_be_over and event is not None:
                    continue
                if await self._give_up(watch) or await self._is_over(watch):
                    break
            else:
                return
        yield await self._finish(watch)

    async def _is_over(self, watch: RunWatch) -> bool:
        ticket, working = self.ticket, self.ticket.agent_id in self._host.dispatcher.working
        stored = await self._host.store.read(lambda tx: agents.get(tx, ticket.agent_id))
        if stored is None:
            return True
        if stored.identity.status is RegistryStatus.ARCHIVED:  # whoever watched this run too was faster
            return watch.seen >= stored.counters.event_seq
        state = stored.state
        if state.current_run_id is not None or watch.seen < stored.counters.event_seq:
            return False
        if watch.settled and stored.counters.pending == 0:
            busy = state.status in (AgentStatus.AWAKE_IDLE, AgentStatus.BOOTING)
            return not busy and (held(state) or not self._awaits_tasks(watch, state))
        # A hold that was there before may be about to end: it counts once it was announced, or nobody works on it.
        return held(state) or (is_held(state) and (watch.held or not working))

    def _awaits_tasks(self, watch: RunWatch, state: AgentState) -> bool:
        """A task is active until its result waits in the queue. With all turns used up, nothing would come of it."""
        if not self._request.wait_for_tasks or (state.run_budget is not None and state.run_budget.left == 0):
            return False
        return not watch.task_ids.keys().isdisjoint(state.active_task_ids)

    async def _give_up(self, watch: RunWatch) -> bool:
        """Takes the message back if other messages took all the turns before its own came."""
        limit = self._request.max_turns
        if limit is None or watch.begun or watch.settled or watch.turns_started <= limit:
            return False
        ticket = self.ticket

        def step(tx: Tx) -> bool:
            taken = queue.take_waiting(tx, ticket.agent_id, ticket.message_id, QueueStatus.DROPPED)
            if taken:
                reason = f"its run was given {limit} turns, and others took them"
                tx.emit(ticket.agent_id, MessageDropped(reason=reason), message_id=ticket.message_id)
            return bool(taken)

        watch.gave_up = await self._host.store.write(step, at=Transition.AGENT_CONTROL)
        return watch.gave_up

    async def _finish(self, watch: RunWatch) -> RunResult:
        ticket, host = self.ticket, self._host
        if self._key and (known := await host.store.read(self._key.result)):
            return known
        after = await host.views.summary(ticket.agent_id, private=True)
        result = result_of(ticket, after, watch, await host.store.read(lambda tx: work_of(tx, watch)))

        def step(tx: Tx) -> None:
            stored = agents.get(tx, ticket.agent_id)
            kept = result.final_status is FinalStatus.MAX_TURNS_EXCEEDED
            if stored is not None and stored.state.run_budget is not None and not kept:
                agents.save_state(tx, msgspec.structs.replace(stored.state, run_budget=None))
            if self._key:
                self._key.keep_result(tx, result)

        if self._key or after.agent.run_budget is not None:
            await host.store.write(step, at=Transition.AGENT_CONTROL)
        if ticket.temporary and result.final_status is not FinalStatus.WAITING:
            await self._retire()
        return result

    async def _retire(self) -> None:
        """A temporary agent ends with its run, and with it whatever it still has under way."""
        host, agent_id = self._host, self.ticket.agent_id
        for task in await host.store.read(lambda tx: tasks.live(tx, agent_id)):
            if task.kind is TaskKind.CHILD_AGENT_TASK:
                await host.overseer.stop_child(task)
        with contextlib.suppress(AgentArchived):
            await host.agents.archive(agent_id, "its run is over")
        await host.isolation.quieten(agent_id)


class _Key(Value, frozen=True):
    """A caller's idempotency key: what began under it, and how that ended."""

    text: str
    fingerprint: str

    def ticket(self, tx: Tx) -> RunTicket | None:
        first = idempotency.seen(tx, "run", self.text, self.fingerprint)
        return loads(first, RunTicket) if first else None

    def result(self, tx: Tx) -> RunResult | None:
        first = idempotency.seen(tx, "run_result", self.text, self.fingerprint)
        return loads(first, RunResult) if first else None

    def keep(self, tx: Tx, ticket: RunTicket) -> None:
        idempotency.remember(tx, "run", self.text, self.fingerprint, dumps(ticket))

    def keep_result(self, tx: Tx, result: RunResult) -> None:
        if self.result(tx) is None:
            idempotency.remember(tx, "run_result", self.text, self.fingerprint, dumps(result))


def _check(request: RunRequest, key: str | None) -> None:
    if request.max_turns is not None and request.max_turns < 1:
        raise InvalidInput(
            "max_turns must be at least 1", hint="leave it out for a run without such an end", field="max_turns"
        )
    if request.agent_id == "":
        raise InvalidInput(
            "the agent's id is empty", hint="name an agent, or leave agent_id (--agent) out", field="agent_id"
        )
    if request.model is not None:
        ModelRef.parse(request.model)
    if request.create_agent and request.agent_id is None:
        raise InvalidInput("create_agent needs the agent's id", hint="add agent_id, or leave it out", field="agent_id")
    if request.template is not None and not request.create_agent:
        raise InvalidInput(
            "a template is for an agent that is made", hint="add create_agent (--create-agent)", field="template"
        )
    if not request.wait_for_tasks and request.agent_id is None:
        raise InvalidInput(
            "a temporary agent ends with its run, and its tasks with it",
            hint="name an agent (--agent NAME) to leave tasks behind",
            field="wait_for_tasks",
        )
    idempotency.check_key(key)


def _metadata(request: RunRequest) -> dict[str, Any] | None:
    given = {"model": request.model, "max_turns": request.max_turns}
    return {name: value for name, value in given.items() if value is not None} or None


async def _agent_for(host: Host, request: RunRequest) -> str:
    if request.agent_id is None:
        return (await host.agents.create_temporary(surface=SURFACE)).agent_id
    try:
        return (await host.views.summary(request.agent_id)).identity.agent_id
    except UnknownAgent as error:
        if not request.create_agent:
            raise UnknownAgent(
                error.message, hint=f"add --create-agent, or run 'holon agent create {request.agent_id}'"
            ) from error
    with contextlib.suppress(AgentExists):  # somebody may be faster
        await host.agents.create(request.agent_id, surface=SURFACE, template=request.template)
    return request.agent_id


def _refuse_paused(stored: StoredAgent) -> None:
    """A run waits for its result: one that also waits for an operator would never end. `admit` refuses the stopped."""
    if stored.state.status is AgentStatus.PAUSED:
        agent_id = stored.identity.agent_id
        raise Conflict(f"agent {agent_id!r} is paused", hint=f"run 'holon agent resume {agent_id}'")


async def _with_pauses(events: AsyncIterator[EventEnvelope]) -> AsyncGenerator[EventEnvelope | None, None]:
    """The events, and `None` in every silence."""
    upcoming = asyncio.ensure_future(anext(events))
    try:
        while True:
            await asyncio.wait({upcoming}, timeout=LOOK_S)
            if not upcoming.done():
                yield None
                continue
            try:
                event = upcoming.result()
            except StopAsyncIteration:
                return
            upcoming = asyncio.ensure_future(anext(events))
            yield event
    finally:
        upcoming.cancel()
        await asyncio.wait({upcoming})
        if isinstance(events, AsyncGenerator):
            await events.aclose()
