"""Children are bounded: in depth, of one agent and of a home. The refusal says what to do, and is on record."""

from __future__ import annotations

import json
from pathlib import Path

from holon.core.limits import Limits
from holon.core.tasks import TaskKind, TaskStatus
from holon.store import agents, events, outbox, tasks
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living
from tests.workspaces.projects import Project

#: Whoever is told anything has a child do the same.
DEEPER = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "I heard of it"}]
  - rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "go deeper"}}]
      - text: "{result}"
"""


def spawning(count: int, **more: str) -> str:
    """A parent that asks for so many children at once, which think for long. It says what the last call brought."""
    call = json.dumps({"name": "SpawnAgent", "input": {"initial_message": "think", **more}})
    return f"""
rules:
  - when: {{kind: task_result}}
    rounds: [{{text: "I heard of it"}}]
  - when: {{pattern: "^think"}}
    rounds: [{{delay_ms: 60000, text: "thought"}}]
  - rounds:
      - tools: [{", ".join([call] * count)}]
      - text: "{{result}}"
"""


async def live_children(life: Living, agent_id: str = "main") -> list[str]:
    found = await life.host.store.read(lambda tx: tasks.live(tx, agent_id))
    return [task.id for task in found if task.kind is TaskKind.CHILD_AGENT_TASK]


async def agent_ids(life: Living) -> list[str]:
    found: list[str] = await life.host.store.read(lambda tx: [row[0] for row in tx.all("SELECT id FROM agents")])
    return found


async def test_children_of_children_come_to_an_end(living: Opens) -> None:
    life = await living(DEEPER, limits=Limits(child_depth=2))
    await life.ask("go")
    await life.event("task_status_updated")
    deepest = max(await agent_ids(life))
    assert len(await agent_ids(life)) == 3, "main, its child, and that one's child, which has none"
    log = await life.host.store.read(lambda tx: events.after(tx, deepest, 0))
    (met,) = [event for event in log if event.kind == "limit_reached"]
    assert (met.payload["limit"], met.payload["value"]) == ("child_depth", 2)
    (turn,) = await life.turns(deepest)
    assert met.turn_id == turn.id
    (call,) = await life.calls(turn.id)
    told = json.loads(call.result or "")
    assert (told["ok"], told["kind"], told["details"]) == (False, "limit_reached", {"limit": "child_depth", "value": 2})
    assert "do this work yourself" in told["hint"]


async def test_an_agent_has_so_many_children_at_a_time_and_another_when_one_is_done(living: Opens) -> None:
    life = await living(spawning(3), limits=Limits(live_children=2))
    await life.ask("go")
    mine = await live_children(life)
    assert len(mine) == 2
    (met,) = await life.events("limit_reached")
    assert (met.payload["limit"], met.payload["value"]) == ("live_children", 2)
    (brief,) = await life.briefs()
    for word in ("limit_reached", "TaskList", "TaskOutput", "TaskStop"):
        assert word in brief.text
    assert (await life.state()).active_task_ids == mine, "nothing of the third stays"
    assert len(await agent_ids(life)) == 3
    ended = await life.host.overseer.end("main", mine[0])
    assert ended.task.status is TaskStatus.CANCELLED
    await life.ask("go on")
    assert len(await live_children(life)) == 2
    assert len(await life.events("limit_reached")) == 3, "one more was made, and two were refused"


async def test_all_agents_of_a_home_share_a_bound(living: Opens) -> None:
    life = await living(spawning(2), limits=Limits(home_children=3))
    await life.host.agents.create("scout", surface=SURFACE)
    await life.at_rest("scout")
    await life.ask("go")
    await life.ask("go", "scout")
    assert [len(await live_children(life, who)) for who in ("main", "scout")] == [2, 1]
    (met,) = await life.events("limit_reached", agent_id="scout")
    assert (met.payload["limit"], met.payload["value"]) == ("home_children", 3)


async def test_no_worktree_is_made_for_a_child_that_is_refused(living: Opens, outside: Path) -> None:
    project = Project.new(outside / "shop", commits=1)
    life = await living(spawning(2, workspace_mode="worktree"), limits=Limits(live_children=1))
    await life.host.housing.enter("main", project.folder, surface=SURFACE)
    await life.ask("go")
    (task_id,) = await live_children(life)
    assert len(await life.events("worktree_created")) == 1
    assert len(await life.events("limit_reached")) == 1
    assert await life.host.store.read(outbox.due) == []
    await life.host.overseer.end("main", task_id)


async def test_a_public_agent_is_no_child_and_is_not_counted(living: Opens) -> None:
    script = """
rules:
  - rounds:
      - tools: [{name: SpawnAgent, input: {preset: public_named, agent_id: scout}}]
      - text: "{result}"
"""
    life = await living(script, limits=Limits(live_children=1, home_children=1, child_depth=1))
    await life.ask("found one")
    assert await life.host.store.read(lambda tx: agents.get(tx, "scout")) is not None
    assert await life.events("limit_reached") == []
