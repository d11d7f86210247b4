"""Timers: what fires, how often, and what does not fire any more."""

from __future__ import annotations

import asyncio

import pytest

from holon.core.agents import AgentStatus
from holon.core.clock import ManualClock, moment
from holon.core.errors import Conflict, IdempotencyMismatch, InvalidInput, NotFound
from holon.core.messages import (
    AdmissionContext,
    AuthorityClass,
    DeliverySurface,
    MessageEnvelope,
    MessageKind,
    QueueStatus,
    TimerOrigin,
    Trust,
)
from holon.core.timers import Timer, TimerStatus
from holon.runtime.timers import MAX_MS, MIN_INTERVAL_MS, TimerRequest
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living

HOUR = 3_600_000


async def timer(
    life: Living, duration_ms: int = 1_000, interval_ms: int | None = None, agent_id: str = "main"
) -> Timer:
    request = TimerRequest(duration_ms=duration_ms, interval_ms=interval_ms, summary="look at the build")
    return (await life.host.timers.create(agent_id, request, surface=SURFACE)).value


async def stored(life: Living, timer_id: str) -> Timer:
    return next(found for found in await life.host.timers.listing("main") if found.id == timer_id)


async def fire(life: Living, clock: ManualClock, by_ms: int) -> None:
    clock.move(by_ms)
    await life.host.pulse.fire()


async def ticks(life: Living) -> list[MessageEnvelope]:
    return [envelope for envelope in await life.messages() if envelope.kind is MessageKind.TIMER_TICK]


@pytest.mark.spec("RT-010", "RT-024", "RT-135")
async def test_a_timer_that_comes_due_is_one_tick_of_its_own_origin(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    made = await timer(life, 1_000)
    assert made == Timer(
        id=made.id,
        agent_id="main",
        created_at=moment(clock.now_ms()),
        duration_ms=1_000,
        status=TimerStatus.ACTIVE,
        summary="look at the build",
        next_fire_at=moment(clock.now_ms() + 1_000),
    )
    assert await life.messages() == [], "making a timer queues nothing"
    assert [event.payload["timer_id"] for event in await life.events("timer_created")] == [made.id]
    await fire(life, clock, 999)
    assert await life.messages() == []
    await fire(life, clock, 1)
    await life.at_rest()
    (tick,) = await life.messages()
    assert (tick.kind, tick.origin, tick.text) == (
        MessageKind.TIMER_TICK,
        TimerOrigin(timer_id=made.id),
        "look at the build",
    )
    assert (tick.trust, tick.authority_class) == (Trust.TRUSTED_SYSTEM, AuthorityClass.RUNTIME_INSTRUCTION)
    assert (tick.delivery_surface, tick.admission_context) == (
        DeliverySurface.TIMER_SCHEDULER,
        AdmissionContext.RUNTIME_OWNED,
    )
    assert tick.source_refs == {"timer_id": made.id}
    assert len(await life.turns()) == 1
    done = await stored(life, made.id)
    assert (done.status, done.fire_count, done.next_fire_at) == (TimerStatus.COMPLETED, 1, None)
    await fire(life, clock, HOUR)
    assert len(await life.messages()) == 1, "once is once"


@pytest.mark.spec("RT-135")
async def test_an_interval_fires_on_its_own_grid(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    begun = clock.now_ms()
    made = await timer(life, 500, 2_000)
    await fire(life, clock, 500)
    await life.at_rest()
    await fire(life, clock, 2_300)  # 300 ms late
    await life.at_rest()
    found = await stored(life, made.id)
    assert (found.fire_count, found.coalesced_count, found.status) == (2, 0, TimerStatus.ACTIVE)
    assert found.next_fire_at == moment(begun + 4_500), "late once is not late for ever"
    assert len(await life.turns()) == 2


async def test_without_a_moved_clock_the_pulse_fires_by_itself(living: Opens) -> None:
    life = await living()
    await timer(life, 20)
    await life.event("turn_terminal")
    assert len(await ticks(life)) == 1


async def test_ticks_that_cannot_be_worked_off_fall_together(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    made = await timer(life, 1_000, 1_000)
    await life.host.lifecycle.pause("main", SURFACE)
    for _ in range(5):
        await fire(life, clock, 1_000)
    assert len(await life.waiting()) == 1
    found = await stored(life, made.id)
    assert (found.fire_count, found.coalesced_count) == (5, 4)
    assert [event.payload.get("tick_queued", True) for event in await life.events("timer_fired")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    assert len(await life.turns()) == 1, "no backlog"


async def test_what_was_missed_while_the_host_was_down_is_one_tick(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    made = await timer(life, 1_000, 1_000)
    await life.close()
    clock.move(100 * 1_000 + 250)
    life = await living(clock=clock, booted=False)
    await life.event("turn_terminal")
    await life.at_rest()
    (tick,) = await ticks(life)
    assert tick.metadata == {"fire_count": 1, "missed": 99}
    found = await stored(life, made.id)
    assert (found.fire_count, found.coalesced_count) == (1, 99)
    assert found.next_fire_at == moment(clock.now_ms() + 750)


async def test_a_clock_that_jumps_ahead_by_a_year_costs_one_tick(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    made = await timer(life, HOUR, HOUR)
    await fire(life, clock, 365 * 24 * HOUR)
    await life.at_rest()
    await life.host.pulse.fire()
    assert len(await ticks(life)) == 1
    assert (await stored(life, made.id)).coalesced_count == 365 * 24 - 1


async def test_a_clock_that_is_set_back_fires_nothing_early_and_nothing_twice(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    made = await timer(life, HOUR, HOUR)
    await fire(life, clock, HOUR)
    await life.at_rest()
    await fire(life, clock, -30 * 60_000)
    await fire(life, clock, 30 * 60_000)
    assert len(await ticks(life)) == 1
    await fire(life, clock, HOUR)
    await life.at_rest()
    assert len(await ticks(life)) == 2
    assert (await stored(life, made.id)).coalesced_count == 0


async def test_a_cancelled_timer_voids_the_tick_that_still_waits(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    made = await timer(life, 1_000, 1_000)
    await life.host.lifecycle.pause("main", SURFACE)
    await fire(life, clock, 1_000)
    (tick,) = await life.waiting()
    cancelled = await life.host.timers.cancel("main", made.id, surface=SURFACE)
    assert (cancelled.status, cancelled.next_fire_at) == (TimerStatus.CANCELLED, None)
    assert await life.host.timers.cancel("main", made.id, surface=SURFACE) == cancelled, "once more changes nothing"
    assert (await life.settled(tick.id)).queue.status is QueueStatus.DROPPED  # type: ignore[union-attr]
    assert (await life.state()).pending == 0
    (event,) = await life.events("timer_cancelled")
    assert event.payload == {"timer_id": made.id, "voided_ticks": 1}
    await fire(life, clock, HOUR)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    assert life.model.requests == []


async def test_the_tick_of_a_timer_that_fired_once_can_be_voided_until_it_is_taken(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    once = await timer(life, 1_000)
    await life.host.lifecycle.pause("main", SURFACE)
    await fire(life, clock, 1_000)
    assert (await stored(life, once.id)).status is TimerStatus.COMPLETED
    assert (await life.host.timers.cancel("main", once.id, surface=SURFACE)).status is TimerStatus.CANCELLED
    assert await life.waiting() == []
    done = await timer(life, 1_000)
    await life.host.lifecycle.resume("main", SURFACE)
    await fire(life, clock, 1_000)
    await life.at_rest()
    with pytest.raises(Conflict, match="has fired already"):
        await life.host.timers.cancel("main", done.id, surface=SURFACE)


@pytest.mark.spec("RT-113")
async def test_a_tick_that_was_taken_before_its_timer_was_cancelled_is_worked_off(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    made = await timer(life, 1_000, 1_000)
    life.model.hold()
    await fire(life, clock, 1_000)
    await life.model.asked()
    await life.host.timers.cancel("main", made.id, surface=SURFACE)
    life.model.release()
    await life.at_rest()
    (turn,) = await life.turns()
    assert turn.terminal is not None
    assert turn.terminal.kind == "completed"


async def test_a_stopped_agent_gets_no_ticks_and_is_ticked_again_after_resume(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    made = await timer(life, 1_000, 1_000)
    await life.host.lifecycle.stop("main", SURFACE)
    await fire(life, clock, 3_000)
    assert await life.status() is AgentStatus.STOPPED
    assert await ticks(life) == []
    assert (await stored(life, made.id)).status is TimerStatus.ACTIVE
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    await fire(life, clock, 1_000)
    await life.at_rest()
    assert len(await ticks(life)) == 1


async def test_timers_are_listed_newest_first_and_belong_to_one_agent(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    await life.host.agents.create("other", surface=SURFACE)
    mine = [await timer(life) for _ in range(3)]
    theirs = await timer(life, agent_id="other")
    assert await life.host.timers.listing("main") == mine[::-1]
    assert await life.host.timers.listing("main", limit=1) == mine[-1:]
    for agent_id, timer_id in (("main", theirs.id), ("main", "timer_nope")):
        with pytest.raises(NotFound, match="has no timer"):
            await life.host.timers.cancel(agent_id, timer_id, surface=SURFACE)
    assert (await life.host.views.summary()).active_timer_count == 3


async def test_a_timer_asked_for_again_under_its_key_is_made_once_whatever_the_clock_says(
    living: Opens, clock: ManualClock
) -> None:
    life = await living(clock=clock)
    request = TimerRequest(duration_ms=HOUR)
    made = await life.host.timers.create("main", request, surface=SURFACE, idempotency_key="k")
    assert not made.replayed
    for move in (0, 5, -1_000):
        clock.move(move)
        again = await life.host.timers.create("main", request, surface=SURFACE, idempotency_key="k")
        assert again == (made.value, True)
    with pytest.raises(IdempotencyMismatch):
        await life.host.timers.create("main", TimerRequest(duration_ms=1), surface=SURFACE, idempotency_key="k")
    assert await life.host.timers.listing("main") == [made.value]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (TimerRequest(duration_ms=0), "duration_ms"),
        (TimerRequest(duration_ms=-1), "duration_ms"),
        (TimerRequest(duration_ms=MAX_MS + 1), "duration_ms"),
        (TimerRequest(duration_ms=1, interval_ms=MIN_INTERVAL_MS - 1), "interval_ms"),
        (TimerRequest(duration_ms=1, interval_ms=MAX_MS + 1), "interval_ms"),
        (TimerRequest(duration_ms=1, summary="x" * 2_001), "summary"),
    ],
)
async def test_a_timer_that_makes_no_sense_is_refused(living: Opens, request_: TimerRequest, field: str) -> None:
    life = await living(booted=False)
    with pytest.raises(InvalidInput) as refused:
        await life.host.timers.create("main", request_, surface=SURFACE)
    assert refused.value.details == {"field": field}
    assert await life.host.timers.listing("main") == []


async def test_more_timers_than_one_look_takes_all_fire(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    await life.host.lifecycle.pause("main", SURFACE)
    await asyncio.gather(*(timer(life) for _ in range(300)))
    clock.move(1_000)
    while await life.host.pulse.fire() == 0.0:
        pass
    await life.event("timer_fired", count=300)
    assert len(await life.waiting()) == 300


async def test_a_host_closes_although_a_timer_was_made_in_the_same_breath(living: Opens) -> None:
    life = await living()
    await timer(life, HOUR)
    async with asyncio.timeout(5):
        await life.close()
