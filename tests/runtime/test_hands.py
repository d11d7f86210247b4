"""Hands: commands, patches, tasks and workspaces through real turns, with real processes and a real repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holon.core.messages import MessageKind
from tests.runtime.conftest import Opens


def script(*rounds: str, result: str = "result {input}") -> str:
    """A turn that plays these tool calls, one a round, and then says what the last one brought."""
    lines = "\n".join(f"      - tools: [{call}]" for call in rounds)
    return f"""
rules:
  - when: {{kind: task_result}}
    rounds: [{{text: "{result}"}}]
  - rounds:
{lines}
      - text: "{{result}}"
"""


def call(name: str, **arguments: Any) -> str:
    """One tool call. Commands do not read the login profile: it is the machine's, not ours."""
    if name == "ExecCommand":
        arguments = {"login": False, **arguments}
    return json.dumps({"name": name, "input": arguments})


def repository(folder: Path) -> Path:
    """A real repository with one file and one commit."""
    folder.mkdir()
    (folder / "hello.py").write_text("print('helo')\n")
    identity = ["-c", "user.email=a@b.c", "-c", "user.name=a"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


async def told(life: Any) -> dict[str, Any]:
    """What the model was told by the last tool of the turn."""
    brief = (await life.briefs())[-1]
    answer: dict[str, Any] = json.loads(brief.text.split("\n")[0])
    return answer


@pytest.mark.spec("RT-258", "RT-260", "RT-272")
async def test_a_quick_command_is_completed_with_both_streams(living: Opens) -> None:
    life = await living(script(call("ExecCommand", cmd="echo out; echo err >&2; exit 3")))
    await life.ask("go")
    answer = await told(life)
    assert (answer["disposition"], answer["exit_status"]) == ("completed", 3)
    assert (answer["stdout_preview"], answer["stderr_preview"]) == ("out\n", "err\n")
    assert answer["truncated"] is False
    assert "task_handle" not in answer
    assert await life.tasks() == []


@pytest.mark.spec("RT-259", "RT-264", "RT-278", "RT-280", "RT-031", "RT-051", "RT-111")
async def test_a_long_command_becomes_a_task_and_its_result_comes_back_once(living: Opens) -> None:
    life = await living(script(call("ExecCommand", cmd="sleep 0.6; echo finished", yield_time_ms=50)))
    await life.ask("go")
    answer = await told(life)
    assert answer["disposition"] == "promoted_to_task"
    task_id = answer["task_handle"]["task_id"]
    await life.until(lambda: said(life, "finished"))
    results = [m for m in await life.messages() if m.kind is MessageKind.TASK_RESULT]
    assert [(m.task_id, m.trust, m.authority_class) for m in results] == [
        (task_id, "trusted_system", "runtime_instruction")
    ]
    (task,) = await life.tasks()
    assert (task.status, task.detail["exit_status"]) == ("completed", 0)
    assert (await life.state()).active_task_ids == []


async def said(life: Any, text: str) -> bool | None:
    return any(text in brief.text for brief in await life.briefs()) or None


@pytest.mark.spec("RT-261", "RT-262")
async def test_the_same_command_is_not_started_twice_unless_asked_for(living: Opens) -> None:
    slow = {"cmd": "sleep 30", "yield_time_ms": 50}
    life = await living(
        script(
            call("ExecCommand", **slow),
            call("ExecCommand", **slow),
            call("ExecCommand", **slow, duplicate_policy="start_new"),
            call("TaskList"),
        )
    )
    await life.ask("go")
    listed = (await told(life))["tasks"]
    assert len(listed) == 2
    for task in listed:
        await life.host.commands.stop(task["id"], force=True)


@pytest.mark.spec("RT-250")
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [({"cmd": "true", "workdir": "../.."}, "execution_root_violation"), ({"cmd": "true", "shell": "nosuch"}, "shell")],
)
async def test_what_cannot_run_says_why(living: Opens, arguments: dict[str, Any], kind: str) -> None:
    life = await living(script(call("ExecCommand", **arguments)))
    await life.ask("go")
    answer = await told(life)
    assert answer["ok"] is False
    assert kind in answer["kind"]
    assert answer["hint"]


@pytest.mark.spec("RT-266", "RT-267", "RT-268", "RT-269", "RT-270")
async def test_a_batch_runs_in_order_and_keeps_its_items_apart(living: Opens) -> None:
    commands: list[dict[str, Any]] = [
        {"cmd": "echo one"},
        {"cmd": "exit 2"},
        {"cmd": "sleep 9", "yield_time_ms": 50},
        {"cmd": "echo two"},
    ]
    items = [{"login": False, **item} for item in commands]
    life = await living(script(call("ExecCommandBatch", items=items)))
    await life.ask("go")
    text = (await life.briefs())[-1].text
    head = json.loads(text.split("\n")[0])
    assert (head["item_count"], head["completed_count"], head["failed_count"]) == (4, 3, 1)
    assert text.index("[0] completed: echo one") < text.index("[1] completed: exit 2") < text.index("[3] completed")
    assert "[2] failed: sleep 9" in text
    assert await life.tasks() == []


@pytest.mark.spec("RT-252", "RT-320")
async def test_a_patch_changes_the_repository_that_the_agent_uses(living: Opens, tmp_path: Path) -> None:
    repo = repository(tmp_path / "project")
    diff = "--- a/hello.py\n+++ b/hello.py\n@@ -1 +1 @@\n-print('helo')\n+print('hello')\n"
    life = await living(
        script(
            call("UseWorkspace", path=str(repo)),
            call("ApplyPatch", patch=diff),
            call("ExecCommand", cmd=f"{sys.executable} hello.py && pwd"),
        )
    )
    await life.ask("mend it")
    answer = await told(life)
    assert answer.get("stderr_preview") == ""
    assert answer["stdout_preview"] == f"hello\n{repo}\n"
    assert (repo / "hello.py").read_text() == "print('hello')\n"
    state = await life.state()
    assert state.active_workspace is not None
    assert state.active_workspace.workspace_anchor == str(repo)


@pytest.mark.spec("RT-284", "RT-293", "RT-299", "RT-072")
async def test_output_can_be_waited_for_inside_the_turn(living: Opens) -> None:
    rules = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "later"}]
  - when: {pattern: "wait for (\\\\S+)"}
    rounds:
      - tools: [{name: TaskOutput, input: {task_id: "{1}", timeout_ms: 5000}}]
      - text: "{result}"
  - rounds:
      - tools: [{name: ExecCommand, input: {cmd: "sleep 0.4; echo done", login: false, yield_time_ms: 50}}]
      - text: "{result}"
"""
    life = await living(rules)
    await life.ask("start")
    task_id = (await told(life))["task_handle"]["task_id"]
    await life.ask(f"wait for {task_id}")
    answer = json.loads(next(b.text for b in await life.briefs() if "retrieval_status" in b.text))
    assert answer["retrieval_status"] == "success"
    assert answer["task"]["output_preview"] == "done\n"
    statuses = [event.payload["after"] for event in await life.events("agent_state_changed")]
    assert "awaiting_task" in statuses


@pytest.mark.spec("RT-300", "RT-301", "RT-302", "RT-303")
async def test_a_task_takes_input_and_can_be_stopped(living: Opens) -> None:
    rules = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "over: {input}"}]
  - when: {pattern: "type into (\\\\S+)"}
    rounds:
      - tools: [{name: TaskInput, input: {task_id: "{1}", input: "hello\\n"}}]
      - text: "{result}"
  - when: {pattern: "stop (\\\\S+)"}
    rounds:
      - tools: [{name: TaskStop, input: {task_id: "{1}"}}]
      - text: "{result}"
  - rounds:
      - tools: [{name: ExecCommand, input: {cmd: "cat; sleep 60", login: false, accepts_input: true, yield_time_ms: 9}}]
      - text: "{result}"
"""
    life = await living(rules)
    await life.ask("start")
    task_id = (await told(life))["task_handle"]["task_id"]
    await life.ask(f"type into {task_id}")
    answer = await told(life)
    assert (answer["accepted_input"], answer["input_target"], answer["bytes_written"]) == (True, "stdin", 6)
    await life.ask(f"stop {task_id}")
    assert (await told(life))["stop_requested"] is True
    await life.until(lambda: said(life, "over:"))
    (task,) = await life.tasks()
    assert task.status == "cancelled"


async def test_a_task_of_another_agent_is_unknown(living: Opens) -> None:
    life = await living(script(call("TaskStatus", task_id="task_of_somebody_else")))
    await life.ask("look")
    answer = await told(life)
    assert (answer["kind"], answer["ok"]) == ("unknown_task", False)


@pytest.mark.spec("RT-281", "RT-282")
async def test_a_command_outlives_the_host_and_its_result_is_taken_once(living: Opens) -> None:
    play = script(call("ExecCommand", cmd="sleep 0.7; echo survived", yield_time_ms=50))
    life = await living(play)
    await life.ask("go")
    await life.close()
    life = await living(play)
    await life.until(lambda: said(life, "survived"))
    results = [m for m in await life.messages() if m.kind is MessageKind.TASK_RESULT]
    assert len(results) == 1
