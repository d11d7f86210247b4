"""Kept outputs: what commands left on disk goes when it is too old or too much, never of live tasks, and it is said."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from holon.core.clock import ManualClock
from holon.core.ids import first_id, new_id
from holon.core.retention import RetentionPolicy, RetentionReason
from holon.core.tasks import TaskStatus
from holon.runtime.kept_outputs import FRESH_MS, Folder, KeptOutputs, choose, look, remove
from holon.store import Store, tasks
from holon.store.retention import DAY_MS
from holon.store.transaction import END
from tests.runtime.conftest import Opens
from tests.runtime.living import Living
from tests.runtime.test_hands import call, script

NOW_MS = 1_767_225_600_000
POLICY = RetentionPolicy(output_days=30, output_bytes=100)


def began(days: float) -> str:
    """The id of a command that began so many days ago."""
    return first_id("task", NOW_MS - round(days * DAY_MS))


def folders(*given: tuple[float, int]) -> list[Folder]:
    return [Folder("main", began(days), size) for days, size in given]


@pytest.mark.parametrize(
    ("kept", "ends", "due"),
    [
        pytest.param([(29, 10), (1, 10)], {}, [], id="young and small: all stays"),
        pytest.param([(31, 10), (29, 10)], {}, [(31, "age")], id="without a record it is as old as its id"),
        pytest.param([(31, 10)], {31: END}, [], id="that of a live task stays, however old"),
        pytest.param([(99, 10)], {99: NOW_MS - DAY_MS}, [], id="it counts when the task ended, not when it began"),
        pytest.param([(99, 10)], {99: NOW_MS - 31 * DAY_MS}, [(99, "age")], id="long ended"),
        pytest.param([(3, 60), (2, 60), (1, 60)], {}, [(3, "size"), (2, "size")], id="the oldest go until it fits"),
        pytest.param([(31, 60), (2, 60), (1, 30)], {}, [(31, "age")], id="what went by age may be enough"),
        pytest.param([(3, 500), (2, 60)], {3: END}, [(2, "size")], id="too much, and the live one is not touched"),
        pytest.param([(0.01, 500)], {}, [], id="what ended just now may still be read by whoever was told of it"),
    ],
)
def test_what_is_too_old_and_what_is_too_much(
    kept: list[tuple[float, int]], ends: dict[float, int], due: list[tuple[float, str]]
) -> None:
    known = {began(days): ended for days, ended in ends.items()}
    found = choose(folders(*kept), known, POLICY, NOW_MS)
    assert [(each.folder.task_id, each.reason.value) for each in found] == [(began(days), why) for days, why in due]


def test_without_a_bound_only_age_counts_and_the_number_of_folders_has_one_too() -> None:
    unbounded = RetentionPolicy(output_bytes=0)
    kept = folders((3, 10**12), (2, 10**12))
    assert choose(kept, {}, unbounded, NOW_MS) == []
    (due,) = choose(kept, {}, unbounded, NOW_MS, most=1)
    assert (due.folder, due.reason) == (kept[0], RetentionReason.SIZE)


def output(agents_dir: Path, agent_id: str, task_id: str, size: int = 10) -> Path:
    folder = agents_dir / agent_id / "task-output" / task_id
    folder.mkdir(parents=True)
    (folder / "output.log").write_bytes(b"x" * size)
    return folder


def test_links_are_not_followed_and_nothing_but_folders_of_tasks_is_seen(tmp_path: Path) -> None:
    outside, agents_dir = tmp_path / "outside", tmp_path / "agents"
    precious = output(outside, "x", "task_1")
    mine = output(agents_dir, "main", "task_1")
    (mine.parent / "task_2").symlink_to(precious)
    (mine.parent / "notes").mkdir()
    (mine / "out").symlink_to(precious)
    (agents_dir / "linked").symlink_to(outside / "x")
    (agents_dir / "other").mkdir()
    (agents_dir / "other" / "task-output").symlink_to(precious.parent)
    (found,), after = look(agents_dir, "")
    assert ([folder.task_id for folder in found], after) == (["task_1", "task_2"], "")
    assert remove(agents_dir, found) == 2
    assert os.listdir(mine.parent) == ["notes"]
    assert (precious / "output.log").exists()


def test_a_look_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for agent_id in ("a", "b", "c"):
        output(tmp_path, agent_id, "task_1")
    seen, after = look(tmp_path, "", most=3)
    assert ([each[0].agent_id for each in seen], after) == (["a", "b"], "b")
    seen, after = look(tmp_path, after, most=3)
    assert ([each[0].agent_id for each in seen], after) == (["c"], "")
    assert look(tmp_path / "not there", "") == ([], "")


def test_a_removal_ends_after_so_many_files_and_the_next_one_goes_on(tmp_path: Path) -> None:
    big = output(tmp_path, "a", "task_1")
    for number in range(20):
        (big / f"{number}.log").touch()
    last = output(tmp_path, "a", "task_2")
    (found,), _ = look(tmp_path, "")
    assert remove(tmp_path, found, most=15) == 0
    assert big.exists() and last.exists()
    assert remove(tmp_path, found, most=15) == 2


async def test_folders_without_a_record_go_by_age_and_by_size(tmp_path: Path) -> None:
    clock, agents_dir = ManualClock(), tmp_path / "agents"
    store = Store(tmp_path / "holon.sqlite3", clock=clock)
    try:
        old = output(agents_dir, "main", new_id("task", clock.now_ms()))
        clock.move(31 * DAY_MS)
        more = [output(agents_dir, "main", new_id("task", clock.now_ms()), 400) for _ in range(3)]
        other = output(agents_dir, "scout", new_id("task", clock.now_ms()), 400)
        kept = KeptOutputs(store, RetentionPolicy(output_bytes=1_000), agents_dir)
        assert [due.folder.task_id for due in await kept.due()] == [old.name]
        assert old.exists(), "a look changes nothing"
        assert await kept.apply() == 1
        clock.move(2 * FRESH_MS)
        assert await kept.apply() == 1
        assert [folder.exists() for folder in (old, *more, other)] == [False, False, True, True, True]
        assert await KeptOutputs(store, RetentionPolicy(enabled=False, output_bytes=1), agents_dir).apply() == 0
    finally:
        store.close()


#: Two commands whose output is more than is shown: one ends within its call, the other as a task. A third goes on.
TWO_AND_A_LIVE_ONE = script(
    call("ExecCommand", cmd="seq 1 90000", max_output_tokens=10),
    call("ExecCommand", cmd="seq 1 90000; sleep 0.3; echo end", yield_time_ms=50),
    call("ExecCommand", cmd="echo alive; sleep 300", yield_time_ms=50),
)


class LaterClock:
    """The system's clock, so many days on: what ended before is old."""

    def __init__(self, days: int) -> None:
        self._ahead_ms = days * DAY_MS

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms


async def ended(life: Living) -> Any:
    async def look_() -> Any:
        return next((task for task in await life.tasks() if task.status is TaskStatus.COMPLETED), None)

    return await life.until(look_)


async def test_the_output_of_a_named_agents_tasks_goes_after_its_time_and_the_record_says_so(living: Opens) -> None:
    life = await living(TWO_AND_A_LIVE_ONE)
    await life.ask("go")
    done = await ended(life)
    await life.at_rest()
    before = await life.host.overseer.read_output("main", done.id)
    assert before.task.artifacts and before.task.output_note is None
    outputs = life.host.settings.agents_dir / "main" / "task-output"
    assert len(os.listdir(outputs)) == 3
    await life.close()

    life = await living(TWO_AND_A_LIVE_ONE, clock=LaterClock(31), booted=False)
    (alive,) = [task for task in await life.tasks() if task.status is TaskStatus.RUNNING]
    planned = {cut.family.value: cut.rows for cut in (await life.host.retention.plan()).families if cut.rows}
    assert planned["outputs"] == 2
    assert (await life.host.retention.apply())["outputs"] == 2
    assert os.listdir(outputs) == [alive.id], "the folder of a live task is not touched"
    assert {"deleted": {"outputs": 2}, "reason": "age"} in await life.runtime_events("retention_applied")

    status = await life.host.overseer.look("main", done.id)
    assert status.command is not None
    assert (status.command.output_path, status.command.exit_status) == (None, 0)
    assert "no longer kept" in (status.command.output_note or "")
    after = await life.host.overseer.read_output("main", done.id)
    assert (after.retrieval_status, after.task.artifacts) == ("success", [])
    assert "no longer kept" in (after.task.output_note or "")
    assert after.task.output_preview.endswith("end\n"), "the record has an excerpt of its own"
    assert after.task.output_truncated
    (record,) = [task for task in await life.tasks() if task.id == done.id]
    assert record.updated_at == done.updated_at, "its own time is not put off by it"
    assert "outputs" not in await life.host.retention.apply()
    await life.host.overseer.end("main", alive.id, force=True)


async def test_killed_after_the_note_and_before_the_removal_the_next_pass_removes(living: Opens) -> None:
    life = await living(script(call("ExecCommand", cmd="seq 1 90000; sleep 0.3", yield_time_ms=50)))
    await life.ask("go")
    done = await ended(life)
    await life.at_rest()
    await life.close()
    life = await living(clock=LaterClock(31), booted=False)
    await life.host.store.write(lambda tx: tasks.note_outputs_gone(tx, [done.id]))
    assert (await life.host.retention.apply())["outputs"] == 1
    assert os.listdir(life.host.settings.agents_dir / "main" / "task-output") == []


async def test_the_tools_say_that_output_is_no_longer_kept(living: Opens) -> None:
    rule = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "ok"}]
  - when: {pattern: "status of (\\\\S+)"}
    rounds: [{tools: [{name: TaskStatus, input: {task_id: "{1}"}}]}, {text: "{result}"}]
  - when: {pattern: "output of (\\\\S+)"}
    rounds: [{tools: [{name: TaskOutput, input: {task_id: "{1}"}}]}, {text: "{result}"}]
  - rounds:
      - tools: [{name: ExecCommand, input: {cmd: "sleep 0.2; echo end", login: false, yield_time_ms: 20}}]
      - text: "{result}"
"""
    life = await living(rule)
    await life.ask("go")
    done = await ended(life)
    await life.at_rest()
    await life.host.store.write(lambda tx: tasks.note_outputs_gone(tx, [done.id]))
    (folder,), _ = look(life.host.settings.agents_dir, "")
    remove(life.host.settings.agents_dir, folder)
    for asked, place in (("status", ("task", "command")), ("output", ("task",))):
        await life.ask(f"{asked} of {done.id}")
        told = json.loads((await life.briefs())[-1].text)
        for name in place:
            told = told[name]
        assert told["output_note"] == "its output is no longer kept: run the command again if you need all of it"
