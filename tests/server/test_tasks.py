"""Tasks and workspaces over HTTP, with real commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.harness import SCRIPTS, Running, running, until
from tests.workspaces.projects import Project

#: `run CMD` starts a command that becomes a task at once; its result is only noticed.
HANDS = """
rules:
  - when: {kind: task_result}
    rounds: [{text: noticed}]
  - when: {pattern: '^delegate (?P<cmd>.*)'}
    rounds:
      - tools:
          - {name: SpawnAgent, input: {initial_message: 'do {cmd}', workspace_mode: worktree}}
      - text: asked
  - when: {pattern: '^do (?P<cmd>.*)'}
    rounds:
      - {tools: [{name: ExecCommand, input: {cmd: '{cmd}', login: false}}]}
      - text: done
  - when: {pattern: '^run (?P<cmd>.*)'}
    rounds:
      - tools:
          - {name: ExecCommand, input: {cmd: '{cmd}', login: false, accepts_input: true, yield_time_ms: 1}}
      - text: '{result}'
"""


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setitem(SCRIPTS, "hands", HANDS)
    with running(home, model_default="scripted/hands") as live:
        yield live


def started(server: Running, command: str) -> str:
    """A task of the main agent that runs this; the path of its routes."""
    server.settled(server.prompt(f"run {command}"))
    (task,) = server.local.get("/agents/main/tasks").json()
    assert task["kind"] == "command_task"
    return f"/control/agents/main/tasks/{task['id']}"


def over(server: Running, path: str) -> dict[str, Any]:
    """The task, once it is over."""

    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = server.local.get(path).json()
        return found if found["status"] in ("completed", "failed", "cancelled") else None

    return until(look)


@pytest.mark.spec("RT-284")
def test_the_output_of_a_task_can_be_waited_for(server: Running) -> None:
    path = started(server, "sleep 0.3; echo done")
    early = server.local.get(f"{path}/output").json()
    assert early["retrieval_status"] == "not_ready"
    late = server.local.get(f"{path}/output", params={"block": True, "timeout_ms": 8_000}).json()
    assert (late["retrieval_status"], late["task"]["output_preview"]) == ("success", "done\n")
    shown = server.local.get(path).json()
    assert (shown["status"], shown["command"]["cmd"], shown["command"]["exit_status"]) == (
        "completed",
        "sleep 0.3; echo done",
        0,
    )
    assert "output_preview" not in shown


def test_a_wait_that_is_too_short_says_so(server: Running) -> None:
    path = started(server, "sleep 30")
    shown = server.local.get(f"{path}/output", params={"block": True, "timeout_ms": 20}).json()
    assert (shown["retrieval_status"], shown["task"]["status"]) == ("timeout", "running")
    server.local.post(f"{path}/stop", json={"force": True})
    assert over(server, path)["status"] == "cancelled"


def test_a_task_takes_input_from_an_operator(server: Running) -> None:
    path = started(server, "read word; echo got $word")
    receipt = server.local.post(f"{path}/input", json={"input": "tea\n"}).json()
    assert (receipt["accepted_input"], receipt["input_target"], receipt["bytes_written"]) == (True, "stdin", 4)
    shown = server.local.get(f"{path}/output", params={"block": True, "timeout_ms": 8_000}).json()
    assert shown["task"]["output_preview"] == "got tea\n"
    late = server.local.post(f"{path}/input", json={"input": "more"}).json()
    assert (late["accepted_input"], late["summary_text"]) == (False, "the task is over")


def test_a_task_is_stopped_once_and_its_agent_is_told(server: Running) -> None:
    path = started(server, "sleep 30")
    first = server.local.post(f"{path}/stop").json()
    assert (first["stop_requested"], first["force_stop_requested"]) == (True, False)
    assert over(server, path)["status"] == "cancelled"
    again = server.local.post(f"{path}/stop", json={"force": True}).json()
    assert (again["stop_requested"], again["task"]["status"]) == (False, "cancelled")
    until(lambda: any(brief["text"] == "noticed" for brief in server.local.get("/agents/main/briefs").json()))


def test_a_task_of_another_agent_is_not_found(server: Running) -> None:
    task_id = started(server, "sleep 0.1").rsplit("/", 1)[1]
    server.local.post("/control/agents/other/create")
    for method, rest in (("GET", ""), ("GET", "/output"), ("POST", "/stop")):
        answer = server.local.request(method, f"/control/agents/other/tasks/{task_id}{rest}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "holon task list --agent other" in answer.json()["hint"]


def test_a_stranger_sees_no_task_and_moves_no_agent(server: Running) -> None:
    assert server.stranger.get("/control/agents/main/tasks/task_1").status_code == 401
    assert server.stranger.post("/control/agents/main/workspace/use", json={"path": "/"}).status_code == 401


@pytest.mark.spec("RT-320")
def test_an_agent_is_sent_to_a_folder_and_its_commands_run_there(server: Running, tmp_path: Path) -> None:
    home = server.local.get("/agents/main/workspace").json()
    assert (home["active"]["workspace_id"], home["attached_workspaces"]) == ("agent_home", [])

    used = server.local.post("/control/agents/main/workspace/use", json={"path": str(tmp_path)}).json()
    assert used["active"]["cwd"] == str(tmp_path)
    assert server.local.get("/agents/main/workspace").json() == used
    path = started(server, "sleep 0.1; pwd")
    shown = server.local.get(f"{path}/output", params={"block": True, "timeout_ms": 8_000}).json()
    assert shown["task"]["output_preview"] == f"{tmp_path}\n"


def test_only_a_workspace_that_is_not_active_can_be_detached(server: Running, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    ids = []
    for folder in (first, second):
        folder.mkdir()
        used = server.local.post("/control/agents/main/workspace/use", json={"path": str(folder)}).json()
        ids.append(used["active"]["workspace_id"])
    refused = server.local.post("/control/agents/main/workspace/detach", json={"workspace_id": ids[1]})
    assert (refused.status_code, refused.json()["code"]) == (400, "workspace_refused")
    left = server.local.post("/control/agents/main/workspace/detach", json={"workspace_id": ids[0]}).json()
    assert ids[0] not in left["attached_workspaces"]
    assert first.is_dir()


def test_a_folder_that_is_not_there_is_refused(server: Running, tmp_path: Path) -> None:
    answer = server.local.post("/control/agents/main/workspace/use", json={"path": str(tmp_path / "nowhere")})
    assert answer.status_code == 400
    assert "nowhere" in answer.json()["detail"]


@pytest.mark.spec("RT-342", "RT-345")
def test_a_kept_worktree_is_summed_up_and_removed_on_request(server: Running, tmp_path: Path) -> None:
    project = Project.new(tmp_path / "shop")
    server.local.post("/control/agents/main/workspace/use", json={"path": str(project.folder)}).raise_for_status()
    server.settled(server.prompt("delegate echo new > new.txt"))
    (task,) = server.local.get("/agents/main/tasks").json()
    path = f"/control/agents/main/tasks/{task['id']}"
    server.local.get(f"{path}/output", params={"block": True, "timeout_ms": 8_000}).raise_for_status()
    (kept,) = server.local.get("/agents/main/worktree-summary").json()["summary"]
    assert (kept["task_id"], kept["worktree"]["cleanup_status"]) == (task["id"], "retained")
    assert kept["worktree"] == server.local.get(path).json()["child_supervision"]["worktree"]
    still = server.local.post(f"{path}/worktree/remove").json()
    assert still["child_supervision"]["cleanup_status"] == "retained"
    gone = server.local.post(f"{path}/worktree/remove", json={"discard": True}).json()
    assert gone["child_supervision"]["cleanup_status"] == "removed"
    assert project.branches() == ["main"]
    assert server.local.post("/control/agents/main/tasks/task_none/worktree/remove").status_code == 404
