"""Timers: made, cancelled and fired in transactions. Cancelling one voids the ticks of it that still wait."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holon.core.agents import AgentStatus
from holon.core.clock import iso, moment, to_ms
from holon.core.codec import Input, dumps, loads
from holon.core.errors import Conflict, InvalidInput, NotFound
from holon.core.event_kinds import MessageDropped, TimerCancelled, TimerCreated, TimerFired
from holon.core.ids import new_id
from holon.core.limits import Limits
from holon.core.messages import (
    AdmissionContext,
    DeliverySurface,
    MessageKind,
    QueueStatus,
    TextBody,
    TimerOrigin,
)
from holon.core.timers import Timer, TimerStatus, next_fire_ms
from holon.core.transitions import Transition
from holon.runtime.admission import Admission, admit, require_agent
from holon.store import Store, Tx, agents, idempotency, queue, timers
from holon.store.idempotency import Answer

MAX_MS = 10 * 365 * 24 * 3_600_000
MIN_INTERVAL_MS = 100


class TimerRequest(Input, frozen=True, kw_only=True):
    duration_ms: int
    interval_ms: int | None = None
    summary: str | None = None


class Timers:
    def __init__(self, store: Store, default_agent_id: str, changed: Callable[[], None], limits: Limits) -> None:
        self._store, self._default, self._changed, self._limits = store, default_agent_id, changed, limits

    async def create(
        self, agent_id: str | None, request: TimerRequest, *, surface: str, idempotency_key: str | None = None
    ) -> Answer[Timer]:
        """A control-plane change: an audit event, no message."""
        target = agent_id or self._default
        _check(request)
        answer = await self._store.write(
            lambda tx: _create(tx, target, request, idempotency_key), at=Transition.TIMER_CREATE
        )
        self._changed()
        return answer

    async def cancel(self, agent_id: str | None, timer_id: str, *, surface: str) -> Timer:
        target = agent_id or self._default
        return await self._store.write(lambda tx: _cancel(tx, target, timer_id), at=Transition.TIMER_CANCEL)

    async def listing(self, agent_id: str | None, limit: int = 50) -> list[Timer]:
        target = agent_id or self._default

        def look(tx: Tx) -> list[Timer]:
            require_agent(tx, target)
            return timers.of_agent(tx, target, limit=limit)

        return await self._store.read(look)


def fire_due(tx: Tx, limits: Limits) -> list[str]:
    """Fires all timers that are due; the agents that got a tick. A tick that still waits is not doubled."""
    woken = []
    for timer in timers.due(tx, tx.now_ms):
        if _fire(tx, timer, limits):
            woken.append(timer.agent_id)
    return woken


def _fire(tx: Tx, timer: Timer, limits: Limits) -> bool:
    stored = agents.get(tx, timer.agent_id)
    assert timer.next_fire_at is not None
    due_ms = to_ms(timer.next_fire_at)
    missed, following = 0, None
    if timer.interval_ms is not None:
        following, missed = next_fire_ms(due_ms, timer.interval_ms, tx.now_ms)
    key = f"timer:{timer.id}"
    runnable = stored is not None and stored.state.status is not AgentStatus.STOPPED
    queued = runnable and not queue.waiting_from(tx, key)
    timer = msgspec.structs.replace(
        timer,
        status=TimerStatus.ACTIVE if following else TimerStatus.COMPLETED,
        next_fire_at=moment(following) if following else None,
        last_fired_at=moment(tx.now_ms),
        fire_count=timer.fire_count + 1,
        coalesced_count=timer.coalesced_count + missed + (not queued),
    )
    timers.save(tx, timer)
    if queued:
        admit(
            tx,
            timer.agent_id,
            Admission(
                agent_id=timer.agent_id,
                kind=MessageKind.TIMER_TICK,
                origin=TimerOrigin(timer_id=timer.id),
                body=TextBody(text=timer.summary or f"Timer {timer.id} fired."),
                surface=DeliverySurface.TIMER_SCHEDULER,
                context=AdmissionContext.RUNTIME_OWNED,
                metadata={"fire_count": timer.fire_count, "missed": missed} if missed else None,
                correlation_id=timer.id,
                source_key=key,
                private=True,
            ),
            limits,
        )
    tx.emit(
        timer.agent_id,
        TimerFired(timer_id=timer.id, fire_count=timer.fire_count, coalesced=missed, tick_queued=bool(queued)),
    )
    return bool(queued)


def _create(tx: Tx, agent_id: str, request: TimerRequest, key: str | None) -> Answer[Timer]:
    require_agent(tx, agent_id, private=True)
    print_ = idempotency.fingerprint(request)
    if key and (first := idempotency.seen(tx, f"timer/{agent_id}", key, print_)):
        return Answer(loads(first, Timer), replayed=True)
    fire_at = tx.now_ms + request.duration_ms
    timer = Timer(
        id=new_id("timer", tx.now_ms),
        agent_id=agent_id,
        created_at=moment(tx.now_ms),
        duration_ms=request.duration_ms,
        interval_ms=request.interval_ms,
        summary=request.summary,
        status=TimerStatus.ACTIVE,
        next_fire_at=moment(fire_at),
    )
    timers.save(tx, timer)
    tx.emit(
        agent_id,
        TimerCreated(
            timer_id=timer.id, next_fire_at=iso(fire_at), interval_ms=timer.interval_ms, summary=timer.summary
        ),
    )
    if key:
        idempotency.remember(tx, f"timer/{agent_id}", key, print_, dumps(timer))
    return Answer(timer)


def _cancel(tx: Tx, agent_id: str, timer_id: str) -> Timer:
    require_agent(tx, agent_id, private=True)
    timer = timers.get(tx, timer_id)
    if timer is None or timer.agent_id != agent_id:
        raise NotFound(
            f"agent {agent_id!r} has no timer {timer_id!r}", hint=f"see 'holon timer list --agent {agent_id}'"
        )
    if timer.status is TimerStatus.CANCELLED:
        return timer
    voided = 0
    for message_id in queue.waiting_from(tx, f"timer:{timer_id}"):
        if queue.take_waiting(tx, agent_id, message_id, QueueStatus.DROPPED):
            tx.emit(agent_id, MessageDropped(reason=f"timer {timer_id} was cancelled"), message_id=message_id)
            voided += 1
    if timer.status is TimerStatus.COMPLETED and not voided:
        raise Conflict(f"timer {timer_id!r} has fired already", hint="make a new one if you need it again")
    timer = msgspec.structs.replace(timer, status=TimerStatus.CANCELLED, next_fire_at=None)
    timers.save(tx, timer)
    tx.emit(agent_id, TimerCancelled(timer_id=timer_id, voided_ticks=voided))
    return timer


def _check(request: TimerRequest) -> None:
    if not 0 < request.duration_ms <= MAX_MS:
        raise InvalidInput(
            "duration_ms must be between 1 ms and 10 years",
            hint="write how many milliseconds from now, like 60000 for a minute",
            field="duration_ms",
        )
    if request.interval_ms is not None and not MIN_INTERVAL_MS <= request.interval_ms <= MAX_MS:
        raise InvalidInput(
            f"interval_ms must be between {MIN_INTERVAL_MS} ms and 10 years",
            hint="write how many milliseconds lie between two fires, or leave it out for one fire",
            field="interval_ms",
        )
    if request.summary is not None and len(request.summary) > 2_000:
        raise InvalidInput("summary has at most 2,000 characters", hint="say it shorter", field="summary")
