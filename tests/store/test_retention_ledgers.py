"""Retention of ledgers: loads are summed up, sums have an end, and temporary agents go or stay as a whole."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holon.core.agents import AgentKind, RegistryStatus, Visibility
from holon.core.clock import ManualClock, moment
from holon.core.ids import new_id
from holon.core.ledger import CallRecord
from holon.core.models import Prices
from holon.core.retention import RetentionPolicy
from holon.core.skills import LoadedThing, LoadReason, LoadRecord, SkillActivation
from holon.core.tasks import TaskRecord, TaskStatus
from holon.store import Store, Tx, activations, agents, calls, loads, retention, retirement, tasks, turns
from tests.core.samples import full, identity, state
from tests.store.calls import read, write
from tests.store.lives import DAY_MS, begin, counts, everything, live
from tests.store.test_plans import Recorder
from tests.store.test_retention import apply, plan, rows

TABLES_OF_AN_AGENT = (
    "agents", "counters", "events", "transcript", "briefs", "messages", "queue", "turns", "tool_calls",
    "skill_activations",
)  # fmt: skip


def load(tx: Tx, /, agent_id: str = "main", name: str = "pdf-filler", **changes: Any) -> None:
    plain = LoadRecord(
        id=new_id("load", tx.now_ms),
        agent_id=agent_id,
        created_at=moment(tx.now_ms),
        what=LoadedThing.SKILL,
        name=name,
        version="1",
        reason=LoadReason.ON_DEMAND,
        tokens=100,
        nanodollars=7,
        session_id="ses_1",
    )
    loads.insert(tx, msgspec.structs.replace(plain, **changes))


def loads_of_a_day(tx: Tx) -> None:
    """One that is used, one preload, a reference, and a refusal."""
    load(tx)
    loads.mark_used(tx, "main", "pdf-filler", "ses_1")
    load(tx, reason=LoadReason.ALWAYS, session_id="ses_2")
    load(tx, what=LoadedThing.REFERENCE, reason="references/forms.md", tokens=40)
    load(tx, "other", "invoices", refused=True, tokens=0, nanodollars=0, reason="budget")


def test_old_loads_are_summed_up_and_the_statistics_stay_what_they_were(store: Store, clock: ManualClock, path: Path):
    for _ in range(200):
        write(store, loads_of_a_day)
        clock.move(DAY_MS)
    before = read(store, loads.summary), read(store, loads.summary, agent_id="other")
    found = plan(store)
    assert rows(found) == {"loads": 20 * 4}
    assert apply(store, found, 30) == {"loads": 80}
    assert counts(path)["loads"] == 720
    assert counts(path)["load_months"] == 2
    assert (read(store, loads.summary), read(store, loads.summary, agent_id="other")) == before


def test_a_question_that_begins_after_what_was_summed_up_counts_only_what_is_kept(store: Store, clock: ManualClock):
    for _ in range(200):
        write(store, loads_of_a_day)
        clock.move(DAY_MS)
    apply(store, plan(store))
    lines = read(store, loads.summary, since_ms=clock.now_ms() - 30 * DAY_MS)
    assert [(line.name, line.loads, line.used, line.refused) for line in lines] == [
        ("pdf-filler", 30, 30, 0),
        ("invoices", 0, 0, 30),
    ]


def test_a_load_of_another_session_is_not_marked_as_used(store: Store):
    write(store, load, session_id="ses_old")
    write(store, load, session_id="ses_new")
    assert write(store, loads.mark_used, "main", "pdf-filler", "ses_new") == 1
    assert write(store, loads.mark_used, "main", "pdf-filler", "ses_new") == 0
    assert write(store, loads.mark_used, "main", "pdf-filler", None) == 1


def test_sums_of_costs_and_loads_go_after_their_time_whatever_the_size(store: Store, clock: ManualClock):
    def day(tx: Tx) -> None:
        calls.insert(tx, full(CallRecord, agent_id="main", seq=tx.now_ms), full(Prices))
        load(tx)

    write(store, day)
    clock.move(440 * DAY_MS)
    write(store, day)
    before = len(read(store, calls.costs, "day", since_day="2000-01-01", until_day="2999-01-01"))
    assert apply(store, plan(store))["sums"] >= 1  # the day's total and its parts
    apply(store, plan(store))  # the month that the first pass summed up
    after = read(store, calls.costs, "day", since_day="2000-01-01", until_day="2999-01-01")
    assert (before, [line.key for line in after]) == (2, [calls.day_of(clock.now_ms())])
    assert [line.loads for line in read(store, loads.summary)] == [1]
    tight = RetentionPolicy(max_bytes=1)
    assert "sums" not in rows(plan(store, tight, size_bytes=10**9))


def temporary(store: Store, clock: ManualClock, prefix: str = "tmp_run", **changes: Any) -> str:
    """A temporary agent that has lived for three days and is archived now."""
    agent_id = new_id(prefix, clock.now_ms())
    who = identity(agent_id, kind=AgentKind.CHILD, visibility=Visibility.PRIVATE)
    write(store, agents.insert, who, state(agent_id, **changes))
    live(store, clock, 3, agent_id=agent_id)
    write(store, activations.save, agent_id, full(SkillActivation, name="pdf-filler"))
    archived = msgspec.structs.replace(who, status=RegistryStatus.ARCHIVED, archived_at=moment(clock.now_ms()))
    write(store, agents.save_identity, archived)
    return agent_id


def remains(path: Path, agent_id: str) -> dict[str, int]:
    """How many rows of each table name the agent."""
    found = {table: [row for row in rows if agent_id in repr(row)] for table, rows in everything(path).items()}
    return {table: len(rows) for table, rows in found.items() if rows}


@pytest.mark.parametrize("limit", [5_000, 7])
@pytest.mark.parametrize("prefix", retirement.PREFIXES)
def test_an_archived_temporary_agent_goes_whole_in_bounded_batches(
    store: Store, clock: ManualClock, path: Path, prefix: str, limit: int
):
    agent_id = temporary(store, clock, prefix)
    write(store, load, agent_id)
    clock.move(29 * DAY_MS)
    assert "agents" not in rows(plan(store))
    clock.move(2 * DAY_MS)
    found, others = plan(store), remains(path, "main")
    assert (found.agents, rows(found)["agents"]) == ([agent_id], 1)
    assert set(remains(path, agent_id)) >= set(TABLES_OF_AN_AGENT) - {"tool_calls"}
    batches = []
    while batch := write(store, retention.apply, found, limit):
        batches.append(batch)
    assert sum(batch.get("agents", 0) for batch in batches) == 1
    assert len(batches) == 1 if limit == 5_000 else len(batches) > 3
    assert set(remains(path, agent_id)) - {"events"} == {"loads"}  # what it cost is still known
    assert remains(path, "main") == others
    assert plan(store).agents == []


def test_a_named_agent_that_is_archived_is_not_removed(store: Store, clock: ManualClock, path: Path):
    live(store, clock, 3)
    write(store, agents.save_identity, identity(status=RegistryStatus.ARCHIVED, archived_at=moment(clock.now_ms())))
    clock.move(400 * DAY_MS)
    assert plan(store).agents == []
    apply(store, plan(store))
    assert counts(path)["agents"] == 2


def test_an_agent_that_a_live_task_supervises_stays_until_the_task_has_ended(store: Store, clock: ManualClock):
    def task(tx: Tx, status: TaskStatus) -> None:
        tasks.save(tx, full(TaskRecord, id="task_1", agent_id="main", status=status, updated_at=moment(tx.now_ms)))

    write(store, task, TaskStatus.RUNNING)
    agent_id = temporary(store, clock, "tmp_child", supervision_task_id="task_1")
    clock.move(100 * DAY_MS)
    assert plan(store).agents == []
    write(store, task, TaskStatus.COMPLETED)
    assert plan(store).agents == [agent_id]


def test_an_agent_with_work_or_children_of_its_own_stays(store: Store, clock: ManualClock):
    with_task, with_turn, with_child = (temporary(store, clock) for _ in range(3))

    def hold(tx: Tx) -> None:
        tasks.save(tx, full(TaskRecord, id="task_2", agent_id=with_task, status=TaskStatus.RUNNING))
        turn = begin(tx, with_turn)
        turns.save(tx, turn)
        child = identity("tmp_child_1", visibility=Visibility.PRIVATE, parent_agent_id=with_child)
        agents.insert(tx, child, state("tmp_child_1"))

    write(store, hold)
    clock.move(100 * DAY_MS)
    assert plan(store).agents == []


def test_a_pass_over_an_agent_that_something_holds_by_now_leaves_it(store: Store, clock: ManualClock, path: Path):
    agent_id = temporary(store, clock)
    clock.move(100 * DAY_MS)
    found = plan(store)
    write(store, lambda tx: tasks.save(tx, full(TaskRecord, id="t", agent_id=agent_id, status=TaskStatus.RUNNING)))
    apply(store, found)
    assert remains(path, agent_id)["agents"] == 1


def test_a_store_that_is_too_big_takes_temporary_agents_sooner_but_not_while_a_key_may_lead_to_them(
    store: Store, clock: ManualClock
):
    older = temporary(store, clock)
    clock.move(8 * DAY_MS)
    temporary(store, clock)
    assert plan(store, RetentionPolicy(max_bytes=1), size_bytes=10**9).agents == [older]


STEPS = {
    "mark used": lambda tx: loads.mark_used(tx, "main", "pdf-filler", "ses_1"),
    "old loads": lambda tx: loads.old(tx, 5),
    "sum up": lambda tx: loads.sum_up(tx, 5, 10),
    "drop months": lambda tx: loads.drop_months(tx, 5, 10),
    "drop days": lambda tx: calls.drop_days(tx, 5, 10),
    "agents due": lambda tx: retirement.due(tx, 5),
    "messages of an agent": lambda tx: retirement._remove_messages(tx, "tmp_run_1", 5),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_over_a_ledger_is_answered_through_an_index(store: Store, path: Path, step: str):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        recorder = Recorder(connection)
        STEPS[step](Tx(recorder, 1_000))
    searches = [plan for plan in recorder.plans if re.match(r"SCAN|SEARCH", plan)]
    assert searches
    assert [plan for plan in searches if not plan.startswith("SEARCH") or "USING" not in plan] == []


def test_what_marks_a_use_looks_only_at_loads_that_have_none_yet(store: Store, path: Path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        recorder = Recorder(connection)
        loads.mark_used(Tx(recorder, 1_000), "main", "pdf-filler", "ses_1")
    assert recorder.plans == ["SEARCH loads USING INDEX loads_unused (agent_id=? AND name=? AND session_id=?)"]
