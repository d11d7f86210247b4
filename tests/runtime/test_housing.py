"""Housing: workspaces through the real runtime, by the agent's own tool and by the operator's word."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from holon.core.agents import AgentState
from holon.core.briefs import Brief
from holon.core.codec import to_plain
from holon.core.errors import InvalidInput
from holon.core.policy import BackendChoice
from holon.core.workspaces import AGENT_HOME, WorkspaceRefused
from holon.store import workspaces
from holon.workspaces.policies import PolicyOptions
from holon.workspaces.sandbox import examine
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, Living
from tests.workspaces.projects import Project

#: The text says which tool to call with what; the answer is what the tool said.
SCRIPT = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "over: {input}"}]
  - when: {pattern: '^use (?P<path>/\\S+) isolated$'}
    rounds:
      - {tools: [{name: UseWorkspace, input: {path: '{path}', mode: isolated, isolation_label: a try}}]}
      - {text: '{result}'}
  - when: {pattern: '^use (?P<path>/\\S+) isolated in (?P<cwd>\\S+)$'}
    rounds:
      - {tools: [{name: UseWorkspace, input: {path: '{path}', mode: isolated, cwd: '{cwd}'}}]}
      - {text: '{result}'}
  - when: {pattern: '^use (?P<path>[/.]\\S*)$'}
    rounds: [{tools: [{name: UseWorkspace, input: {path: '{path}'}}]}, {text: '{result}'}]
  - when: {pattern: '^use (?P<path>/\\S+) in (?P<cwd>\\S+)$'}
    rounds: [{tools: [{name: UseWorkspace, input: {path: '{path}', cwd: '{cwd}'}}]}, {text: '{result}'}]
  - when: {pattern: '^use (?P<id>\\w+) isolated$'}
    rounds: [{tools: [{name: UseWorkspace, input: {workspace_id: '{id}', mode: isolated}}]}, {text: '{result}'}]
  - when: {pattern: '^use (?P<id>\\w+)$'}
    rounds: [{tools: [{name: UseWorkspace, input: {workspace_id: '{id}'}}]}, {text: '{result}'}]
  - when: {pattern: '^give both'}
    rounds: [{tools: [{name: UseWorkspace, input: {workspace_id: agent_home, path: /srv}}]}, {text: '{result}'}]
  - when: {pattern: '^use$'}
    rounds: [{tools: [{name: UseWorkspace, input: {}}]}, {text: '{result}'}]
  - when: {pattern: '^in (?P<dir>\\S+) run (?P<cmd>.*)'}
    rounds: [{tools: [{name: ExecCommand, input: {cmd: '{cmd}', workdir: '{dir}', login: false}}]}, {text: '{result}'}]
  - when: {pattern: '^run (?P<cmd>.*)'}
    rounds: [{tools: [{name: ExecCommand, input: {cmd: '{cmd}', login: false}}]}, {text: '{result}'}]
  - when: {pattern: '^long (?P<cmd>.*)'}
    rounds: [{tools: [{name: ExecCommand, input: {cmd: '{cmd}', login: false, yield_time_ms: 1}}]}, {text: '{result}'}]
  - when: {pattern: '^patch (?P<file>\\S+)'}
    rounds:
      - {tools: [{name: ApplyPatch, input: {patch: "--- /dev/null\\n+++ b/{file}\\n@@ -0,0 +1 @@\\n+new\\n"}}]}
      - {text: '{result}'}
  - when: {pattern: '^patch'}
    rounds:
      - {tools: [{name: ApplyPatch, input: {patch: "--- /dev/null\\n+++ b/new.txt\\n@@ -0,0 +1 @@\\n+new\\n"}}]}
      - {text: '{result}'}
"""


async def told(life: Living, text: str) -> dict[str, Any]:
    """What the tool answers that this makes the agent call."""
    await life.ask(text)
    answer: dict[str, Any] = json.loads((await life.briefs())[-1].text.split("\n")[0])
    return answer


async def where(life: Living) -> str:
    """Where a command runs."""
    return str((await told(life, "run pwd"))["stdout_preview"].strip())


def folder_of(state: AgentState) -> tuple[str, str]:
    assert state.active_workspace is not None
    return state.active_workspace.workspace_anchor, state.active_workspace.execution_root


@pytest.mark.spec("RT-318", "RT-319")
async def test_a_new_agent_works_in_its_home_and_the_snapshot_says_so(living: Opens, tmp_path: Path) -> None:
    life = await living(SCRIPT)
    home = str(tmp_path / "agents" / "main")
    assert await where(life) == home
    found = (await life.host.views.summary()).execution
    assert (found.workspace_id, found.projection_kind) == (AGENT_HOME, "canonical_root")
    assert (found.workspace_anchor, found.execution_root, found.cwd) == (home, home, home)
    assert (found.profile.backend, found.policy.backend) == ("host_local", "host_local")
    view = await life.host.housing.look((await life.host.views.summary()).identity)
    assert (view.active.execution_root, view.attached_workspaces, view.lost) == (home, [], None)


@pytest.mark.spec("RT-318", "RT-319", "RT-327", "RT-328")
async def test_a_path_is_detected_attached_and_bound(living: Opens, outside: Path) -> None:
    project = Project.new(outside / "project")
    (project.folder / "sub").mkdir()
    life = await living(SCRIPT)
    answer = await told(life, f"use {project.folder}/sub")
    root = str(project.folder)
    assert (answer["workspace_anchor"], answer["execution_root"], answer["cwd"]) == (root, root, f"{root}/sub")
    assert (answer["mode"], answer["projection_kind"]) == ("direct", "canonical_root")
    state = await life.state()
    assert state.attached_workspaces == [answer["workspace_id"]]
    assert state.active_workspace_id == answer["workspace_id"]
    assert folder_of(state) == (root, root)
    assert state.active_workspace is not None
    assert state.active_workspace.execution_root_id
    known = await life.host.store.read(lambda tx: workspaces.get(tx, answer["workspace_id"]))
    assert known is not None
    assert (known.workspace_anchor, known.repo_name) == (root, "project")
    found = (await life.host.views.summary()).execution
    assert (found.workspace_id, found.execution_root_id) == (
        answer["workspace_id"],
        state.active_workspace.execution_root_id,
    )
    assert await where(life) == f"{root}/sub"
    (await told(life, f"use {root}"))["ok"]
    assert (await life.state()).attached_workspaces == [answer["workspace_id"]], "a set: the same is in it once"


@pytest.mark.spec("RT-326")
@pytest.mark.parametrize(("text", "given"), [("give both", "both path and workspace_id"), ("use", "neither")])
async def test_exactly_one_of_path_and_id_is_taken(living: Opens, text: str, given: str) -> None:
    life = await living(SCRIPT)
    refused = await told(life, text)
    assert (refused["ok"], refused["kind"]) == (False, "workspace_refused")
    assert given in refused["message"]
    assert (await told(life, "use agent_home"))["ok"]


@pytest.mark.spec("RT-320")
async def test_a_folder_outside_of_the_root_is_nowhere_to_start(living: Opens, outside: Path) -> None:
    (outside / "project").mkdir()
    (outside / "project" / "way").symlink_to(outside)
    life = await living(SCRIPT)
    for text in (f"use {outside}/project in ..", f"use {outside}/project in way", f"use {outside}/project in /etc"):
        refused = await told(life, text)
        assert (refused["ok"], refused["kind"]) == (False, "execution_root_violation"), text
    assert (await life.state()).active_workspace_id == AGENT_HOME
    await told(life, f"use {outside}/project")
    for folder in ("..", "way", "/etc"):
        refused = await told(life, f"in {folder} run pwd")
        assert (refused["ok"], refused["kind"]) == (False, "execution_root_violation"), folder


@pytest.mark.spec("RT-321", "RT-333", "RT-340", "RT-329", "RT-335")
async def test_isolated_the_root_is_a_worktree_and_the_anchor_stays_also_after_a_restart(
    living: Opens, outside: Path
) -> None:
    project = Project.new(outside / "project")
    life = await living(SCRIPT)
    direct = await told(life, f"use {project.folder}")
    isolated = await told(life, f"use {project.folder} isolated")
    assert isolated["workspace_id"] == direct["workspace_id"]
    assert isolated["workspace_anchor"] == direct["workspace_anchor"] == str(project.folder)
    tree = Path(isolated["execution_root"])
    assert tree != project.folder
    assert (isolated["mode"], isolated["projection_kind"]) == ("isolated", "git_worktree_root")
    assert str(tree) in project.worktrees()
    branch = project.git("branch", "--show-current", folder=tree).strip()
    session = {
        "original_cwd": str(project.folder),
        "original_branch": "main",
        "worktree_path": str(tree),
        "worktree_branch": branch,
    }
    assert "a-try" in branch
    assert (await life.state()).worktree_session == session
    before = await life.state()
    await life.close()

    life = await living(SCRIPT)
    after = await life.state()
    assert (after.active_workspace, after.worktree_session) == (before.active_workspace, session)
    assert await where(life) == str(tree)
    await told(life, "use agent_home")
    assert (await life.state()).worktree_session is None
    assert str(tree) in project.worktrees(), "leaving it removes nothing"
    assert branch in project.branches()


async def test_isolated_starts_in_the_same_folder_and_a_cwd_that_is_none_makes_no_worktree(
    living: Opens, outside: Path
) -> None:
    project = Project.new(outside / "project")
    (project.folder / "sub").mkdir()
    (project.folder / "sub" / "file").write_text("x")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "sub")
    life = await living(SCRIPT)
    inner = await told(life, f"use {project.folder}/sub isolated")
    assert inner["cwd"] == f"{inner['execution_root']}/sub"
    before = project.worktrees()
    refused = await told(life, f"use {project.folder} isolated in nowhere")
    assert (refused["ok"], refused["kind"]) == (False, "execution_root_violation")
    assert project.worktrees() == before


async def test_a_command_ends_at_its_time_limit_on_the_host_too(living: Opens) -> None:
    life = await living(SCRIPT, time_limit_s=1)
    assert "stopped at its time limit" in (await told(life, "run sleep 60"))["notes"]


async def test_home_is_not_isolated_even_inside_of_somebodys_repository(living: Opens, tmp_path: Path) -> None:
    around = Project.new(tmp_path / "dotfiles")
    life = await living(SCRIPT, home=around.folder / "holon")
    refused = await told(life, "use agent_home isolated")
    assert (refused["ok"], "your home is no repository" in refused["message"]) == (False, True)
    assert len(around.worktrees()) == 1


@pytest.mark.spec("RT-330")
async def test_a_worktree_of_an_attached_repository_keeps_its_identity_and_names_isolation(
    living: Opens, outside: Path
) -> None:
    project = Project.new(outside / "project")
    project.git("worktree", "add", "-q", "-b", "side", str(outside / "side"))
    life = await living(SCRIPT)
    parent = await told(life, f"use {project.folder}")
    side = await told(life, f"use {outside}/side")
    assert (side["workspace_id"], side["workspace_anchor"]) == (parent["workspace_id"], str(project.folder))
    assert (side["execution_root"], side["projection_kind"]) == (str(outside / "side"), "git_worktree_root")
    assert f'workspace_id="{parent["workspace_id"]}", mode="isolated"' in side["guidance"]
    assert (await life.state()).attached_workspaces == [parent["workspace_id"]]


@pytest.mark.spec("RT-331", "RT-332", "RT-335")
async def test_an_attached_workspace_is_entered_by_its_id_and_home_always(living: Opens, outside: Path) -> None:
    first, second = Project.new(outside / "first"), outside / "second"
    second.mkdir()
    life = await living(SCRIPT)
    one = (await told(life, f"use {first.folder}"))["workspace_id"]
    two = (await told(life, f"use {second}"))["workspace_id"]
    back = await told(life, f"use {one}")
    assert (back["execution_root"], back["cwd"]) == (str(first.folder), str(first.folder))
    home = await told(life, "use agent_home")
    assert home["workspace_id"] == AGENT_HOME
    assert await where(life) == home["execution_root"]
    state = await life.state()
    assert (state.active_workspace_id, state.attached_workspaces) == (AGENT_HOME, [one, two])
    for workspace_id in (one, two):
        assert await life.host.store.read(lambda tx, id_=workspace_id: workspaces.get(tx, id_))  # type: ignore[misc]
    assert first.folder.is_dir()
    assert second.is_dir()
    unknown = await told(life, "use ws_of_nobody")
    assert (unknown["ok"], unknown["kind"]) == (False, "workspace_refused")
    assert one in unknown["hint"]


@pytest.mark.spec("RT-325", "RT-346")
async def test_no_tool_shows_who_holds_a_root_or_removes_a_worktree(living: Opens, outside: Path) -> None:
    project = Project.new(outside / "project")
    life = await living(SCRIPT)
    answers = [await told(life, f"use {project.folder}{mode}") for mode in ("", " isolated")]
    offered = {tool.name: tool for tool in life.model.requests[-1].tools}
    for text in (json.dumps(answers), json.dumps(offered["UseWorkspace"].input_schema)):
        assert not [word for word in ("occupancy", "holder", "access_mode", "lease") if word in text]
    naming = {name for name, tool in offered.items() if "worktree" in f"{name} {tool.description}".lower()}
    for name in naming | {"UseWorkspace"}:
        described = f"{name} {offered[name].description} {offered[name].input_schema}".lower()
        assert not [word for word in ("remove", "delete", "prune", "cleanup", "discard") if word in described], name


@pytest.mark.spec("RT-334", "RT-337")
async def test_neither_home_nor_the_active_workspace_can_be_detached(living: Opens, outside: Path) -> None:
    life = await living(SCRIPT)
    active = (await life.host.housing.enter("main", outside, surface=SURFACE)).active.workspace_id
    for workspace_id, hint in ((AGENT_HOME, "detach another"), (active, "switch first")):
        with pytest.raises(WorkspaceRefused) as refused:
            await life.host.housing.leave("main", workspace_id, surface=SURFACE)
        assert hint in str(refused.value)
    home = await life.host.housing.enter("main", None, workspace_id=AGENT_HOME, surface=SURFACE)
    assert home.active.workspace_id == AGENT_HOME
    with pytest.raises(WorkspaceRefused):
        await life.host.housing.leave("main", AGENT_HOME, surface=SURFACE)
    left = await life.host.housing.leave("main", active, surface=SURFACE)
    assert (left.active.workspace_id, left.attached_workspaces) == (AGENT_HOME, [])


@pytest.mark.spec("RT-336", "RT-338", "RT-339")
async def test_detaching_touches_the_agents_own_set_only_also_where_the_folder_is_gone(
    living: Opens, outside: Path
) -> None:
    project = Project.new(outside / "project")
    life = await living(SCRIPT)
    await life.host.agents.create("other", surface=SURFACE)
    for agent_id in ("main", "other"):
        used = await life.host.housing.enter(agent_id, project.folder, surface=SURFACE)
    workspace_id = used.active.workspace_id
    tree = Path((await told(life, f"use {project.folder} isolated"))["execution_root"])
    await life.host.housing.enter("main", None, workspace_id=AGENT_HOME, surface=SURFACE)
    with pytest.raises(WorkspaceRefused, match="workspace_id"):
        await life.host.housing.leave("main", "", surface=SURFACE)
    await life.host.housing.leave("main", workspace_id, surface=SURFACE)
    assert (await life.state()).attached_workspaces == []
    assert (await life.state("other")).attached_workspaces == [workspace_id]
    assert (project.folder / "file-0.txt").exists()
    assert str(tree) in project.worktrees()
    assert await life.host.store.read(lambda tx: workspaces.get(tx, workspace_id))

    await life.host.housing.enter("other", None, workspace_id=AGENT_HOME, surface=SURFACE)
    shutil.rmtree(project.folder)
    left = await life.host.housing.leave("other", workspace_id, surface=SURFACE)
    assert left.attached_workspaces == []


async def test_who_moved_an_agent_is_in_its_log(living: Opens, outside: Path) -> None:
    life = await living(SCRIPT)
    await told(life, f"use {outside}")
    used = await life.host.housing.enter("main", None, workspace_id=AGENT_HOME, surface="http_control")
    workspace_id = used.attached_workspaces[0]
    await life.host.housing.leave("main", workspace_id, surface="local_socket")
    told_of = [
        (event.type, event.payload["workspace_id"], event.payload.get("surface"))
        for event in await life.events("workspace_used", "workspace_detached")
    ]
    assert told_of == [
        ("workspace_used", workspace_id, None),
        ("workspace_used", AGENT_HOME, "http_control"),
        ("workspace_detached", workspace_id, "local_socket"),
    ]


@pytest.mark.spec("RT-318")
@pytest.mark.parametrize("doing", ["run touch made-in-the-wrong-place", "patch"])
async def test_an_agent_whose_folder_vanished_is_told_once_and_nothing_is_done_elsewhere(
    living: Opens, outside: Path, tmp_path: Path, doing: str
) -> None:
    project = Project.new(outside / "project")
    life = await living(SCRIPT)
    tree = Path((await told(life, f"use {project.folder} isolated"))["execution_root"])
    await life.close()
    shutil.rmtree(tree)
    life = await living(SCRIPT)
    home = tmp_path / "agents" / "main"
    view = await life.host.housing.look((await life.host.views.summary()).identity)
    assert view.lost is not None
    assert (str(tree) in view.lost, view.active.execution_root) == (True, str(home))

    before = sorted(os.listdir(home))
    refused = await told(life, doing)
    assert (refused["ok"], refused["kind"]) == (False, "workspace_lost")
    assert str(tree) in refused["message"]
    assert str(home) in refused["hint"]
    assert sorted(os.listdir(home)) == before
    assert not (project.folder / "made-in-the-wrong-place").exists(), "it was kept apart from there"

    assert await where(life) == str(home)
    state = await life.state()
    assert (state.active_workspace_id, state.worktree_session) == (AGENT_HOME, None)
    assert len(state.attached_workspaces) == 1
    (lost,) = await life.events("workspace_lost")
    assert str(tree) in lost.payload["lost"]


async def test_a_folder_in_the_root_that_vanished_is_given_up_for_the_root(living: Opens, outside: Path) -> None:
    (outside / "project" / "sub").mkdir(parents=True)
    life = await living(SCRIPT)
    used = await told(life, f"use {outside}/project in sub")
    (outside / "project" / "sub").rmdir()
    assert (await told(life, "run pwd"))["kind"] == "workspace_lost"
    assert await where(life) == str(outside / "project")
    assert (await life.state()).active_workspace_id == used["workspace_id"]


async def test_a_path_that_is_not_absolute_begins_where_the_agent_is(living: Opens, outside: Path) -> None:
    (outside / "project" / "sub").mkdir(parents=True)
    life = await living(SCRIPT)
    await told(life, f"use {outside}/project")
    assert (await told(life, "use ./sub"))["execution_root"] == str(outside / "project" / "sub")


async def test_what_is_the_systems_or_the_runtimes_cannot_be_a_workspace(living: Opens, tmp_path: Path) -> None:
    life = await living(SCRIPT)
    await life.host.agents.create("other", surface=SURFACE)
    await life.at_rest("other")
    for path in (tmp_path, tmp_path / "state", tmp_path / "agents" / "other", Path("/etc"), Path("/")):
        refused = await told(life, f"use {path}")
        assert (refused["ok"], refused["kind"]) == (False, "workspace_refused"), path
        with pytest.raises(WorkspaceRefused):
            await life.host.housing.enter("main", path, surface=SURFACE)
    assert (await life.state()).attached_workspaces == []


async def test_no_patch_reaches_what_git_or_the_runtime_acts_on(living: Opens, outside: Path, tmp_path: Path) -> None:
    project = Project.new(outside / "project")
    (project.folder / "way").symlink_to(".git")
    life = await living(SCRIPT)
    records = tmp_path / "agents" / "main" / "task-output"
    for file in ("task-output/task_1/started.json", "task-output/new"):
        refused = await told(life, f"patch {file}")
        assert (refused["ok"], refused["kind"]) == (False, "execution_root_violation"), file
    assert not records.exists()
    await told(life, "long sleep 0.2")
    (record,) = records.iterdir()
    assert (await told(life, f"use {record}"))["kind"] == "workspace_refused"

    await told(life, f"use {project.folder}")
    for file in (
        ".git/hooks/post-commit",
        ".GIT/hooks/post-commit",
        "way/hooks/post-commit",
        "./x/../.git/new",
        "vendor/part/.git/config",
    ):
        refused = await told(life, f"patch {file}")
        assert (refused["ok"], refused["kind"]) == (False, "execution_root_violation"), file
    assert not (project.folder / ".git" / "hooks" / "post-commit").exists()
    assert (await told(life, "patch task-output/new"))["ok"], "there it is a name like any other"


@pytest.mark.spec("RT-323")
async def test_the_one_gate_stops_processes_background_tasks_and_worktrees(living: Opens, outside: Path) -> None:
    project = Project.new(outside / "project")
    life = await living(SCRIPT)
    await told(life, f"use {project.folder}")
    confinement = life.host.confinement

    confinement.options = PolicyOptions(worktrees=False)
    assert (await told(life, f"use {project.folder} isolated"))["kind"] == "execution_denied"
    assert project.worktrees() == [str(project.folder)]
    assert (await told(life, "run echo fine"))["stdout_preview"] == "fine\n"

    confinement.options = PolicyOptions(background_tasks=False)
    assert (await told(life, "run echo fine"))["stdout_preview"] == "fine\n"
    denied = await told(life, "long sleep 4712; touch made")
    assert denied["kind"] == "execution_denied"
    assert "background" in denied["message"]
    assert await life.tasks() == []
    assert not (project.folder / "made").exists()

    confinement.options = PolicyOptions(processes=False)
    assert (await told(life, "run touch made"))["kind"] == "execution_denied"
    assert not (project.folder / "made").exists()


@pytest.mark.spec("RT-324")
async def test_the_offered_tools_follow_what_the_agent_may_do(living: Opens) -> None:
    life = await living(SCRIPT)

    async def offered() -> set[str]:
        await life.ask("hello")
        return {tool.name for tool in life.model.requests[-1].tools}

    commands = {"ExecCommand", "ExecCommandBatch"}
    everything = await offered()
    assert commands < everything
    life.host.confinement.look = lambda: examine([])
    await life.host.confinement.set("main", BackendChoice.SANDBOXED, surface=SURFACE, force=True)
    assert await offered() == everything - commands
    await life.host.confinement.set("main", None, surface=SURFACE)
    assert await offered() == everything


@pytest.mark.spec("RT-020")
async def test_who_decides_sees_the_policy_and_where_the_message_came_from(living: Opens) -> None:
    life = await living(SCRIPT)
    life.host.confinement.options = PolicyOptions(processes=False)
    said: list[Brief] = []
    for message_id in (await life.say("run touch made"), await life.channel("run touch made")):
        await life.settled(message_id)
        (entry,) = [b for b in await life.briefs() if b.text.startswith("{") and b.id not in {s.id for s in said}]
        said.append(entry)
    details = [json.loads(entry.text)["details"] for entry in said]
    labels = [(each["trust"], each["authority_class"]) for each in details]
    assert [(each["action"], each["backend"]) for each in details] == [("process", "host_local")] * 2
    envelopes = [(message.trust, message.authority_class) for message in (await life.messages())[-2:]]
    assert labels == envelopes
    assert labels[0] != labels[1]


async def test_without_a_sandbox_auto_takes_the_host_and_says_so(living: Opens) -> None:
    life = await living(SCRIPT)
    confinement = life.host.confinement
    confinement.look = lambda: examine([])
    with pytest.raises(InvalidInput, match="cannot be confined here: there is no 'bwrap'"):
        await confinement.set("main", BackendChoice.SANDBOXED, surface=SURFACE)
    outcome = await confinement.set("main", BackendChoice.AUTO, surface=SURFACE)
    assert outcome.backend.effective == "host_local"
    assert "commands are not confined: there is no 'bwrap'" in outcome.backend.reason
    assert (await told(life, "run echo fine"))["stdout_preview"] == "fine\n"
    policy = (await life.host.views.summary()).execution.policy
    assert "hard_enforced" not in to_plain(policy.process_execution).values()


async def test_an_agent_that_must_be_sandboxed_and_cannot_be_runs_nothing(living: Opens) -> None:
    life = await living(SCRIPT)
    confinement = life.host.confinement
    confinement.look = lambda: examine([])
    outcome = await confinement.set("main", BackendChoice.SANDBOXED, surface=SURFACE, force=True)
    assert (outcome.backend.effective, outcome.backend.reason[:11]) == ("sandboxed", "chosen, but")
    refused = await told(life, "run echo out")
    assert (refused["ok"], refused["kind"]) == (False, "execution_denied")
    policy = (await life.host.views.summary()).execution.policy
    assert (policy.process_execution_exposed, "hard_enforced" in to_plain(policy.process_execution).values()) == (
        False,
        False,
    )


async def test_two_calls_at_once_are_told_of_one_loss(living: Opens, outside: Path) -> None:
    """The agent is housed anew once, whoever notices first."""
    (outside / "project").mkdir()
    life = await living(SCRIPT)
    await told(life, f"use {outside}/project")
    (outside / "project").rmdir()
    identity = (await life.host.views.summary()).identity
    found = await asyncio.gather(*(life.host.housing.place(identity) for _ in range(3)), return_exceptions=True)
    assert any(isinstance(each, Exception) for each in found)
    assert len(await life.events("workspace_lost")) == 1
