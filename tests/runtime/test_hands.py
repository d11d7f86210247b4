"""Hands: commands, patches, tasks and workspaces through real turns, with real processes and a real repository."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holon.core.codec import to_plain
from holon.core.messages import MessageKind
from holon.core.transcripts import TranscriptKind
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.settings import load_settings
from holon.tools.envelope import ToolError, ToolFailure
from holon.tools.registry import CallContext, Tool, ToolOutcome
from tests.runtime.conftest import Opens
from tests.runtime.living import SURFACE, NoteInput, soon


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


@pytest.mark.spec("RT-272")
async def test_what_is_said_in_words_is_in_fields_too(living: Opens) -> None:
    life = await living(script(call("ExecCommand", cmd="sleep 600 >/dev/null & kill -9 $$")))
    await life.ask("go")
    answer = await told(life)
    assert answer["exit_status"] is None
    assert [note.split(":")[0] for note in answer["notes"]] == [
        "ended by signal 9",
        "1 background processes were ended with it",
    ]
    assert answer["ending"] == {"signal": 9, "leftovers": 1}


@pytest.mark.spec("RT-258", "RT-260")
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


async def test_what_a_command_leaves_in_its_session_ends_with_it(living: Opens) -> None:
    life = await living(script(call("ExecCommand", cmd="nohup sleep 600 >/dev/null 2>&1 & echo $!")))
    await life.ask("go")
    answer = await told(life)
    assert (answer["disposition"], answer["exit_status"]) == ("completed", 0)
    pid = int(answer["stdout_preview"])
    await soon(lambda: not Path(f"/proc/{pid}").exists())
    (note,) = answer["notes"]
    assert note.startswith("1 background processes were ended with it")


async def test_what_a_command_puts_in_a_session_of_its_own_ends_with_it_too(living: Opens) -> None:
    life = await living(script(call("ExecCommand", cmd="setsid sleep 600 >/dev/null 2>&1 & echo $!")))
    await life.ask("go")
    answer = await told(life)
    pid = int(answer["stdout_preview"])
    await soon(lambda: not Path(f"/proc/{pid}").exists())
    assert answer["notes"] == [
        "1 background processes were ended with it: run what should last as a command of its own"
    ]
    assert await life.tasks() == []


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


@pytest.mark.spec("RT-261")
async def test_a_command_that_was_told_to_end_is_no_reason_not_to_start_it_again(living: Opens) -> None:
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    rules = f"""
rules:
  - when: {{kind: task_result}}
    rounds: [{{text: "over"}}]
  - when: {{pattern: "restart (\\\\S+)"}}
    rounds:
      - tools: [{{name: TaskStop, input: {{task_id: "{{1}}"}}}}]
      - tools: [{call("ExecCommand", cmd=deaf, yield_time_ms=50)}]
      - text: "{{result}}"
  - rounds:
      - tools: [{call("ExecCommand", cmd=deaf, yield_time_ms=50)}]
      - text: "{{result}}"
"""
    life = await living(rules)
    await life.ask("go")
    first = (await told(life))["task_handle"]["task_id"]
    await life.ask(f"restart {first}")
    again = await told(life)
    assert again["disposition"] == "promoted_to_task"
    assert again["task_handle"]["task_id"] != first
    assert {task.id: task.status for task in await life.tasks()}[first] == "cancelling"
    await end_tasks(life)


@pytest.mark.spec("RT-261")
async def test_a_command_that_takes_input_is_not_the_same_as_one_that_does_not(living: Opens) -> None:
    waits = {"cmd": "cat; sleep 30", "yield_time_ms": 50}
    life = await living(
        script(
            call("ExecCommand", **waits, accepts_input=True),
            call("ExecCommand", **waits),
            call("ExecCommand", **waits, accepts_input=True),
        )
    )
    await life.ask("go")
    answer = await told(life)
    tasks = await life.tasks()
    assert sorted(task.recovery.spec.accepts_input for task in tasks) == [False, True]
    assert answer["disposition"] == "already_running"
    assert answer["command"]["accepts_input"] is True
    await end_tasks(life)


async def end_tasks(life: Any) -> None:
    for task in await life.tasks():
        await life.host.commands.stop(task.id, force=True)
    await life.until(lambda: over(life))


@pytest.mark.spec("RT-290")
async def test_a_huge_command_is_repeated_in_no_answer(living: Opens) -> None:
    cmd = "sleep 30 #" + "x" * 100_000
    run = call("ExecCommand", cmd=cmd, yield_time_ms=20)
    life = await living(script(run, run, call("TaskList")))
    await life.ask("go")
    entries = await life.transcript(TranscriptKind.TOOL_RESULTS)
    contents = [entry.data["results"][0]["content"] for entry in entries]
    assert [len(content) < 2_000 for content in contents] == [True] * 3
    (task,) = await life.tasks()
    digest = task.detail["cmd_digest"]
    commands = [json.loads(contents[1])["command"], json.loads(contents[2])["tasks"][0]["command"]]
    for shown in commands:
        assert shown["cmd_digest"] == digest
        assert shown["cmd_preview"] == f"{cmd[:200]}… (100010 characters)"
        assert "cmd" not in shown
    command = (await life.host.overseer.look("main", task.id)).command
    assert command
    assert (command.cmd, command.cmd_digest) == (f"{cmd[:4_000]}… (100010 characters)", digest)
    await end_tasks(life)


@pytest.mark.spec("RT-250")
@pytest.mark.parametrize(
    ("arguments", "kind", "field"),
    [
        ({"cmd": "true", "workdir": "../.."}, "execution_root_violation", "workdir"),
        ({"cmd": "true", "workdir": "nowhere"}, "execution_root_violation", "workdir"),
        ({"cmd": "true", "shell": "nosuch"}, "shell_missing", None),
    ],
)
async def test_what_cannot_run_says_why(living: Opens, arguments: dict[str, Any], kind: str, field: str | None) -> None:
    life = await living(script(call("ExecCommand", **arguments)))
    await life.ask("go")
    answer = await told(life)
    assert (answer["ok"], answer["kind"], answer.get("field")) == (False, kind, field)
    assert answer["hint"]


@pytest.mark.spec("RT-252", "RT-320")
async def test_a_patch_changes_the_repository_that_the_agent_uses(living: Opens, outside: Path) -> None:
    repo = repository(outside / "project")
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


@pytest.mark.spec("RT-072")
async def test_a_task_in_the_background_is_awaited_by_nobody(living: Opens) -> None:
    rules = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "over"}]
  - when: {pattern: "stop (\\\\S+)"}
    rounds: [{tools: [{name: TaskStop, input: {task_id: "{1}"}}]}, {text: "stopped"}]
  - when: {pattern: "look at (\\\\S+)"}
    rounds: [{tools: [{name: TaskOutput, input: {task_id: "{1}", block: false}}]}, {text: "looked"}]
  - rounds:
      - tools: [{name: ExecCommand, input: {cmd: "sleep 60", login: false, yield_time_ms: 9}}]
      - text: "{result}"
"""
    life = await living(rules)
    await life.ask("start")
    task_id = (await told(life))["task_handle"]["task_id"]
    resting = (await life.at_rest()).agent
    assert (resting.status, resting.active_task_ids) == ("asleep", [task_id])
    await life.ask(f"look at {task_id}")
    resting = (await life.at_rest()).agent
    assert (resting.status, resting.active_task_ids) == ("asleep", [task_id])
    await life.ask(f"stop {task_id}")
    await life.until(lambda: said(life, "over"))
    statuses = {event.payload["after"] for event in await life.events("agent_state_changed")}
    assert statuses == {"awake_idle", "awake_running", "asleep"}


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
    await life.until(lambda: said(life, "over:"))  # which may come before the answer is looked at
    *_, answer = [json.loads(brief.text) for brief in await life.briefs() if brief.text.startswith("{")]
    assert answer["stop_requested"] is True
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


@pytest.mark.spec("RT-255", "RT-256", "RT-257")
@pytest.mark.parametrize(
    ("config", "environ", "asked", "chars"),
    [
        ({}, {}, None, 32_000),
        ({}, {}, 20_000, 80_000),
        ({}, {}, 90_000, 256_000),
        ({"default_tool_output_tokens": 500}, {}, None, 2_000),
        ({"max_tool_output_tokens": 700}, {}, 90_000, 2_800),
        ({"max_tool_output_tokens": 700}, {}, None, 2_800),
        ({"default_tool_output_tokens": 500}, {"HOLON_DEFAULT_TOOL_OUTPUT_TOKENS": "600"}, None, 2_400),
        ({}, {"HOLON_MAX_TOOL_OUTPUT_TOKENS": "800"}, 90_000, 3_200),
    ],
)
async def test_what_a_command_prints_comes_back_within_the_budget(
    living: Opens, tmp_path: Path, config: dict[str, int], environ: dict[str, str], asked: int | None, chars: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({f"runtime.{key}": value for key, value in config.items()}))
    loaded = load_settings(tmp_path, environ)
    budget = {} if asked is None else {"max_output_tokens": asked}
    play = script(call("ExecCommand", cmd=f"{sys.executable} -c \"print('x' * 400000)\"", **budget))
    life = await living(
        play,
        default_tool_output_tokens=loaded.default_tool_output_tokens,
        max_tool_output_tokens=loaded.max_tool_output_tokens,
    )
    await life.ask("go")
    (entry,) = await life.transcript(TranscriptKind.TOOL_RESULTS)
    answer = json.loads(entry.data["results"][0]["content"])
    assert answer["truncated"] is True
    assert chars * 0.9 < len(answer["stdout_preview"]) <= chars
    whole = answer["artifacts"][answer["stdout_artifact"]]["path"]
    assert len(await asyncio.to_thread(Path(whole).read_bytes)) == 400_001


@pytest.mark.spec("RT-265")
@pytest.mark.parametrize("flag", ["terminal_reentry", "continue_on_result"])
async def test_whether_a_result_leads_to_a_turn_is_not_for_the_model_to_say(living: Opens, flag: str) -> None:
    life = await living(script(call("ExecCommand", cmd="touch ran", **{flag: False})))
    await life.ask("go")
    answer = await told(life)
    assert (answer["ok"], answer["kind"], answer["field"]) == (False, "invalid_tool_input", flag)
    assert await life.tasks() == []


@pytest.mark.spec("RT-271")
async def test_a_batch_is_one_call_of_a_tool_and_as_many_commands_as_it_tried(living: Opens) -> None:
    items = [{"cmd": cmd, "login": False} for cmd in ("true", "true", "false", "true")]
    play = script(
        call("ExecCommandBatch", items=items),
        call("ExecCommandBatch", items=items, stop_on_error=True),
        call("ExecCommand", cmd="true"),
        call("TaskList"),
    )
    life = await living(play)
    result = await run_once(life.host, RunRequest(text="go", agent_id="main"))
    assert (result.tool_calls, result.command_items) == (4, 8)
    executed = await life.events("tool_executed")
    assert [(event.payload["tool_name"], event.payload.get("command_items")) for event in executed] == [
        ("ExecCommandBatch", 4),
        ("ExecCommandBatch", 3),
        ("ExecCommand", 1),
        ("TaskList", None),
    ]
    latency = {entry.tool_name: entry.total_calls for entry in (await life.state()).tool_latency}
    assert latency == {"ExecCommandBatch": 2, "ExecCommand": 1, "TaskList": 1}


@pytest.mark.spec("RT-246", "RT-247", "RT-248", "RT-249")
async def test_an_error_is_bounded_for_the_model_and_whole_for_the_records(living: Opens) -> None:
    async def refuse(_context: CallContext, _asked: NoteInput) -> ToolOutcome:
        raise ToolFailure(
            ToolError(kind="too_much", message="no", details={"log": "x" * 9_000}, recovery_hint="ask for less")
        )

    play = script(call("Refuse"), call("ExecCommand", cmd="true", workdir="/nonexistent"))
    life = await living(play, tools=[Tool("Refuse", "Refuses.", NoteInput, refuse)])
    await life.ask("go")
    first, second = await life.transcript(TranscriptKind.TOOL_RESULTS)
    (result,) = first.data["results"]
    seen = json.loads(result["content"])
    assert (seen["ok"], seen["tool_name"], seen["kind"], seen["hint"]) == (False, "Refuse", "too_much", "ask for less")
    assert seen["details"]["omitted"] is True
    assert len(result["content"]) < 2_000
    assert result["error"] == {
        "kind": "too_much",
        "message": "no",
        "details": {"log": "x" * 9_000},
        "recovery_hint": "ask for less",
    }
    executed = [event.payload for event in await life.events("tool_executed")]
    assert (executed[0]["tool_error"], executed[0]["error"]) == (result["error"], result["content"])
    assert executed[1]["tool_error"] == second.data["results"][0]["error"]
    shown = [block for item in life.model.requests[-1].conversation for block in getattr(item, "results", [])]
    assert [block.content for block in shown] == [entry.data["results"][0]["content"] for entry in (first, second)]


FINISHES = """
rules:
  - when: {kind: task_result}
    rounds: [{text: "the result came"}]
  - when: {pattern: "output of (\\\\S+)"}
    rounds:
      - tools: [{name: TaskOutput, input: {task_id: "{1}", block: false}}]
      - text: "{result}"
  - rounds:
      - tools: [{name: ExecCommand, input: {cmd: "sleep 0.3; echo finished", login: false, yield_time_ms: 50}}]
      - text: "{result}"
"""


@pytest.mark.spec("RT-273")
async def test_a_task_knows_whose_it_is_where_it_came_from_and_how_to_take_it_up(living: Opens) -> None:
    life = await living(FINISHES)
    message_id = (await life.ask("start")).envelope.id
    task_id = (await told(life))["task_handle"]["task_id"]
    (task,) = await life.tasks()
    assert (task.id, task.agent_id, task.kind) == (task_id, "main", "command_task")
    assert task.created_at <= task.updated_at
    assert task.parent_message_id == message_id
    assert task.summary
    assert (task.recovery.spec.cmd, task.recovery.trust) == ("sleep 0.3; echo finished", "trusted_operator")
    await life.until(lambda: said(life, "the result came"))
    (ended,) = await life.tasks()
    assert ended.updated_at > task.updated_at
    assert (ended.parent_message_id, ended.recovery) == (message_id, task.recovery)


@pytest.mark.spec("RT-283", "RT-288")
async def test_output_is_the_same_whenever_the_tasks_messages_come(living: Opens) -> None:
    life = await living(FINISHES)
    await life.ask("start")
    task_id = (await told(life))["task_handle"]["task_id"]
    await life.host.lifecycle.pause("main", SURFACE)  # the result waits in the queue
    await life.until(lambda: over(life))
    early = await life.host.overseer.read_output("main", task_id)
    assert (early.retrieval_status, early.task.status, early.task.output_preview) == (
        "success",
        "completed",
        "finished\n",
    )
    late = await life.task_message(MessageKind.TASK_STATUS, "running", task_id=task_id)
    await life.host.lifecycle.resume("main", SURFACE)
    await life.settled(late)
    await life.until(lambda: said(life, "the result came"))
    await life.settled(await life.task_message(MessageKind.TASK_STATUS, "running", task_id=task_id))
    assert await life.host.overseer.read_output("main", task_id) == early
    (task,) = await life.tasks()
    assert task.status == "completed"
    await life.ask(f"output of {task_id}")
    answer = json.loads(next(b.text for b in await life.briefs() if "retrieval_status" in b.text))
    assert answer == {"ok": True, **to_plain(early)}


async def over(life: Any) -> bool | None:
    return all(task.status.terminal for task in await life.tasks()) or None


@pytest.mark.spec("RT-196", "RT-198")
async def test_a_failed_task_has_its_failure_in_its_output(living: Opens) -> None:
    rules = FINISHES.replace("sleep 0.3; echo finished", "sleep 0.3; exit 4")
    life = await living(rules)
    await life.ask("start")
    task_id = (await told(life))["task_handle"]["task_id"]
    await life.until(lambda: over(life))
    result = await life.host.overseer.read_output("main", task_id)
    artifact = result.task.failure_artifact
    assert artifact is not None
    assert (result.task.status, artifact.category, artifact.task_id, artifact.exit_status) == (
        "failed",
        "task",
        task_id,
        4,
    )
