"""Turns: how they end, what a failure leaves behind, what briefs say, and how often a model is asked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holon.core.briefs import BriefKind
from holon.core.clock import ManualClock, moment
from holon.core.closures import ClosureOutcome, ContinuationClass, WaitingReason
from holon.core.codec import to_plain
from holon.core.messages import MessageKind, QueueStatus, TriggerKind
from holon.core.presentation import Visibility, brief_visibility, present
from holon.core.transcripts import TranscriptKind
from holon.core.turns import TerminalKind, ToolCallStatus, TurnPhase
from holon.core.usage import TokenUsage
from holon.runtime.run_once import RunRequest, run_once
from holon.runtime.run_results import FinalStatus
from holon.runtime.timers import TimerRequest
from holon.store import briefs, calls, events
from holon.tools.registry import CallContext, Tool, ToolOutcome
from tests.runtime.conftest import Opens
from tests.runtime.living import BREAK, NOTE, SURFACE, Gate, Living, NoteInput

FAILING = """
rules:
  - when: {pattern: "^auth"}
    rounds: [{fail: {kind: auth_error, message: the key is wrong, status: 401}}]
  - when: {pattern: "^busy"}
    rounds:
      - fail: {kind: rate_limited, status: 429, retry_after_ms: 1, usage: {input_tokens: 7, output_tokens: 1}}
  - when: {pattern: "^flaky"}
    rounds: [{fail: {status: 503, times: 2, retry_after_ms: 1}, text: better now}]
  - when: {pattern: "^long"}
    rounds: [{fail: {kind: context_length_exceeded}}]
"""


async def newest_resolution(life: Living) -> dict[str, Any]:
    return (await life.events("continuation_resolved"))[-1].payload


@pytest.mark.spec("RT-088", "RT-089", "RT-091")
async def test_a_drained_turn_leaves_a_terminal_record_with_its_last_words(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    life.model.hold()
    message_id = await life.say("done")
    await life.model.asked()
    clock.move(250)
    life.model.release()
    turn = (await life.settled(message_id)).turn
    assert turn is not None
    assert turn.phase is TurnPhase.TERMINAL
    assert turn.terminal is not None
    assert to_plain(turn.terminal) == {
        "turn_index": 1,
        "kind": "completed",
        "completed_at": "2026-01-01T00:00:00.250000Z",
        "duration_ms": 250,
        "last_assistant_message": "done",
        "turn_id": turn.id,
    }
    assert (await life.state()).last_turn_terminal == turn.terminal


@pytest.mark.spec("RT-089", "RT-091")
@pytest.mark.parametrize("text", ["auth", "busy", "long"])
async def test_a_failed_turn_is_aborted_and_its_message_settled(living: Opens, text: str) -> None:
    life = await living(FAILING)
    status = await life.ask(text)
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.kind is TerminalKind.ABORTED
    assert status.turn.terminal.last_assistant_message is None
    assert status.queue is not None
    assert status.queue.status is QueueStatus.ABORTED
    closure = (await life.at_rest()).closure
    assert (closure.outcome, closure.waiting_reason) == (ClosureOutcome.FAILED, None)


@pytest.mark.spec("RT-090", "RT-119", "RT-127")
async def test_words_about_being_done_end_nothing_while_the_loop_runs(living: Opens) -> None:
    script = """
rules:
  - rounds:
      - {text: "All done! Task completed.", tools: [{name: Wait}]}
      - {text: now it is}
"""
    gate = Gate()
    life = await living(script, tools=[gate.tool])
    message_id = await life.say("go")
    await gate.entered()
    (turn,) = await life.turns()
    summary = await life.host.views.summary()
    assert (turn.phase, turn.terminal) == (TurnPhase.TOOLS, None)
    assert (summary.closure.outcome, summary.closure.waiting_reason) == (
        ClosureOutcome.WAITING,
        WaitingReason.AWAITING_EXTERNAL_CHANGE,
    )
    assert await life.briefs() == [], "a preview is no brief"
    previews = [event.payload["text_preview"] for event in await life.events("assistant_round_recorded")]
    assert previews == ["All done! Task completed."]
    gate.open()
    await life.settled(message_id)
    assert [brief.text for brief in await life.briefs()] == ["now it is"]


@pytest.mark.spec("RT-092", "RT-121")
async def test_the_result_is_the_last_message_and_nobody_asks_the_model_to_say_it_again(living: Opens) -> None:
    script = "rules: [{rounds: [{text: looking, tools: [{name: Note, input: {text: x}}]}, {text: it is blue}]}]"
    life = await living(script, tools=[NOTE])
    result = await run_once(life.host, RunRequest(text="which colour?", agent_id="main"))
    assert (result.final_text, result.model_rounds) == ("it is blue", 2)
    assert [request.round for request in life.model.requests] == [1, 2]
    (brief,) = await life.briefs()
    assert (brief.kind, brief.text) == (BriefKind.RESULT, "it is blue")
    assert len(await life.events("provider_round_completed")) == 2


@pytest.mark.spec("RT-099")
async def test_an_agent_without_any_turn_is_not_completed(living: Opens) -> None:
    life = await living()
    closure = (await life.at_rest()).closure
    assert (closure.outcome, closure.waiting_reason) == (ClosureOutcome.WAITING, None)
    await life.ask("hello")
    assert (await life.at_rest()).closure.outcome is ClosureOutcome.COMPLETED


@pytest.mark.spec("RT-102", "RT-103", "RT-104", "RT-105", "RT-106", "RT-123", "RT-187")
async def test_a_failure_after_retries_is_told_in_brief_transcript_and_log_with_timeline_and_usage(
    living: Opens,
) -> None:
    life = await living(FAILING)
    message_id = (await life.ask("busy")).envelope.id
    (brief,) = await life.briefs()
    assert (brief.kind, brief.related_message_id) == (BriefKind.FAILURE, message_id)
    assert "429" not in brief.text
    assert brief.text[0].islower()
    (entry,) = await life.transcript(TranscriptKind.RUNTIME_FAILURE)
    (error,) = await life.events("runtime_error")
    assert entry.related_message_id == error.provenance.message_id == message_id
    assert entry.data["text"] == brief.text == error.payload["summary"]
    timeline = error.payload["provider_attempt_timeline"]
    assert [attempt["outcome"] for attempt in timeline["attempts"]] == ["retrying", "retrying", "retries_exhausted"]
    assert entry.data["provider_attempt_timeline"] == timeline
    usage = {"input_tokens": 21, "output_tokens": 3, "total_tokens": 24}
    assert entry.data["token_usage"] == error.payload["token_usage"] == usage
    artifact = error.payload["failure_artifact"]
    assert (artifact["category"], artifact["kind"], artifact["status"]) == ("transport", "rate_limited", 429)
    failure = (await life.state()).last_runtime_failure
    assert failure is not None
    assert to_plain(failure.failure_artifact) == artifact == entry.data["failure_artifact"]
    assert (await life.host.runtime_status()).last_failure == failure


@pytest.mark.spec("RT-106")
@pytest.mark.parametrize(("text", "attempts"), [("auth", 1), ("long", 1)])
async def test_where_nothing_was_used_no_usage_is_told(living: Opens, text: str, attempts: int) -> None:
    life = await living(FAILING, model_fallbacks=[])
    await life.ask(text)
    (entry,) = await life.transcript(TranscriptKind.RUNTIME_FAILURE)
    (error,) = await life.events("runtime_error")
    assert "token_usage" not in entry.data
    assert "token_usage" not in error.payload
    assert len(error.payload["provider_attempt_timeline"]["attempts"]) == attempts
    assert [brief.kind for brief in await life.briefs()] == [BriefKind.FAILURE]


@pytest.mark.spec("RT-187")
async def test_a_turn_that_succeeds_late_keeps_its_failed_attempts(living: Opens) -> None:
    life = await living(FAILING)
    status = await life.ask("flaky")
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.last_assistant_message == "better now"
    (event,) = await life.events("provider_round_completed")
    (entry,) = await life.transcript(TranscriptKind.ASSISTANT_ROUND)
    outcomes = [attempt["outcome"] for attempt in event.payload["provider_attempt_timeline"]["attempts"]]
    assert outcomes == ["retrying", "retrying", "succeeded"]
    assert entry.data["provider_attempt_timeline"] == event.payload["provider_attempt_timeline"]
    assert (await life.state()).runtime_error_active is False


async def test_an_agent_that_failed_goes_on_with_its_next_message_and_is_well_again(living: Opens) -> None:
    life = await living(FAILING)
    await life.host.lifecycle.pause("main", SURFACE)
    failing, fine = await life.say("auth"), await life.say("hello")
    await life.host.lifecycle.resume("main", SURFACE)
    assert (await life.settled(failing)).queue.status is QueueStatus.ABORTED  # type: ignore[union-attr]
    assert (await life.settled(fine)).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]
    closure = (await life.at_rest()).closure
    assert closure.outcome is ClosureOutcome.COMPLETED
    assert "the runtime ended the turn above" in life.model.shown
    assert [(brief.kind, brief.related_message_id) for brief in await life.briefs()][2:] == [
        (BriefKind.FAILURE, failing),
        (BriefKind.RESULT, fine),
    ]


async def test_an_unknown_model_fails_the_turn_and_names_what_is_there(living: Opens) -> None:
    life = await living(model_default="nowhere/model-1")
    await life.ask("hello")
    (brief,) = await life.briefs()
    assert brief.kind is BriefKind.FAILURE
    assert "configured are scripted" in brief.text


@pytest.mark.spec("RT-108", "RT-118")
async def test_each_message_leaves_its_resolution_in_the_state_and_in_the_log(living: Opens) -> None:
    life = await living()
    await life.ask("hello")
    kept = (await life.state()).last_continuation
    assert kept is not None
    assert to_plain(kept) == {
        "trigger_kind": "operator_input",
        "class": "local_continuation",
        "model_visible": True,
        "prior_closure_outcome": "waiting",
        "evidence": ["the operator speaks", "message: operator_prompt", "prior closure: waiting"],
    }
    assert await newest_resolution(life) == to_plain(kept)


@pytest.mark.spec("RT-109", "RT-113")
@pytest.mark.parametrize("how", ["follow_up", "tick"])
async def test_the_closure_before_the_dispatch_decides_so_follow_ups_and_ticks_reach_the_model(
    living: Opens, how: str
) -> None:
    life = await living()
    await life.ask("hello")
    message_id = await (life.follow_up("go on") if how == "follow_up" else life.tick("timer_that_is_gone"))
    status = await life.settled(message_id)
    assert status.turn is not None
    resolution = (await life.state()).last_continuation
    assert resolution is not None
    assert (resolution.prior_closure_outcome, resolution.prior_waiting_reason) == (ClosureOutcome.COMPLETED, None)
    assert (resolution.class_, resolution.model_visible) == (ContinuationClass.LOCAL_CONTINUATION, True)


@pytest.mark.spec("RT-108", "RT-109", "RT-135")
async def test_a_tick_that_was_waited_for_matches_the_wait(living: Opens, clock: ManualClock) -> None:
    life = await living(clock=clock)
    await life.host.timers.create("main", TimerRequest(duration_ms=1_000, interval_ms=1_000), surface=SURFACE)
    await life.ask("hello")
    assert (await life.at_rest()).closure.waiting_reason is WaitingReason.AWAITING_TIMER
    clock.move(1_000)
    await life.host.pulse.fire()
    await life.at_rest()
    resolution = (await life.state()).last_continuation
    assert resolution is not None
    assert (resolution.trigger_kind, resolution.class_) == (
        TriggerKind.TIMER_FIRE,
        ContinuationClass.RESUME_EXPECTED_WAIT,
    )
    assert resolution.matched_waiting_reason
    assert resolution.prior_waiting_reason is WaitingReason.AWAITING_TIMER


@pytest.mark.spec("RT-112")
async def test_a_tasks_status_makes_no_turn(living: Opens) -> None:
    life = await living()
    status = await life.settled(await life.task_message(MessageKind.TASK_STATUS, "half done"))
    assert (status.queue.status, status.turn) == (QueueStatus.PROCESSED, None)  # type: ignore[union-attr]
    assert life.model.requests == []
    assert (await newest_resolution(life))["class"] == "liveness_only"
    assert await life.briefs() == []


async def test_a_tasks_result_makes_a_turn(living: Opens) -> None:
    life = await living()
    status = await life.settled(await life.task_message(MessageKind.TASK_RESULT, "exit status 0"))
    assert status.turn is not None
    assert "exit status 0" in life.model.shown


@pytest.mark.spec("RT-116")
async def test_while_the_operator_is_awaited_only_the_operator_is_listened_to(living: Opens) -> None:
    life = await living()
    await life.change(lambda state: msgspec.structs.replace(state, awaits_operator=True, turn_index=0))
    outside = await life.settled(await life.webhook({"approved": True}))
    assert outside.turn is None
    assert (await life.at_rest()).closure.waiting_reason is WaitingReason.AWAITING_OPERATOR_INPUT
    answer = await life.ask("yes, go on")
    assert answer.turn is not None
    resolution = (await life.state()).last_continuation
    assert resolution is not None
    assert resolution.class_ is ContinuationClass.RESUME_EXPECTED_WAIT
    assert (await life.at_rest()).closure.waiting_reason is None


@pytest.mark.spec("RT-118")
async def test_after_each_settled_step_the_runtime_decides_one_thing(living: Opens) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    await life.say("one")
    await life.task_message(MessageKind.TASK_STATUS, "half done")
    newest = await life.newest()
    await life.host.lifecycle.resume("main", SURFACE)
    await life.at_rest()
    decided = [event.payload["decision"] for event in await life.events("scheduler_decision", after=newest)]
    assert decided == ["start_model_turn", "noop", "reduce_message_only", "sleep"]


@pytest.mark.spec("RT-119", "RT-120", "RT-124")
async def test_briefs_are_records_of_three_forms(living: Opens) -> None:
    life = await living(FAILING)
    await life.host.lifecycle.pause("main", SURFACE)
    asked = await life.say("hello")
    await life.host.lifecycle.resume("main", SURFACE)
    await life.settled(asked)
    failed = await life.ask("auth")
    found = await life.briefs()
    assert [(brief.kind, brief.related_message_id) for brief in found] == [
        (BriefKind.ACK, asked),
        (BriefKind.RESULT, asked),
        (BriefKind.FAILURE, failed.envelope.id),
    ]
    logged = {event.payload["brief_id"]: event.payload for event in await life.events("brief_created")}
    assert {brief.id: brief.text for brief in found} == {id_: said["text"] for id_, said in logged.items()}
    stored = await life.host.store.read(lambda tx: briefs.recent(tx, "main", 10))
    assert stored == found
    assert all(brief.agent_id == "main" and brief.created_at.utcoffset() is not None for brief in found)


@pytest.mark.spec("RT-049", "RT-127")
async def test_what_a_model_thinks_to_itself_is_in_no_brief_and_no_event(living: Opens) -> None:
    life = await living("rules: [{rounds: [{thinking: nobody must read this, text: it is blue}]}]")
    await life.ask("which colour?")
    (brief,) = await life.briefs()
    assert brief.text == "it is blue"
    assert "nobody must read this" not in str(await life.events())
    (entry,) = await life.transcript(TranscriptKind.ASSISTANT_ROUND)
    assert "nobody must read this" in str(entry.data), "it stays part of the conversation"


@pytest.mark.spec("RT-122")
async def test_a_turn_without_words_has_an_empty_result_and_none_is_made_up(living: Opens) -> None:
    life = await living("rules: [{rounds: [{}]}]")
    status = await life.ask("say nothing")
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.last_assistant_message == ""
    assert [(brief.kind, brief.text) for brief in await life.briefs()] == [(BriefKind.RESULT, "")]


async def test_a_silent_turn_that_nobody_asked_for_leaves_no_brief(living: Opens) -> None:
    life = await living("rules: [{rounds: [{}]}]")
    await life.settled(await life.webhook({"x": 1}))
    await life.settled(await life.tick())
    assert await life.briefs() == []
    assert len(await life.turns()) == 2


@pytest.mark.spec("RT-126")
async def test_terminal_briefs_are_turn_results(living: Opens) -> None:
    life = await living(FAILING)
    await life.ask("hello")
    await life.ask("auth")
    logged = await life.host.store.read(
        lambda tx: [event for event in events.after(tx, "main", 0, 1_000) if event.kind == "brief_created"]
    )
    assert [present(event).visibility for event in logged] == [Visibility.TURN_RESULT, Visibility.TURN_RESULT]
    assert brief_visibility(awaits_operator=True, completes_work=False) is Visibility.ACTION_REQUIRED
    assert brief_visibility(awaits_operator=False, completes_work=True) is Visibility.WORK_DONE


@pytest.mark.spec("RT-189", "RT-190", "RT-191", "RT-194")
async def test_rounds_are_counted_as_the_provider_reports_them(living: Opens) -> None:
    script = """
rules:
  - when: {pattern: "^silent"}
    rounds: [{text: hm, usage: none}]
  - rounds: [{text: indeed, usage: {input_tokens: 11, output_tokens: 3}}]
"""
    life = await living(script)
    await life.ask("count")
    await life.ask("silent")
    counted, silent = await life.transcript(TranscriptKind.ASSISTANT_ROUND)
    assert (counted.input_tokens, counted.output_tokens) == (11, 3)
    assert counted.data["token_usage"] == to_plain(TokenUsage.of(11, 3))
    assert silent.data["token_usage"] == to_plain(TokenUsage())
    first, second = await life.events("provider_round_completed")
    assert first.payload["token_usage"] == counted.data["token_usage"]
    assert second.payload["token_usage"] == silent.data["token_usage"]
    for event in (first, second):
        assert {"context_build_ms", "provider_round_ms", "provider_started_at", "provider_completed_at"} <= set(
            event.payload
        )
    state = await life.state()
    assert (state.total_input_tokens, state.total_output_tokens, state.total_model_rounds) == (11, 3, 2)


@pytest.mark.spec("RT-192")
async def test_telemetry_and_words_of_a_round_are_apart(living: Opens) -> None:
    words = "x" * 5_000
    life = await living(
        f"rules: [{{rounds: [{{text: {words}, tools: [{{name: Note}}]}}, {{text: ok}}]}}]", tools=[NOTE]
    )
    await life.ask("go")
    recorded = (await life.events("assistant_round_recorded"))[0].payload
    assert (recorded["text_preview"], recorded["tool_names"]) == ("x" * 200, ["Note"])
    assert words[:50] not in str((await life.events("provider_round_completed"))[0].payload)


async def test_a_tool_that_breaks_is_told_to_the_model_and_the_turn_goes_on(living: Opens) -> None:
    script = 'rules: [{rounds: [{tools: [{name: Break, input: {text: oops}}, {name: Nope}]}, {text: "{result}"}]}]'
    life = await living(script, tools=[BREAK])
    await life.ask("go")
    (brief,) = await life.briefs()
    assert "ValueError: oops" in brief.text
    assert "use one of: " in brief.text
    executed = await life.events("tool_executed")
    assert [(event.payload["tool_name"], event.payload["status"]) for event in executed] == [
        ("Break", "error"),
        ("Nope", "error"),
    ]


async def test_a_wrong_argument_is_named_to_the_model(living: Opens) -> None:
    script = """
rules:
  - rounds: [{tools: [{name: Note, input: {text: 5}}, {name: Note, input: {txt: a}}]}, {text: "{result}"}]
"""
    life = await living(script, tools=[NOTE])
    await life.ask("go")
    (entry,) = await life.transcript(TranscriptKind.TOOL_RESULTS)
    answers = [msgspec.json.decode(result["content"]) for result in entry.data["results"]]
    assert [answer["kind"] for answer in answers] == ["invalid_tool_input", "invalid_tool_input"]
    assert [answer["field"] for answer in answers] == ["text", "txt"]


async def test_a_defect_in_an_effect_fails_the_turn_visibly_and_half_of_it_is_not_kept(living: Opens) -> None:
    async def run(_context: CallContext, _asked: NoteInput) -> ToolOutcome:
        def effect(tx: Any) -> None:
            tx.run("INSERT INTO outbox (id, topic, payload, due_at) VALUES ('x', 'x', '{}', 0)")
            raise RuntimeError("half way")

        return ToolOutcome(content="ok", summary="ok", effect=effect)

    broken = Tool(name="Broken", description="Breaks.", input_type=NoteInput, run=run)
    life = await living("rules: [{when: {pattern: go}, rounds: [{tools: [{name: Broken}]}]}]", tools=[broken])
    status = await life.ask("go")
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert status.turn.terminal.kind is TerminalKind.ABORTED
    assert "half way" in (await life.briefs())[0].text
    assert await life.host.store.read(lambda tx: tx.all("SELECT id FROM outbox")) == []
    assert (await life.ask("hello")).queue.status is QueueStatus.PROCESSED  # type: ignore[union-attr]


async def test_a_turn_whose_worker_failed_is_taken_up_again_and_told_so(living: Opens) -> None:
    """Whatever goes wrong around a turn: it must neither stay open for ever nor be passed by the next one."""

    async def run(_context: CallContext, _asked: NoteInput) -> ToolOutcome:
        def effect(_tx: Any) -> None:
            raise msgspec.ValidationError("a stored record cannot be read")

        return ToolOutcome(content="ok", summary="ok", effect=effect)

    broken = Tool(name="Broken", description="Breaks.", input_type=NoteInput, run=run)
    script = 'rules: [{when: {pattern: go}, rounds: [{tools: [{name: Broken}]}, {text: "{result}"}]}]'
    life = await living(script, tools=[broken])
    await life.host.lifecycle.pause("main", SURFACE)
    first, second = await life.say("go"), await life.say("hello")
    await life.host.lifecycle.resume("main", SURFACE)
    await life.settled(second)
    status = await life.settled(first)
    assert status.turn is not None
    assert status.turn.terminal is not None
    assert [turn.message_id for turn in await life.turns()] == [first, second]
    assert "outcome is unknown" in (status.turn.terminal.last_assistant_message or "")
    assert len(await life.events("turn_resumed")) == 1


async def test_a_message_that_cannot_be_begun_is_set_aside_with_a_brief_and_the_next_one_is_served(
    living: Opens,
) -> None:
    life = await living()
    await life.host.lifecycle.pause("main", SURFACE)
    first, second = await life.say("hello"), await life.say("and hello again")
    broken = "UPDATE messages SET envelope = '{\"id\": 7}' WHERE id = ?"
    await life.host.store.write(lambda tx: tx.run(broken, first))
    await life.host.lifecycle.resume("main", SURFACE)
    status = await life.settled(second)
    assert status.queue is not None
    assert status.queue.status is QueueStatus.PROCESSED
    assert len(await life.events("message_quarantined")) == 1
    (failure,) = [brief for brief in await life.briefs() if brief.kind is BriefKind.FAILURE]
    assert failure.related_message_id == first
    assert "set aside" in failure.text


async def test_the_ledger_books_tool_results_under_their_name(living: Opens) -> None:
    life = await living("rules: [{rounds: [{tools: [{name: Note, input: {text: abc}}]}, {text: ok}]}]", tools=[NOTE])
    await life.ask("go")
    second, first = await life.host.store.read(lambda tx: calls.recent(tx, "main"))
    assert "tool_results" not in first.sections
    assert second.sections["tool_results"] > 0


async def test_no_request_ever_shows_a_tool_call_without_its_result(living: Opens) -> None:
    """A provider refuses a conversation in which a call has no answer: an aborted turn must not leave one behind."""

    async def run(_context: CallContext, _asked: NoteInput) -> ToolOutcome:
        def effect(_tx: Any) -> None:
            raise RuntimeError("half way")

        return ToolOutcome(content="ok", summary="ok", effect=effect)

    broken, gate = Tool(name="Broken", description="Breaks.", input_type=NoteInput, run=run), Gate()
    script = """
rules:
  - when: {pattern: "^break"}
    rounds: [{tools: [{name: Note}, {name: Broken}, {name: Note}]}]
  - when: {pattern: "^work"}
    rounds: [{tools: [{name: Note, input: {text: first}}, {name: Wait}, {name: Note}]}]
"""
    life = await living(script, tools=[broken, gate.tool, NOTE])
    await life.ask("break")
    aborted = await life.say("work")
    await gate.entered()
    await life.host.lifecycle.abort("main", surface=SURFACE)
    await life.settled(aborted)
    await life.ask("hello")
    conversation = life.model.requests[-1].conversation
    for item, following in pairwise(conversation):
        asked = [block.id for block in getattr(item, "blocks", []) if hasattr(block, "input")]
        answered = [result.tool_use_id for result in getattr(following, "results", [])]
        assert asked == answered
    calls = await life.calls((await life.turns())[1].id)
    assert [call.status for call in calls] == [
        ToolCallStatus.COMPLETED,
        ToolCallStatus.INTERRUPTED,
        ToolCallStatus.REQUESTED,
    ]
    assert gate.ended == 0
    shown = [result.content for item in conversation for result in getattr(item, "results", [])][-3:]
    assert shown[0] == "noted: first"
    assert "outcome is unknown" in shown[1]
    assert "was not run" in shown[2]


async def test_a_run_may_choose_its_model_and_a_message_may_not(living: Opens) -> None:
    life = await living("rules: [{rounds: [{text: scripted}]}]")
    result = await run_once(life.host, RunRequest(text="hello", agent_id="main", model="scripted/echo"))
    assert (result.final_status, result.final_text) == (FinalStatus.COMPLETED, "hello")
    await life.ask("hello", metadata={"model": "scripted/echo"})
    assert [brief.text for brief in await life.briefs()] == ["hello", "scripted"]


@pytest.mark.spec("RT-465")
async def test_latency_is_read_from_the_events_of_a_turn(living: Opens, clock: ManualClock) -> None:
    life = await living("rules: [{rounds: [{tools: [{name: Note}]}, {text: ok}]}]", clock=clock, tools=[NOTE])
    await life.host.lifecycle.pause("main", SURFACE)
    message_id = await life.say("go")
    clock.move(700)
    life.model.hold()
    await life.host.lifecycle.resume("main", SURFACE)
    await life.model.asked()
    clock.move(40)
    life.model.release()
    await life.settled(message_id)
    (line,) = await life.host.views.latency()
    (turn,) = await life.turns()
    assert (line.turn_id, line.turn_index, line.rounds) == (turn.id, 1, 2)
    assert (line.queue_wait_ms, line.total_ms) == (700, 40)
    started = (await life.events("message_processing_started"))[-1]
    admitted = next(e for e in await life.events("message_admitted") if e.provenance.message_id == message_id)
    assert started.payload["queue_wait_ms"] == (started.ts - admitted.ts).total_seconds() * 1000
    assert turn.started_at == moment(clock.now_ms() - 40)
