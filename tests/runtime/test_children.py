"""Children: spawned in one transaction, supervised through a task, done in one transaction, restart-safe."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon.core.agents import RegistryStatus
from holon.core.codec import to_plain
from holon.core.messages import MessageKind
from holon.core.tasks import TaskKind, TaskStatus
from holon.store import Store, agents, events, tasks
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Gate

FAMILY = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "my child says: {input}"}]
  - when: {pattern: "count the stars"}
    rounds: [{text: "there are nine"}]
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "count the stars"}}]
      - text: "I asked a child"
"""


async def said(life: Any, text: str) -> bool | None:
    return any(text in brief.text for brief in await life.briefs()) or None


async def spawned(life: Any) -> tuple[Any, Any]:
    """The supervising task and the child, as stored."""
    (task,) = [
        task
        for task in await life.host.store.read(lambda tx: tasks.of_agent(tx, "main"))
        if task.kind is TaskKind.CHILD_AGENT_TASK
    ]
    child = await life.host.store.read(lambda tx: agents.get(tx, task.detail["child_agent_id"]))
    return task, child


@pytest.mark.spec("RT-054", "RT-305", "RT-307", "RT-308", "RT-309", "RT-312")
async def test_a_child_does_its_work_and_its_result_comes_back_once(living: Opens) -> None:
    life = await living(FAMILY)
    await life.ask("delegate this")
    await life.until(lambda: said(life, "my child says"))
    task, child = await spawned(life)
    assert task.status is TaskStatus.COMPLETED
    assert task.summary == "count the stars"
    assert (child.identity.kind, child.identity.visibility, child.identity.parent_agent_id) == (
        "child",
        "private",
        "main",
    )
    assert child.identity.status is RegistryStatus.ARCHIVED
    results = [m for m in await life.messages() if m.kind is MessageKind.TASK_RESULT]
    assert [to_plain(m.body)["value"]["result"] for m in results] == ["there are nine"]
    assert (results[0].task_id, results[0].authority_class) == (task.id, "runtime_instruction")
    assert (await life.state()).active_task_ids == []


@pytest.mark.spec("RT-063", "RT-306")
async def test_the_child_is_in_no_public_list_and_unknown_fields_are_refused(living: Opens) -> None:
    script = """
rules:
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "x", summary: "y"}}]
      - text: "{result}"
"""
    life = await living(script)
    await life.ask("delegate")
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]
    (brief,) = await life.briefs()
    assert "invalid_tool_input" in brief.text
    assert "summary" in brief.text


@pytest.mark.spec("RT-310", "RT-067")
async def test_a_public_agent_is_founded_with_lineage_and_without_supervision(living: Opens) -> None:
    script = """
rules:
  - when: {kind: internal_followup}
    rounds: [{text: "I am here"}]
  - rounds:
      - tools: [{name: SpawnAgent, input: {preset: public_named, agent_id: scout, initial_message: "begin"}}]
      - text: "{result}"
"""
    life = await living(script)
    await life.ask("found an agent")
    (brief,) = await life.briefs()
    assert '"agent_id":"scout"' in brief.text
    assert "task" not in brief.text
    identity = (await life.host.views.summary("scout")).identity
    assert (identity.lineage_parent_agent_id, identity.parent_agent_id, identity.ownership) == (
        "main",
        None,
        "self_owned",
    )


async def test_a_name_that_is_taken_is_told_to_the_model_and_changes_nothing(living: Opens) -> None:
    script = """
rules:
  - rounds:
      - tools: [{name: SpawnAgent, input: {preset: public_named, agent_id: main, initial_message: "begin"}}]
      - text: "{result}"
"""
    life = await living(script)
    await life.ask("found an agent")
    (brief,) = await life.briefs()
    assert "agent_exists" in brief.text
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]


@pytest.mark.spec("RT-065", "RT-066")
async def test_an_agent_can_look_at_itself(living: Opens) -> None:
    life = await living('rules: [{rounds: [{tools: [{name: AgentGet, input: {}}]}, {text: "{result}"}]}]')
    await life.ask("who are you")
    (brief,) = await life.briefs()
    for word in ('"visibility":"public"', '"ownership":"self_owned"', '"profile_preset":"public_named"'):
        assert word in brief.text
    assert "transcript" not in brief.text


async def test_a_word_to_the_operator_is_an_event_of_its_own(living: Opens) -> None:
    life = await living(
        'rules: [{rounds: [{tools: [{name: NotifyOperator, input: {message: "half way"}}]}, {text: done}]}]'
    )
    await life.ask("go")
    (event,) = await life.events("operator_notification_requested")
    assert (event.payload["message"], event.payload["target_operator_boundary"]) == ("half way", "primary_operator")


@pytest.mark.spec("RT-064", "RT-068", "RT-101", "RT-315")
async def test_a_parent_sees_its_child_while_it_works_and_status_explains_where_it_stands(living: Opens) -> None:
    script = """
rules:
  - when: {pattern: "take your time"}
    rounds: [{delay_ms: 1500, text: "done at last"}]
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "take your time"}}]
      - text: "asked"
"""
    life = await living(script)
    await life.ask("delegate")
    (child,) = (await life.host.views.summary("main")).active_children
    assert (child.identity.kind, child.identity.visibility) == ("child", "private")
    assert child.observability["phase"] == "running"
    summary = await life.host.views.summary("main")
    assert summary.closure.outcome == "completed"
    assert summary.closure.evidence


WAITING = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "my child says: {input}"}]
  - when: {pattern: "take your time"}
    rounds:
      - tools: [{name: Wait, input: {}}]
      - text: "done at last"
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "take your time"}}]
      - text: "I asked a child"
"""


@pytest.mark.spec("RT-312")
async def test_a_child_that_finishes_without_a_turn_wakes_its_parent_at_once(living: Opens) -> None:
    """Paused while its turn ended, it is found to be done by the step that resuming it leads to. The watchdog, which
    would find the waiting result in the end, looks only every half minute."""
    gate = Gate()
    life = await living(WAITING, tools=[gate.tool])
    await life.ask("delegate")
    await gate.entered()
    _, child = await spawned(life)
    child_id = child.identity.agent_id
    await life.host.lifecycle.pause(child_id, SURFACE)
    gate.open()
    await life.event("turn_terminal", child_id)
    task, _ = await spawned(life)
    assert task.status is TaskStatus.RUNNING
    await life.host.lifecycle.resume(child_id, SURFACE)
    await life.until(lambda: said(life, "my child says"))


@pytest.mark.spec("RT-317")
async def test_a_childs_word_to_the_operator_is_shown_at_its_parent_only(living: Opens) -> None:
    script = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "it is over"}]
  - when: {pattern: "count the stars"}
    rounds:
      - tools: [{name: NotifyOperator, input: {message: "half way"}}]
      - text: "there are nine"
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "count the stars"}}]
      - text: "I asked a child"
"""
    life = await living(script)
    await life.ask("delegate")
    await life.until(lambda: said(life, "it is over"))
    _, child = await spawned(life)
    child_id = child.identity.agent_id
    (event,) = await life.events("operator_notification_requested")
    assert (event.payload["message"], event.payload["requested_by_agent_id"]) == ("half way", child_id)
    assert event.payload["target_operator_boundary"] == "parent_supervisor"
    log = await life.host.store.read(lambda tx: events.after(tx, child_id, 0, 1_000))
    assert [event for event in log if event.kind == "operator_notification_requested"] == []


@pytest.mark.spec("RT-313", "RT-314", "RT-315")
async def test_after_a_restart_the_child_goes_on_and_its_parent_still_sees_it(living: Opens) -> None:
    gate, second = Gate(), Gate()
    script = WAITING.replace(
        '      - text: "done at last"', '      - tools: [{name: Wait, input: {}}]\n      - text: "done at last"'
    )
    life = await living(script, tools=[gate.tool])
    await life.ask("delegate")
    await gate.entered()
    await life.close()

    again = await living(script, tools=[second.tool], booted=False)
    await second.entered()
    task, child = await spawned(again)
    assert child.identity.status is RegistryStatus.ACTIVE
    shown = await again.host.overseer.look("main", task.id)
    assert (shown.status, shown.workspace_mode, shown.child_agent_id) == ("running", "inherit", child.identity.agent_id)
    assert shown.child_observability == {"phase": "running"}
    second.open()
    await again.until(lambda: said(again, "my child says"))
    shown = await again.host.overseer.look("main", task.id)
    assert shown.child_observability == {"phase": "terminal", "last_result_brief": "done at last"}


@pytest.mark.spec("RT-314")
@pytest.mark.parametrize("lost", ["missing", "completed", "failed", "cancelled"])
async def test_a_child_that_nobody_supervises_is_archived_by_the_start_and_its_turn_is_not_taken_up(
    lost: str, living: Opens
) -> None:
    gate = Gate()
    life = await living(WAITING, tools=[gate.tool])
    await life.ask("delegate")
    await gate.entered()
    task, _ = await spawned(life)
    await life.close()

    store = Store(life.host.settings.database_path)
    if lost == "missing":
        await store.write(lambda tx: tasks.delete(tx, task.id))
    else:
        await store.write(lambda tx: tasks.save(tx, msgspec.structs.replace(task, status=TaskStatus(lost))))
    store.close()

    again = await living(WAITING, tools=[gate.tool], booted=False)
    child = await again.host.store.read(lambda tx: agents.get(tx, task.detail["child_agent_id"]))
    assert child is not None
    assert child.identity.status is RegistryStatus.ARCHIVED
    assert child.state.current_turn_id is None
    assert gate.begun == 1


async def test_a_child_that_is_stopped_before_it_began_leaves_nothing_in_its_queue(living: Opens) -> None:
    life = await living(WAITING, tools=[Gate().tool])
    life.model.hold()
    message = await life.say("delegate")
    await life.model.asked()
    life.model.release()
    task, child = await life.until(lambda: maybe_spawned(life))
    await life.host.overseer.end("main", task.id)
    await life.settled(message)
    assert await life.waiting(child.identity.agent_id) == []
    stored = await life.host.store.read(lambda tx: agents.get(tx, child.identity.agent_id))
    assert stored is not None
    assert (stored.identity.status, stored.counters.pending) == (RegistryStatus.ARCHIVED, 0)
    assert (await life.host.overseer.look("main", task.id)).status is TaskStatus.CANCELLED


@pytest.mark.spec("RT-304", "RT-315")
async def test_a_child_that_rests_is_shown_as_waiting_and_its_rest_ends_with_it(living: Opens) -> None:
    script = """
rules:
  - when: {pattern: "rest a while"}
    rounds:
      - text: "half way"
        tools: [{name: Sleep, input: {reason: tired, duration_ms: 600000}}]
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "rest a while"}}]
      - text: "I asked a child"
"""
    life = await living(script)
    await life.ask("delegate")
    task, child = await spawned(life)
    child_id = child.identity.agent_id
    await life.event("agent_slept", child_id)
    shown = await life.host.overseer.look("main", task.id)
    assert (shown.status, shown.child_observability) == (
        TaskStatus.RUNNING,
        {"phase": "waiting", "waiting_reason": "awaiting_timer", "last_result_brief": "half way"},
    )
    await life.host.overseer.end("main", task.id)
    (job,) = await life.tasks(child_id)
    assert (job.kind, job.status) == (TaskKind.SLEEP_JOB, TaskStatus.CANCELLED)
    assert (await life.host.overseer.look("main", task.id)).status is TaskStatus.CANCELLED


async def maybe_spawned(life: Any) -> tuple[Any, Any] | None:
    return await spawned(life) if await life.tasks() else None
