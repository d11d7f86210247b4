"""Children in worktrees: kept apart from their parent's tree, cleared by the runtime, and lost by no kill."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holon.core.agents import RegistryStatus
from holon.core.codec import to_plain
from holon.core.messages import MessageKind
from holon.core.retention import RetentionPolicy
from holon.core.tasks import TaskKind, TaskRecord, TaskStatus
from holon.runtime.run_once import RunRequest, run_once
from holon.store import agents, tasks
from holon.store import retention as retained
from holon.workspaces.locks import alone
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Gate, Living, soon
from tests.workspaces.projects import Project

COMMIT = "git -c user.name=a -c user.email=a@b.c commit -qam done"


def script(child: str, *, mode: str = "worktree") -> str:
    """A parent that delegates, and a child that runs this command."""
    command = json.dumps({"name": "ExecCommand", "input": {"cmd": child, "login": False}})
    spawn = json.dumps({"name": "SpawnAgent", "input": {"initial_message": "work apart", "workspace_mode": mode}})
    return f"""
rules:
  - when: {{kind: task_result}}
    rounds: [{{text: "my child says: {{input}}"}}]
  - when: {{pattern: "work apart"}}
    rounds:
      - tools: [{command}]
      - text: "{{result}}"
  - when: {{pattern: "delegate"}}
    rounds:
      - tools: [{spawn}]
      - text: "{{result}}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.new(tmp_path / "shop", commits=2)


async def enter(life: Living, project: Project) -> None:
    await life.host.housing.enter("main", project.folder, surface=SURFACE)


async def the_task(life: Living) -> TaskRecord:
    task: TaskRecord
    (task,) = [task for task in await life.tasks() if task.kind is TaskKind.CHILD_AGENT_TASK]
    return task


async def the_result(life: Living) -> dict[str, Any]:
    """The body of the child's result, once its parent has it."""

    async def look() -> dict[str, Any] | None:
        found = [m for m in await life.messages() if m.kind is MessageKind.TASK_RESULT]
        return to_plain(found[0].body)["value"] if found else None

    return await life.until(look)


async def errands(life: Living) -> list[str]:
    """All that there are, due or put off."""
    rows = await life.host.store.read(lambda tx: tx.all("SELECT topic FROM outbox"))
    return [topic for (topic,) in rows]


async def errands_become(life: Living, topics: list[str]) -> None:
    async with asyncio.timeout(20):
        while True:
            if await errands(life) == topics:
                return
            await asyncio.sleep(0.01)


@pytest.mark.spec("RT-341", "RT-342", "RT-343", "RT-316")
async def test_a_child_that_changes_nothing_leaves_nothing(living: Opens, project: Project, tmp_path: Path) -> None:
    before = project.everything()
    life = await living(script("pwd; git branch --show-current"), home=tmp_path / "home")
    await enter(life, project)
    await life.ask("delegate")
    spawned = json.loads((await life.briefs())[0].text)
    result = await the_result(life)
    task = await the_task(life)

    path, branch = result["worktree"]["worktree_path"], result["worktree"]["worktree_branch"]
    assert path == str(tmp_path / ".holon-worktrees-shop" / f"holon-{task.id}")
    assert branch == f"holon/{task.id}"
    assert f"{path}\\n{branch}" in result["result"]
    assert (result["status"], result["worktree"]["cleanup_status"]) == ("completed", "removed")
    assert project.everything() == before
    assert not (tmp_path / ".holon-worktrees-shop").exists()
    assert [event.payload["path"] for event in await life.events("worktree_auto_cleaned_up")] == [path]
    assert await errands(life) == []

    status = (await life.host.overseer.look("main", task.id)).child_supervision
    output = (await life.host.overseer.read_output("main", task.id)).task.child_supervision
    assert status == output
    assert to_plain(status).keys() == spawned["child_supervision"].keys()
    assert (spawned["child_supervision"]["worktree"]["worktree_path"], status.worktree["worktree_path"]) == (path, path)  # type: ignore[union-attr, index]


@pytest.mark.spec("RT-344", "RT-345")
@pytest.mark.parametrize(
    ("work", "files", "counted"),
    [
        ("echo more >> file-0.txt; echo new > new.txt", ["file-0.txt", "new.txt"], "1 new file not yet in git"),
        (f"echo more >> file-0.txt; {COMMIT}", ["file-0.txt"], "1 file changed, 1 insertion(+)"),
        ("echo more >> file-0.txt; touch $(printf 'caf\\351')", ["caf\\xe9", "file-0.txt"], "1 new file not yet"),
    ],
)
async def test_changes_are_kept_for_review_as_an_artifact_of_the_task(
    work: str, files: list[str], counted: str, living: Opens, project: Project, tmp_path: Path
) -> None:
    life = await living(script(work), home=tmp_path / "home")
    await enter(life, project)
    await life.ask("delegate")
    result = await the_result(life)
    shown, task = result["worktree"], await the_task(life)
    assert (task.status, shown["cleanup_status"], shown["retained_for_review"]) == ("completed", "retained", True)
    assert shown["changed_files"] == files
    assert counted in shown["diff_stat"]
    assert project.git("status", "--porcelain") == ""
    assert (project.folder / "file-0.txt").read_text() == "line 0\n"
    assert (Path(shown["worktree_path"]) / "file-0.txt").read_text() == "line 0\nmore\n"
    (event,) = await life.events("worktree_retained_for_review")
    assert (event.payload["task_id"], event.payload["path"]) == (task.id, shown["worktree_path"])
    output = (await life.host.overseer.read_output("main", task.id)).task
    assert [artifact.path for artifact in output.artifacts] == [shown["worktree_path"]]
    assert [entry.identity.agent_id for entry in await life.host.views.agents()] == ["main"]


@pytest.mark.spec("RT-344")
async def test_a_worktree_on_another_branch_is_kept(living: Opens, project: Project, tmp_path: Path) -> None:
    life = await living(script("git switch -qc elsewhere"), home=tmp_path / "home")
    await enter(life, project)
    await life.ask("delegate")
    result = await the_result(life)
    assert result["status"] == "completed"
    assert result["worktree"]["cleanup_status"] == "retained"
    assert "elsewhere" in result["worktree"]["cleanup_reason"]


async def test_in_a_folder_without_git_the_model_is_told_what_to_do(living: Opens) -> None:
    life = await living(script("true"))
    await life.ask("delegate")
    (brief,) = await life.briefs()
    assert "workspace_refused" in brief.text
    assert "UseWorkspace" in brief.text
    assert await life.tasks() == []
    assert await errands(life) == []


async def test_what_git_refuses_is_passed_on_and_leaves_nothing(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    project.git("checkout", "-q", "--detach")
    before = project.everything()
    life = await living(script("true"), home=tmp_path / "home")
    await enter(life, project)
    await life.ask("delegate")
    (brief,) = await life.briefs()
    assert "detached head" in brief.text
    assert "git switch" in brief.text
    assert project.everything() == before


async def test_the_child_begins_in_the_folder_that_its_parent_is_in(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    (project.folder / "deep").mkdir()
    project.commit("deep/x.txt", "x\n")
    life = await living(script("pwd"), home=tmp_path / "home")
    await life.host.housing.enter("main", project.folder / "deep", surface=SURFACE)
    await life.ask("delegate")
    result = await the_result(life)
    assert f"{result['worktree']['worktree_path']}/deep" in result["result"]


@pytest.mark.spec("RT-311")
async def test_an_inheriting_child_works_where_its_parent_does(living: Opens, project: Project, tmp_path: Path) -> None:
    life = await living(script("pwd > where.txt", mode="inherit"), home=tmp_path / "home")
    await enter(life, project)
    await life.ask("delegate")
    result = await the_result(life)
    assert "worktree" not in result
    assert (project.folder / "where.txt").read_text() == f"{project.folder}\n"


@pytest.mark.spec("RT-311")
async def test_a_public_agent_has_its_founders_workspaces_at_hand_and_begins_at_home(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    found = json.dumps({"name": "SpawnAgent", "input": {"preset": "public_named", "agent_id": "scout"}})
    life = await living(f'rules: [{{rounds: [{{tools: [{found}]}}, {{text: "done"}}]}}]', home=tmp_path / "home")
    await enter(life, project)
    await life.ask("found an agent")
    founder, scout = await life.state(), await life.state("scout")
    assert founder.attached_workspaces == scout.attached_workspaces != []
    assert (scout.active_workspace_id, scout.active_workspace, scout.worktree_session) == ("agent_home", None, None)


SLOW = "echo begun > begun.txt; sleep 60"


async def begun(life: Living) -> Path:
    """The worktree of the child, once its command has begun to work in it."""
    async with asyncio.timeout(10):
        while True:
            found = [task for task in await life.tasks() if task.kind is TaskKind.CHILD_AGENT_TASK]
            if found:
                path = Path(found[0].detail["worktree"]["worktree_path"])
                if (path / "begun.txt").exists():
                    return path
            await asyncio.sleep(0.01)


@pytest.mark.spec("RT-304", "RT-344")
async def test_a_stopped_child_ends_with_its_command_and_what_it_changed_is_kept(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    life = await living(script(SLOW), home=tmp_path / "home")
    await enter(life, project)
    await life.ask("delegate")
    path = await begun(life)
    task = await the_task(life)
    receipt = await life.host.overseer.end("main", task.id)
    assert (receipt.stop_requested, receipt.task.status) == (True, TaskStatus.CANCELLED)
    worktree = receipt.task.child_supervision.worktree  # type: ignore[union-attr]
    assert worktree is not None
    assert (worktree["cleanup_status"], worktree["changed_files"]) == ("retained", ["begun.txt"])
    assert (path / "begun.txt").exists()
    child = await life.host.store.read(lambda tx: agents.get(tx, task.detail["child_agent_id"]))  # type: ignore[index]
    assert child is not None
    assert child.identity.status is RegistryStatus.ARCHIVED
    assert child.state.current_turn_id is None
    assert await life.host.store.read(lambda tx: tasks.live(tx, child.identity.agent_id)) == []
    assert (await the_result(life))["status"] == "cancelled"


@pytest.mark.spec("RT-304", "RT-343", "RT-313")
async def test_a_child_that_a_restart_left_interrupted_can_be_stopped_and_its_clean_worktree_goes(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    gate, waits = Gate(), "tools: [{name: Wait, input: {}}]"
    words = script("true").replace(
        'text: "{result}"\n  - when: {pattern: "delegate"}',
        f'{waits}\n      - {waits}\n      - text: done\n  - when: {{pattern: "delegate"}}',
    )
    before = project.everything()
    life = await living(words, home=tmp_path / "home", tools=[gate.tool])
    await enter(life, project)
    await life.ask("delegate")
    await gate.entered()
    task = await the_task(life)
    await life.close()

    second = Gate()
    again = await living(words, home=tmp_path / "home", tools=[second.tool], booted=False)
    await second.entered()
    interrupted = msgspec.structs.replace(task, status=TaskStatus.INTERRUPTED)
    await again.host.store.write(lambda tx: tasks.save(tx, interrupted))
    seen = await again.host.overseer.look("main", task.id)
    assert seen.status is TaskStatus.INTERRUPTED
    assert seen.child_observability is not None
    assert seen.child_observability["phase"] == "running"
    receipt = await again.host.overseer.end("main", task.id)
    assert receipt.task.status is TaskStatus.CANCELLED
    assert receipt.task.child_supervision.cleanup_status == "removed"  # type: ignore[union-attr]
    assert project.everything() == before


@pytest.mark.spec("RT-304")
async def test_stopping_a_child_stops_its_children_too(living: Opens, project: Project, tmp_path: Path) -> None:
    gate = Gate()
    deep = json.dumps({"name": "SpawnAgent", "input": {"initial_message": "dig", "workspace_mode": "worktree"}})
    spawn = json.dumps({"name": "SpawnAgent", "input": {"initial_message": "lead", "workspace_mode": "worktree"}})
    words = f"""
rules:
  - when: {{pattern: "dig"}}
    rounds: [{{tools: [{{name: Wait, input: {{}}}}]}}, {{text: done}}]
  - when: {{pattern: "lead"}}
    rounds: [{{tools: [{deep}]}}, {{tools: [{{name: Wait, input: {{}}}}]}}, {{text: led}}]
  - when: {{pattern: "delegate"}}
    rounds: [{{tools: [{spawn}]}}, {{text: asked}}]
"""
    before = project.everything()
    life = await living(words, home=tmp_path / "home", tools=[gate.tool])
    await enter(life, project)
    await life.ask("delegate")
    await soon(lambda: gate.begun == 2)
    task = await the_task(life)
    await life.host.overseer.end("main", task.id)
    child_id = task.detail["child_agent_id"]  # type: ignore[index]
    (below,) = await life.tasks(child_id)
    assert below.status is TaskStatus.CANCELLED
    for agent_id in (child_id, below.detail["child_agent_id"]):
        stored = await life.host.store.read(partial(agents.get, agent_id=agent_id))
        assert stored is not None
        assert stored.identity.status is RegistryStatus.ARCHIVED
    assert project.everything() == before


async def test_a_spawn_that_was_aborted_leaves_no_worktree(living: Opens, project: Project, tmp_path: Path) -> None:
    """It waits for its turn at the repository when the run is aborted: noted, and not made."""
    before = project.everything()
    life = await living(script("true"), home=tmp_path / "home")
    await enter(life, project)
    async with alone(project.common_dir):
        message = await life.say("delegate")
        await errands_become(life, ["worktree.clear"])
        await life.host.lifecycle.abort("main", surface=SURFACE)
        await life.settled(message)
    await errands_become(life, [])
    assert project.everything() == before
    assert await life.tasks() == []


async def kept(life: Living, project: Project) -> tuple[TaskRecord, Path]:
    await enter(life, project)
    await life.ask("delegate")
    await the_result(life)
    task = await the_task(life)
    return task, Path(task.detail["worktree"]["worktree_path"])  # type: ignore[index]


async def test_a_kept_worktree_goes_by_a_persons_word_when_its_work_is_merged(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    life = await living(script(f"echo more >> file-0.txt; {COMMIT}"), home=tmp_path / "home")
    task, path = await kept(life, project)
    refused = await life.host.overseer.remove_worktree("main", task.id)
    assert refused.child_supervision.cleanup_status == "retained"  # type: ignore[union-attr]
    project.git("merge", "-q", f"holon/{task.id}")
    removed = await life.host.overseer.remove_worktree("main", task.id)
    assert removed.child_supervision.cleanup_status == "removed"  # type: ignore[union-attr]
    assert not path.exists()
    assert project.branches() == ["main"]


async def test_a_person_may_give_up_what_a_kept_worktree_holds(living: Opens, project: Project, tmp_path: Path) -> None:
    life = await living(script("echo junk > junk.txt"), home=tmp_path / "home")
    task, path = await kept(life, project)
    removed = await life.host.overseer.remove_worktree("main", task.id, discard=True)
    assert removed.child_supervision.cleanup_status == "removed"  # type: ignore[union-attr]
    assert not path.exists()
    assert project.branches() == ["main"]
    assert (await life.events("worktree_auto_cleaned_up"))[-1].payload["discarded"] is True


async def test_the_task_of_a_kept_worktree_outlives_its_time(living: Opens, project: Project, tmp_path: Path) -> None:
    """Its record is the only one that knows of the worktree."""
    life = await living(script("echo junk > junk.txt"), home=tmp_path / "home")
    task, _ = await kept(life, project)
    long_ago = msgspec.structs.replace(task, updated_at=task.updated_at.replace(year=2000))
    old = msgspec.structs.replace(long_ago, id="task_00000000000000000000000000")
    await life.host.store.write(lambda tx: tasks.save(tx, old))
    policy = RetentionPolicy()
    await retained.enforce(life.host.store, policy)
    assert await life.host.store.read(lambda tx: tasks.get(tx, old.id)) is not None
    gone = {**(old.detail or {}), "worktree": {**old.detail["worktree"], "cleanup_status": "removed"}}  # type: ignore[index]
    await life.host.store.write(lambda tx: tasks.save(tx, msgspec.structs.replace(old, detail=gone)))
    await retained.enforce(life.host.store, policy)
    assert await life.host.store.read(lambda tx: tasks.get(tx, old.id)) is None


@pytest.mark.spec("RT-346")
async def test_no_model_has_a_tool_that_removes_a_worktree(living: Opens) -> None:
    life = await living()
    assert [name for name in life.host.registry.tools if "worktree" in name.lower()] == []


async def test_a_run_tells_which_tasks_it_began_and_what_it_patched(
    living: Opens, project: Project, tmp_path: Path
) -> None:
    patch = "--- a/file-0.txt\n+++ b/file-0.txt\n@@ -1 +1 @@\n-line 0\n+line zero\n"
    words = script("echo new > new.txt").replace(
        '  - when: {pattern: "delegate"}\n    rounds:\n',
        '  - when: {pattern: "delegate"}\n    rounds:\n'
        f"      - tools: [{json.dumps({'name': 'ApplyPatch', 'input': {'patch': patch}})}]\n",
    )
    life = await living(words, home=tmp_path / "home")
    result = await run_once(life.host, RunRequest(text="delegate", workspace=str(project.folder), agent_id="main"))
    assert result.changed_files == ["file-0.txt"]
    (begun_,) = result.tasks
    assert begun_.task.kind is TaskKind.CHILD_AGENT_TASK
    assert begun_.worktree is not None
    assert begun_.worktree["worktree_branch"] == f"holon/{begun_.task.id}"
