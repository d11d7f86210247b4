"""Failures in a life: of which class each is, where its artifact stands, and that a failed turn stays ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holon.core.briefs import BriefKind
from holon.core.closures import ClosureOutcome
from holon.core.codec import to_plain
from holon.core.limits import Limits
from holon.core.tasks import TaskKind
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.run_results import FinalStatus
from holon.runtime.scheduler import IdleFacts, RunnableWork, decide_idle
from holon.runtime.triggers import Triggers
from tests.runtime.conftest import Opens
from tests.runtime.living import NOTE, SURFACE

CLASSES = [
    ("server_error", "transport"),
    ("timeout", "transport"),
    ("auth_error", "transport"),
    ("contract_error", "protocol"),
    ("invalid_response", "protocol"),
    ("context_length_exceeded", "protocol"),
    ("unknown", "unknown"),
]


def failing(kind: str) -> str:
    return f"rules: [{{rounds: [{{fail: {{kind: {kind}, message: it failed, retry_after_ms: 1}}}}]}}]"


@pytest.mark.spec("RT-196", "RT-198")
@pytest.mark.parametrize(("kind", "category"), CLASSES)
async def test_a_providers_failure_is_of_its_class_in_the_agents_state_and_in_the_run(
    living: Opens, kind: str, category: str
) -> None:
    life = await living(failing(kind))
    result = await run_once(life.host, RunRequest(text="go", agent_id="main"))
    failure = (await life.state()).last_runtime_failure
    assert failure is not None
    assert failure.failure_artifact is not None
    assert (failure.failure_artifact.category, failure.failure_artifact.kind) == (category, kind)
    assert (result.final_status, result.failure_artifact) == (FinalStatus.FAILED, failure.failure_artifact)


@pytest.mark.spec("RT-196", "RT-198")
async def test_what_the_runtime_itself_ends_is_a_failure_of_the_runtime(living: Opens) -> None:
    script = "rules: [{rounds: [" + ", ".join(["{tools: [{name: Note}]}"] * 4) + "]}]"
    life = await living(script, tools=[NOTE], limits=Limits(rounds_per_turn=2))
    result = await run_once(life.host, RunRequest(text="for ever", agent_id="main"))
    assert result.failure_artifact is not None
    assert (result.failure_artifact.category, result.failure_artifact.kind) == ("runtime", "limit_reached")
    (error,) = await life.events("runtime_error")
    assert error.payload["failure_artifact"] == to_plain(result.failure_artifact)


@pytest.mark.spec("RT-197")
async def test_a_run_that_succeeds_has_no_artifact(living: Opens) -> None:
    life = await living("rules: [{rounds: [{text: all is well}]}]")
    result = await run_once(life.host, RunRequest(text="go", agent_id="main"))
    assert result.final_status is FinalStatus.COMPLETED
    assert "failure_artifact" not in to_plain(result)
    assert (await life.state()).last_runtime_failure is None


@pytest.mark.spec("RT-107")
async def test_a_conversation_that_is_too_long_ends_the_turn_and_work_does_not_go_on_by_itself(living: Opens) -> None:
    life = await living(failing("context_length_exceeded"), model_fallbacks=["scripted/echo"])
    await life.ask("go")
    (brief,) = await life.briefs()
    assert (brief.kind, "too long for the model" in brief.text) == (BriefKind.FAILURE, True)
    (error,) = await life.events("runtime_error")
    attempts = error.payload["provider_attempt_timeline"]["attempts"]
    assert [attempt["model_ref"] for attempt in attempts] == ["scripted/test"], "another model is not asked"
    closure = (await life.at_rest()).closure
    assert closure.outcome is ClosureOutcome.FAILED
    work = RunnableWork(work_item_id="work_1", revision=1)
    idle = decide_idle(IdleFacts(closure=closure, queued=0, current_work=work, queued_work=[work]))
    assert (idle.tick, idle.sleeps) == (None, True)
    assert len(await life.turns()) == 1


@pytest.mark.spec("RT-184")
async def test_an_attempt_without_times_gets_none_from_the_round_around_it(living: Opens) -> None:
    life = await living(
        "rules: [{rounds: [{text: hello}]}]", model_default="nobody/knows", model_fallbacks=["scripted/test"]
    )
    await life.ask("go")
    (event,) = await life.events("provider_round_completed")
    refused, answered = event.payload["provider_attempt_timeline"]["attempts"]
    times = {"started_at", "completed_at", "duration_ms"}
    assert (refused["model_ref"], answered["model_ref"]) == ("nobody/knows", "scripted/test")
    assert not times & {name for name, value in refused.items() if value is not None}
    assert times <= answered.keys()
    assert event.payload["provider_started_at"]


@pytest.mark.spec("RT-292")
async def test_status_tells_of_the_handle_and_the_agent_of_itself_and_its_children(living: Opens) -> None:
    script = """
rules:
  - when: {pattern: "take your time"}
    rounds: [{tools: [{name: Sleep, input: {reason: later, duration_ms: 600000}}]}]
  - when: {pattern: "delegate"}
    rounds:
      - tools: [{name: SpawnAgent, input: {initial_message: "take your time"}}]
      - text: "{result}"
  - when: {pattern: "status of (\\\\S+)"}
    rounds: [{tools: [{name: TaskStatus, input: {task_id: "{1}"}}]}, {text: "{result}"}]
  - when: {pattern: "yourself"}
    rounds: [{tools: [{name: AgentGet, input: {}}]}, {text: "{result}"}]
"""
    life = await living(script)

    async def told(text: str) -> dict[str, Any]:
        await life.ask(text)
        answer: dict[str, Any] = json.loads((await life.briefs())[-1].text)
        return answer

    await told("delegate")
    (task,) = [task for task in await life.tasks() if task.kind is TaskKind.CHILD_AGENT_TASK]
    status = (await told(f"status of {task.id}"))["task"]
    assert (status["task_id"], status["kind"], status["status"]) == (task.id, "child_agent_task", "running")
    assert status["child_supervision"]["supervision_task_id"] == task.id
    assert not {"identity", "lineage_parent_agent_id", "closure", "posture", "agent", "current_work_item_id"} & set(
        status
    )
    agent = (await told("look at yourself"))["agent"]
    assert {"identity", "closure"} <= agent.keys()
    (child,) = agent["active_children"]
    assert child["identity"]["agent_id"] == status["child_agent_id"]
    assert child["identity"]["lineage_parent_agent_id"] == "main"


@pytest.mark.spec("RT-149")
async def test_a_trigger_url_in_a_message_is_marked_as_a_secret_for_the_model(living: Opens) -> None:
    life = await living()
    triggers: Triggers = life.host.triggers
    url = (await triggers.reveal("main", surface=SURFACE)).trigger_url
    await life.ask(f"have the build server call {url} when it is done")
    marked = life.model.shown
    assert url in marked
    assert "capability secret: do not repeat, store or forward it, except to configure" in marked
    await life.ask("see /callbacks/wake/ in the docs")
    assert life.model.shown.count("capability secret") == 1
