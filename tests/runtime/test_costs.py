"""What calls cost: the ledger adds up, questions about it are answered by day, and money is a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holon.core.agents import AgentStatus
from holon.core.clock import ManualClock
from holon.core.errors import InvalidInput, UnknownAgent
from holon.core.ledger import CallRecord
from holon.core.limits import Limits
from holon.core.messages import QueueStatus
from holon.core.turns import TerminalKind
from holon.providers.models import ModelTable
from holon.providers.selection import Providers
from holon.runtime.host import Host
from holon.runtime.pricing import days
from holon.runtime.settings import load_settings
from holon.store import calls
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE, Living, Model
from twins import Twin

DAY_MS = 86_400_000
#: Three dollars a round: a million tokens in.
SCRIPT = """
rules:
  - when: {pattern: "^loop"}
    rounds: [ROUNDS]
  - when: {pattern: "^dear"}
    rounds: [{text: that was dear, usage: {input_tokens: 1000000, output_tokens: 0}}]
  - when: {pattern: "^work"}
    rounds:
      - {text: on it, tools: [{name: Note}], usage: {input_tokens: 1234, output_tokens: 56}}
      - {text: done, usage: {input_tokens: 2345, output_tokens: 67}}
""".replace(
    "ROUNDS", ", ".join("{tools: [{name: Note}], usage: {input_tokens: 1000000, output_tokens: 0}}" for _ in range(5))
)
PRICED = {"scripted/": {"prices": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}}}


async def ledger(life: Living, agent_id: str = "main") -> list[CallRecord]:
    return await life.host.store.read(lambda tx: calls.recent(tx, agent_id, 500))


@pytest.mark.parametrize("by", ["section", "agent", "model", "day"])
async def test_the_sums_of_the_ledger_are_the_sums_of_its_calls(living: Opens, clock: ManualClock, by: Any) -> None:
    life = await living(SCRIPT, tools=[NOTE], clock=clock, models=PRICED)
    await life.host.agents.create("second", surface=SURFACE)
    for day in range(3):
        for agent_id in ("main", "second"):
            await life.ask("work", agent_id)
        await life.ask(f"hello on day {day}")
        clock.move(DAY_MS)
    booked = [*await ledger(life), *await ledger(life, "second")]
    assert len(booked) == 15
    report = await life.host.pricing.costs(by)
    assert report.total.calls == 15
    assert report.total.fresh == sum(call.buckets.fresh for call in booked)
    assert report.total.output == sum(call.output for call in booked)
    assert report.total.dollars == pytest.approx(sum(call.nanodollars for call in booked) / 1e9, abs=1e-12)
    for field in ("fresh", "read", "written", "output"):
        assert sum(getattr(line, field) for line in report.lines) == getattr(report.total, field)
    # A section's share of a call is rounded to whole nanodollars, so that many parts may differ by a few.
    assert sum(line.dollars for line in report.lines) == pytest.approx(report.total.dollars, abs=1e-7)
    assert len(report.lines) == {"agent": 2, "model": 1, "day": 3}.get(by, len(report.lines))
    one = await life.host.pricing.costs(by, agent_id="second")
    assert one.total.dollars == pytest.approx(sum(call.nanodollars for call in await ledger(life, "second")) / 1e9)


async def test_a_call_costs_its_tokens_at_the_prices_of_its_model(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE], models=PRICED)
    await life.ask("work")
    assert [call.nanodollars for call in await ledger(life)] == [
        (2345 * 3 + 67 * 15) * 1000,
        (1234 * 3 + 56 * 15) * 1000,
    ]


async def test_days_are_inclusive_and_utc(living: Opens, clock: ManualClock) -> None:
    life = await living(SCRIPT, clock=clock, models=PRICED)  # the clock begins on 2026-01-01
    for _ in range(3):
        await life.ask("dear")
        clock.move(DAY_MS)
    report = await life.host.pricing.costs("day", since="2026-01-02", until="2026-01-03")
    assert [(line.key, line.dollars) for line in report.lines] == [("2026-01-02", 3.0), ("2026-01-03", 3.0)]
    clock.move(6 * DAY_MS)
    recent = await life.host.pricing.costs("day")
    assert (recent.since, recent.until) == ("2026-01-04", "2026-01-10")
    assert (recent.lines, recent.total.calls, recent.total.hit_coverage) == ([], 0, None)


@pytest.mark.parametrize(
    ("since", "until", "field"),
    [
        ("soon", None, "since"),
        ("2026-1-1", None, "since"),
        (None, "2026-02-30", "until"),
        ("2026-02-01", "2026-01-01", "since"),
    ],
)
def test_a_day_that_is_none_is_refused(since: str | None, until: str | None, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        days(0, since, until)
    assert refused.value.details["field"] == field


async def test_an_agent_that_never_was_is_named_and_one_that_is_archived_still_counts(living: Opens) -> None:
    life = await living(SCRIPT, models=PRICED)
    await life.host.agents.create("gone", surface=SURFACE)
    await life.ask("dear", "gone")
    await life.host.agents.archive("gone", "enough")
    assert (await life.host.pricing.costs(agent_id="gone")).total.dollars == 3.0
    with pytest.raises(UnknownAgent):
        await life.host.pricing.costs(agent_id="never")


async def test_a_model_without_prices_is_named_so_that_nobody_takes_it_for_free(living: Opens) -> None:
    life = await living(SCRIPT)
    assert (await life.host.pricing.costs()).unpriced_models == []
    await life.ask("hello")
    assert (await life.host.pricing.costs()).unpriced_models == [], "the scripted model is in the table, and free"
    life.host.providers._entries["odd"] = life.host.providers._entries["scripted"]
    await life.host.modelling.set("main", "odd/test", surface=SURFACE)
    await life.ask("hello")
    report = await life.host.pricing.costs()
    assert report.unpriced_models == ["odd/test"]
    assert report.total.fresh > 0


# Money as a limit


async def test_a_turn_ends_at_its_limit_of_money_and_says_what_to_do(living: Opens) -> None:
    life = await living(SCRIPT, tools=[NOTE], models=PRICED, limits=Limits(dollars_per_turn=5))
    status = await life.ask("loop")
    assert len(life.model.requests) == 2, "the second round passed five dollars, so there is no third"
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.kind is TerminalKind.ABORTED
    (event,) = await life.events("runtime_error")
    assert event.payload["failure_artifact"]["kind"] == "limit_reached"
    assert event.payload["failure_artifact"]["metadata"]["limit"] == "dollars_per_turn"
    assert "raise limits.dollars_per_turn" in event.payload["summary"]
    assert (await life.briefs())[-1].text == event.payload["summary"]


async def test_the_agents_daily_money_holds_it_until_tomorrow(living: Opens, clock: ManualClock) -> None:
    life = await living(SCRIPT, clock=clock, models=PRICED, limits=Limits(dollars_per_agent_day=5))
    await life.host.agents.create("other", surface=SURFACE)
    await life.ask("dear")
    await life.ask("dear")
    held = await life.say("dear")
    event = await life.event("limit_reached")
    assert (event.payload["limit"], event.payload["value"]) == ("dollars_per_agent_day", 5.0)
    assert "it goes on tomorrow (UTC); see 'holon cost'" in event.payload["advice"]
    state = await life.state()
    assert (state.status, state.held_by, state.pending) == (AgentStatus.ASLEEP, "dollars_per_agent_day", 1)
    assert (await life.ask("dear", "other")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    clock.move(DAY_MS)
    life.host.dispatcher.kick("main")
    assert (await life.settled(held)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    assert len(await life.events("limit_reached")) == 1
    assert (await life.host.pricing.costs("agent")).total.dollars == 12.0


async def test_the_daily_money_of_all_agents_holds_each_that_spends(living: Opens, clock: ManualClock) -> None:
    life = await living(SCRIPT, clock=clock, models=PRICED, limits=Limits(dollars_per_day=5))
    await life.host.agents.create("other", surface=SURFACE)
    await life.ask("dear")
    await life.ask("dear", "other")
    await life.say("dear")
    event = await life.event("limit_reached")
    assert (event.payload["limit"], event.payload["value"]) == ("dollars_per_day", 5.0)
    assert (await life.state()).pending == 1


async def test_the_daily_money_of_all_agents_holds_one_that_has_spent_nothing_yet(
    living: Opens, clock: ManualClock
) -> None:
    """Else a new agent would be a way around it. One whose model is free goes on."""
    free = {"prices": dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0.0)}
    models = {**PRICED, "scripted/echo": free}
    life = await living(SCRIPT, clock=clock, models=models, limits=Limits(dollars_per_day=5))
    for agent_id in ("other", "free"):
        await life.host.agents.create(agent_id, surface=SURFACE)
    await life.host.modelling.set("free", "scripted/echo", surface=SURFACE)
    await life.ask("dear")
    await life.ask("dear")
    await life.say("dear", "other")
    assert (await life.event("limit_reached", "other")).payload["limit"] == "dollars_per_day"
    assert (await life.ask("hello", "free")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


# How well caches serve, on the rules of a real provider


@asynccontextmanager
async def with_anthropic(home: Path, twin: Twin) -> AsyncIterator[Living]:
    settings = load_settings(home, {}, model_default="anthropic/claude-opus-5", http_port=0)
    providers = Providers.from_configuration(
        home,
        {"anthropic": {"base_url": twin.anthropic_url}},
        {"ANTHROPIC_API_KEY": "twin-test"},
        models=ModelTable(settings.models),
    )
    async with await Host.open(settings, purpose="test", providers=providers) as host:
        life = Living(host, Model("rules: []", home))
        await providers.warm([settings.model_default])  # loading the SDK takes longer than the turns of a test
        await life.at_rest()
        yield life


@pytest.mark.spec("CA-077", "CA-078")
async def test_a_session_on_the_rules_of_anthropic_reads_what_it_sent_and_writes_little(tmp_path: Path) -> None:
    turns = 8
    async with Twin.start() as twin, with_anthropic(tmp_path, twin) as life:
        for number in range(turns):
            await life.ask(f"question {number}: " + "how so? " * 150)
        (line,) = (await life.host.pricing.cache_effectiveness()).models
        report = await life.host.pricing.costs()
        bill = twin.bill_total()
    assert (line.model, line.call_count) == ("anthropic/claude-opus-5", turns)
    total = line.uncached_input_tokens + line.cached_input_tokens + line.cache_creation_input_tokens
    assert line.hit_rate is not None
    assert line.hit_rate == line.cached_input_tokens / total > 0.5
    assert line.cache_write_share is not None
    assert line.cache_write_share == line.cache_creation_input_tokens / total <= 2 / (turns + 1)
    assert (bill.fresh, bill.read, bill.written) == (
        line.uncached_input_tokens,
        line.cached_input_tokens,
        line.cache_creation_input_tokens,
    )
    assert report.total.hit_coverage == line.hit_rate
    assert report.total.dollars == pytest.approx(float(bill.dollars), abs=1e-9)


async def test_what_was_read_and_written_is_seen_in_the_parts_of_the_prompt(tmp_path: Path) -> None:
    async with Twin.start() as twin, with_anthropic(tmp_path, twin) as life:
        await life.ask("hello " * 300)
        await life.ask("again " * 300)
        first = await life.host.inspection.prompt("main", call=1)
        second = await life.host.inspection.prompt("main", call=2)
        upcoming = await life.host.inspection.prompt("main")
    assert {section.cache for section in first.sections} == {"written"}
    head = [block for block in second.blocks if block.stability != "turn_scoped"]
    assert {block.cache for block in head} == {"read"}
    assert second.blocks[-1].cache == "written"
    assert second.call is not None
    assert second.call.hit_coverage is not None
    assert second.call.hit_coverage > 0.5
    assert upcoming.blocks[-2].cache == "read", "what the last call sent is expected to be read"
