"""Presentation: what people read of an event. The one place where visibility, title, body and summary come from.

Every surface shows this text; none makes its own. There is no severity and no delivery hint here on purpose: those
depend on who looks.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import holon.core.event_kinds  # noqa: F401 - a surface that only shows events needs the kinds in the registry too
from holon.core.codec import Record
from holon.core.events import REGISTRY, Event, EventCategory, EventLevel


class Visibility(StrEnum):
    """From most operator-facing to most diagnostic."""

    ACTION_REQUIRED = "action_required"
    WORK_DONE = "work_done"
    TURN_RESULT = "turn_result"
    PROGRESS = "progress"
    TRACE = "trace"

    @property
    def rank(self) -> int:
        return list(Visibility).index(self) + 1


class DisplayMode(StrEnum):
    """How much a main view shows: 3, 4 or 5. Raw trace is for event inspectors only."""

    INFO = "info"
    VERBOSE = "verbose"
    DEBUG = "debug"

    @classmethod
    def parse(cls, word: str) -> DisplayMode:
        by_number = {"3": cls.INFO, "4": cls.VERBOSE, "5": cls.DEBUG}
        return by_number.get(word) or cls(word)


class Presentation(Record, frozen=True, kw_only=True):
    visibility: Visibility
    category: EventCategory
    title: str
    summary: str
    source_event_kind: str
    body: str | None = None


def present(event: Event) -> Presentation:
    registered = REGISTRY.get(event.kind)
    category = registered.category if registered else EventCategory.TRACE
    if category is EventCategory.BRIEF:
        return _present_brief(event.payload, event.kind)
    words = event.kind.replace("_", " ")
    return Presentation(
        visibility=_VISIBILITY.get(event.kind, Visibility.TRACE),
        category=category,
        title=words.capitalize(),
        summary=_one_line(_sentence(event)) or words,
        source_event_kind=event.kind,
    )


def shown_in(event: Event, mode: DisplayMode) -> bool:
    """Whether a main view in this mode shows the event. It never changes what can be replayed."""
    registered = REGISTRY.get(event.kind)
    if registered is None or registered.category is EventCategory.STATE_SYNC:
        return False
    order = [EventLevel.INFO, EventLevel.VERBOSE, EventLevel.DEBUG]
    return order.index(registered.level) <= list(DisplayMode).index(mode)


def brief_visibility(*, awaits_operator: bool, completes_work: bool) -> Visibility:
    if awaits_operator:
        return Visibility.ACTION_REQUIRED
    return Visibility.WORK_DONE if completes_work else Visibility.TURN_RESULT


def _present_brief(payload: dict[str, Any], kind: str) -> Presentation:
    text = str(payload.get("text", ""))
    return Presentation(
        visibility=brief_visibility(
            awaits_operator=bool(payload.get("awaits_operator")), completes_work=bool(payload.get("completes_work"))
        ),
        category=EventCategory.BRIEF,
        title=_BRIEF_TITLES.get(str(payload.get("brief_kind")), "Brief"),
        body=text or None,
        summary=_one_line(text) or "(no text)",
        source_event_kind=kind,
    )


def _sentence(event: Event) -> str:
    """What the event says; nothing if its kind or the shape of its payload is of another version."""
    try:
        return _SENTENCES[event.kind](event.payload)
    except (LookupError, TypeError, ValueError, AttributeError):
        return ""


def _one_line(text: str, limit: int = 200) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _round_sentence(payload: dict[str, Any]) -> str:
    if preview := str(payload.get("text_preview", "")).strip():
        return f"Assistant progress: {preview}"
    if payload.get("tool_names"):
        return "Model requested tools: " + ", ".join(payload["tool_names"])
    return f"Round {payload['round']} ended without text"


def _state_sentence(payload: dict[str, Any]) -> str:
    return f"{payload['before']} -> {payload['after']} ({payload['reason']})"


_VISIBILITY: dict[str, Visibility] = {
    "assistant_round_recorded": Visibility.PROGRESS,
    "runtime_error": Visibility.PROGRESS,
    "current_run_aborted": Visibility.PROGRESS,
    "message_quarantined": Visibility.PROGRESS,
    "limit_reached": Visibility.PROGRESS,
    "agent_stalled": Visibility.PROGRESS,
    "turn_resumed": Visibility.PROGRESS,
    "prompt_drift": Visibility.PROGRESS,
    "operator_notification_requested": Visibility.PROGRESS,
    "timer_fired": Visibility.PROGRESS,
    "callback_delivered": Visibility.PROGRESS,
}

_BRIEF_TITLES = {"ack": "Acknowledged", "result": "Result", "failure": "Failed"}
#: Of a task whose runner does not answer, and of one whose runner does again.
_CONTACT = {"unreachable": " does not answer and is looked for", "reachable": " answers again"}

_Say = Callable[[dict[str, Any]], str]

_SENTENCES: dict[str, _Say] = {
    "message_admitted": lambda p: f"{p['message_kind']} from {p['origin']['kind']}: {p.get('preview', '')}",
    "message_processing_started": lambda p: f"Run {p['run_id']} began, after {p['queue_wait_ms']} ms in the queue",
    "message_processing_aborted": lambda p: f"Processing ended early: {p['reason']}",
    "message_dropped": lambda p: f"Message dropped: {p['reason']}",
    "operator_interjection_admitted": lambda p: f"Operator interjected ({p['safe_point']}, round {p['round']})",
    "continuation_resolved": lambda p: (
        f"{p['trigger_kind']} is {p['class']}" + (": model turn" if p["model_visible"] else ": no model turn")
    ),
    "closure_decided": lambda p: (
        f"Stands at {p['outcome']}" + (f", {p['waiting_reason']}" if p.get("waiting_reason") else "")
    ),
    "scheduler_decision": lambda p: f"{p['decision']}: {p['reason']}",
    "system_tick_emitted": lambda p: f"Tick by {p['subsystem']}: {p['reason']}",
    "system_tick_suppressed": lambda p: f"No tick by {p['subsystem']}: {p['reason']}",
    "turn_context_built": lambda p: f"Prompt of {p['item_count']} items, {p['rendered_tokens']} tokens",
    "epoch_opened": lambda p: f"Prompt built anew ({p['reason']}): {p['head_tokens']} tokens in front",
    "prompt_drift": lambda p: f"The prompt changed at {p['source']}: {p['lost_tokens']} tokens must be paid for again",
    "provider_round_completed": lambda p: (
        f"Round {p['round']} on {p['model_ref']}: {p['provider_round_ms']:.0f} ms, "
        f"{p['token_usage']['total_tokens']} tokens"
    ),
    "output_continued": lambda p: f"The answer of round {p['round']} was cut at the output limit and is continued",
    "assistant_round_recorded": _round_sentence,
    "tool_executed": lambda p: f"{p['tool_name']}: {p['summary']} ({p['duration_ms']:.0f} ms)",
    "tool_call_interrupted": lambda p: f"{p['tool_name']} was interrupted by a restart and not run again",
    "turn_terminal": lambda p: f"Turn {p['turn_index']} {p['terminal']} after {p['duration_ms']} ms",
    "turn_resumed": lambda p: f"Turn {p['turn_index']} goes on after a restart (attempt {p['attempt']})",
    "runtime_error": lambda p: f"Turn failed: {p['summary']}",
    "message_quarantined": lambda p: f"Message set aside after {p['attempts']} crashes of its turn",
    "limit_reached": lambda p: f"Limit {p['limit']} ({p['value']}) reached: {p['advice']}",
    "agent_stalled": lambda p: f"No progress for {p['stalled_ms'] / 1000:.0f} s with work waiting: {p['advice']}",
    "runtime_started": lambda p: f"Holon {p['version']} started, {p['resumed_turns']} turns taken up again",
    "runtime_service_shutdown_requested": lambda p: f"Shutdown requested by {p['surface']}",
    "retention_applied": lambda p: f"Retention removed {sum(p['deleted'].values())} records ({p['reason']})",
    "agent_created": lambda p: f"Agent created ({p['agent_kind']}, {p['visibility']})",
    "agent_archived": lambda p: f"Agent archived: {p['reason']}",
    "agent_model_override_set": lambda p: f"Next turns use {p['model']} instead of {p['before']} (by {p['surface']})",
    "agent_backend_set": lambda p: f"Next commands run on {p['backend']}, {p['reason']} (by {p['surface']})",
    "agent_model_override_cleared": lambda p: f"Next turns use the default {p['model']} again (by {p['surface']})",
    "agent_state_changed": _state_sentence,
    "control_applied": lambda p: f"{p['action']} by {p['surface']}",
    "current_run_aborted": lambda p: f"Run {p['run_id']} aborted",
    "agent_slept": lambda p: (
        f"Asleep: {p['reason']}" + (f" until {p['sleeping_until']}" if p.get("sleeping_until") else "")
    ),
    "wake_requested": lambda p: f"Wake asked for by {p['surface']}: {p['reason']} ({p['disposition']})",
    "wake_hint_triggered": lambda p: f"{len(p['hint_ids'])} wake hints: " + "; ".join(p["reasons"]),
    "wake_hint_stored": lambda p: f"Wake hint waits ({p['pending']} in all): {p['reason']}",
    "timer_created": lambda p: f"Timer {p['timer_id']} fires at {p['next_fire_at']}",
    "timer_fired": lambda p: f"Timer {p['timer_id']} fired (number {p['fire_count']})",
    "timer_cancelled": lambda p: f"Timer {p['timer_id']} cancelled, {p['voided_ticks']} queued ticks voided",
    "external_trigger_created": lambda p: f"Trigger {p['external_trigger_id']} provisioned: {p['reason']}",
    "external_trigger_revoked": lambda p: f"Trigger {p['external_trigger_id']} revoked: {p['reason']}",
    "external_trigger_revealed": lambda p: f"Trigger URL of {p['external_trigger_id']} shown to {p['surface']}",
    "callback_delivered": lambda p: (
        f"Trigger delivered ({p['disposition']})" + (f" by {p['source']}" if p.get("source") else "")
    ),
    "operator_notification_requested": lambda p: p["message"],
    "workspace_used": lambda p: f"Works in {p['execution_root']} ({p['mode']})",
    "repository_tampered": lambda p: f"Moved aside {p['path']}, made by a command to have git run programs",
    "workspace_lost": lambda p: f"Lost its place: {p['lost']}",
    "workspace_detached": lambda p: f"Workspace {p['workspace_id']} detached",
    "worktree_created": lambda p: f"Worktree {p['path']} on branch {p['branch']}",
    "worktree_auto_cleaned_up": lambda p: f"Worktree {p['path']} and branch {p['branch']} removed",
    "worktree_retained_for_review": lambda p: f"Worktree {p['path']} kept for review: {p['reason']}",
    "worktree_auto_cleanup_failed": lambda p: f"Worktree {p['path']} could not be removed yet: {p['reason']}",
    "task_reattached": lambda p: (
        f"Task {p['task_id']}" + _CONTACT.get(p["found"], f" found again after a restart: {p['found']}")
    ),
    "task_created": lambda p: f"{p['task_kind']} {p['task_id']} created",
    "task_status_updated": lambda p: f"Task {p['task_id']} is {p['status']}",
    "session_created": lambda p: f"Session {p['session_id']} begins with epoch {p['epoch']}",
    "skill_activated": lambda p: f"Skill {p['skill_id']} loaded ({p['load_reason']}), {p['load_size_tokens']} tokens",
    "skill_installed": lambda p: (
        f"Skill {p['skill_id']} {'removed' if p.get('removed') else 'installed'}: {p['source']}"
    ),
}
