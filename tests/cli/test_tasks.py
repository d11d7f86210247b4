"""`holon task`, `holon workspace` and `holon run --workspace`, with real commands on a real daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, a_home, serving
from tests.workspaces.projects import Project

HANDS = """
rules:
  - when: {kind: task_result}
    rounds: [{text: noticed}]
  - when: {pattern: '^quick (?P<cmd>.*)'}
    rounds:
      - {tools: [{name: ExecCommand, input: {cmd: '{cmd}', login: false}}]}
      - text: '{result}'
  - when: {pattern: '^delegate (?P<cmd>.*)'}
    rounds:
      - tools:
          - {name: SpawnAgent, input: {initial_message: 'quick {cmd}', workspace_mode: worktree}}
      - text: asked
  - when: {pattern: '^long (?P<cmd>.*)'}
    rounds:
      - tools:
          - {name: ExecCommand, input: {cmd: '{cmd}', login: false, accepts_input: true, yield_time_ms: 1}}
      - text: started
"""


@pytest.fixture(scope="module")
def hands() -> Iterator[Cli]:
    with a_home() as cli:
        (cli.home / "scripts" / "hands.yaml").write_text(HANDS)
        able = Cli(cli.home, {"HOLON_MODEL": "scripted/hands"})
        with serving(able):
            yield able


def started(cli: Cli, agent: str, command: str) -> str:
    """An agent of the test's own with this command as its one task; the task's id."""
    cli.json("agent", "create", agent)
    assert cli.json("prompt", f"long {command}", "--agent", agent)["text"] == "started"
    (task,) = cli.json("task", "list", "--agent", agent)
    return str(task["id"])


def test_a_task_is_listed_and_its_output_waited_for(hands: Cli) -> None:
    task = started(hands, "waiter", "sleep 0.3; echo done")
    assert hands("task", "output", task, "--agent", "waiter", "--wait", "20s").out == "done\n"
    listed = hands("task", "list", "--agent", "waiter").out
    assert listed.split()[:5] == ["task", "kind", "status", "since", "summary"]
    assert task in listed
    shown = hands("task", "status", task, "--agent", "waiter").out
    assert f"{task} is completed" in shown
    assert "sleep 0.3; echo done" in shown


def test_a_line_is_typed_into_a_task(hands: Cli) -> None:
    task = started(hands, "reader", "read word; echo got $word")
    assert hands("task", "input", task, "tea", "--agent", "reader").out == "4 bytes delivered\n"
    assert hands("task", "output", task, "--agent", "reader", "--wait", "20s").out == "got tea\n"


def test_a_task_is_stopped(hands: Cli) -> None:
    task = started(hands, "stopper", "sleep 30")
    early = hands("task", "output", task, "--agent", "stopper")
    assert (early.code, "--wait" in early.err) == (0, True)
    assert hands("task", "stop", task, "--force", "--agent", "stopper").out == f"{task} was asked to end\n"
    hands("task", "output", task, "--agent", "stopper", "--wait", "20s")
    assert hands("task", "stop", task, "--agent", "stopper").out == f"{task} is cancelled\n"


def test_a_task_that_is_not_there_is_refused_with_the_next_step(hands: Cli) -> None:
    done = hands("task", "status", "task_nowhere", "--json")
    assert (done.code, done.problem["code"]) == (2, "not_found")
    assert "holon task list" in done.problem["hint"]


def test_an_agent_works_where_it_is_told_to(hands: Cli, tmp_path: Path) -> None:
    hands.json("agent", "create", "mover")
    assert f"works in {tmp_path}" in hands("workspace", "use", str(tmp_path), "--agent", "mover").out
    shown = hands.json("workspace", "show", "--agent", "mover")
    assert shown["active"]["cwd"] == str(tmp_path)
    assert f'"stdout_preview":"{tmp_path}\\n"' in hands("prompt", "quick pwd", "--agent", "mover").out
    other = tmp_path / "other"
    other.mkdir()
    hands.json("workspace", "use", str(other), "--agent", "mover")
    left = hands.json("workspace", "detach", shown["active"]["workspace_id"], "--agent", "mover")
    assert shown["active"]["workspace_id"] not in left["attached_workspaces"]


@pytest.mark.parametrize("through_daemon", [True, False])
def test_a_run_works_in_the_workspace_that_it_is_given(through_daemon: bool, hands: Cli, tmp_path: Path) -> None:
    if through_daemon:
        done = hands("run", "quick pwd", "--workspace", str(tmp_path))
    else:
        with a_home() as alone:
            (alone.home / "scripts" / "hands.yaml").write_text(HANDS)
            done = alone("run", "quick pwd", "--workspace", str(tmp_path), HOLON_MODEL="scripted/hands")
    assert done.code == 0, done
    assert f'"stdout_preview":"{tmp_path}\\n"' in done.out


def test_a_run_in_a_folder_that_is_not_there_begins_nothing(hands: Cli, tmp_path: Path) -> None:
    done = hands("run", "quick pwd", "--workspace", str(tmp_path / "nowhere"), "--json")
    assert (done.code, done.out) == (2, "")
    assert "nowhere" in done.problem["detail"]


def delegated(cli: Cli, agent: str, project: Project, command: str) -> str:
    """An agent of the test's own, whose child ran this command in a worktree of the project; the child's task."""
    cli.json("agent", "create", agent)
    cli.json("workspace", "use", str(project.folder), "--agent", agent)
    cli.json("prompt", f"delegate {command}", "--agent", agent)
    (task,) = cli.json("task", "list", "--agent", agent)
    cli.json("task", "output", task["id"], "--agent", agent, "--wait", "20s")
    return str(task["id"])


@pytest.mark.spec("RT-342", "RT-345")
def test_a_worktree_that_was_kept_is_shown_with_its_task_and_goes_by_the_operators_word(
    hands: Cli, tmp_path: Path
) -> None:
    project = Project.new(tmp_path / "shop")
    task = delegated(hands, "leader", project, "echo more >> file-0.txt")
    path = project.folder.parent / ".holon-worktrees-shop" / f"holon-{task}"
    shown = hands("task", "status", task, "--agent", "leader").out
    for words in (str(path), f"holon/{task}", "retained", "file-0.txt", f"git -C {path} diff"):
        assert words in shown
    listed = hands("task", "worktrees", "--agent", "leader").out
    assert listed.split()[:5] == ["task", "status", "worktree", "changed", "path"]
    assert listed.split()[5:9] == [task, "completed", "retained", "1"]
    refused = hands("task", "remove-worktree", task, "--agent", "leader")
    assert (refused.code, "--discard" in refused.err) == (2, True)
    assert path.exists()
    assert "are removed" in hands("task", "remove-worktree", task, "--agent", "leader", "--discard").out
    assert project.branches() == ["main"]
    assert not path.exists()
    again = hands.json("task", "remove-worktree", task, "--agent", "leader")
    assert again["child_supervision"]["cleanup_status"] == "removed"


def test_a_task_without_a_worktree_has_none_to_remove(hands: Cli) -> None:
    task = started(hands, "plain", "sleep 0.2")
    refused = hands("task", "remove-worktree", task, "--agent", "plain", "--json")
    assert (refused.code, refused.problem["code"]) == (2, "not_found")
    assert "holon task worktrees --agent plain" in refused.problem["hint"]
