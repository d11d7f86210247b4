"""`holon status`, `tail`, `transcript` and `events`: what one agent does, says and goes through.

`tail` shows what people should read, `events` shows everything; both take their words from the shared presentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holon.cli.client import Client, agent_path
from holon.cli.output import emit, local_time, remark, say, show_fields, show_table, span
from holon.cli.progress import as_event, presented
from holon.cli.seat import Agent, Follow, Limit, Seat, seated
from holon.cli.streams import PATIENCE_S, follow
from holon.cli.workspaces import backend_sentence
from holon.core.agents import AgentSummary
from holon.core.codec import from_plain, to_plain
from holon.core.events import EventCategory, EventEnvelope
from holon.core.guidance import GuidanceSource
from holon.core.presentation import DisplayMode, Presentation, present

#: How far back `tail` reads for enough to show: pages of the event log, newest first.
_PAGES = 20
_PAGE = 512


@seated()
def status(seat: Seat, agent: Agent = None) -> None:
    """Show where an agent stands.

    Its status, queue, model, usage and last failure, and what to do if something must be done.

    \b
    Example:
      holon status
    """
    show_status(seat, agent)


@seated()
def tail(
    seat: Seat,
    agent: Agent = None,
    limit: Limit = 20,
    more: Annotated[bool, typer.Option("--verbose", "-v", help="Show progress too, not only results.")] = False,
    following: Follow = False,
) -> None:
    """Show the newest briefs and events.

    What people should read: briefs and failures; --verbose adds progress, and 'holon events' has everything.

    \b
    Example:
      holon tail --follow
    """
    client = seat.client()
    agent_id = client.agent_id(agent)
    mode = DisplayMode.VERBOSE if more else DisplayMode.INFO
    newest, lines = _newest_presented(client, agent_id, mode, limit)
    if seat.json and not following:
        emit([_tail_line(envelope, line) for envelope, line in lines])
        return
    for envelope, line in lines:
        _print_tail(seat, envelope, line)
    if not following:
        if not lines:
            say(f"agent {agent_id} has said nothing yet")
        return
    for envelope in follow(client, agent_id, newest, on_lost=_say_lost(seat)):
        fresh = presented(envelope, mode)
        if fresh is not None:
            _print_tail(seat, envelope, fresh)


@seated()
def transcript(seat: Seat, agent: Agent = None, limit: Limit = 50) -> None:
    """Show what was said to and by the model.

    With every retry, failure and fallback on the way.

    \b
    Example:
      holon transcript --limit 10
    """
    from holon.cli.transcripts import show_transcript

    client = seat.client()
    listed = client.get(client.path(agent, "transcript"), limit=limit)
    if seat.json:
        emit(listed)
    else:
        show_transcript(listed)


@seated()
def events(
    seat: Seat,
    agent: Agent = None,
    after_seq: Annotated[
        int | None, typer.Option("--after-seq", metavar="SEQ", min=0, help="Only those after this number.")
    ] = None,
    limit: Limit = 50,
    following: Follow = False,
) -> None:
    """Show an agent's event log, raw.

    With --follow and --json it prints one JSON document a line.

    \b
    Example:
      holon events --after-seq 120 --json
    """
    client = seat.client()
    agent_id = client.agent_id(agent)
    order = "desc" if after_seq is None else "asc"
    page = client.get(agent_path(agent_id, "events"), after_seq=after_seq, limit=limit, order=order)
    page["events"].sort(key=lambda raw: raw["event_seq"])
    page["order"] = "asc"
    if seat.json and not following:
        emit(page)
        return
    shown = from_plain(page["events"], list[EventEnvelope])
    if seat.json:
        for raw in page["events"]:
            emit(raw)
    else:
        show_table(("seq", "time", "event", "what"), map(_event_row, shown), empty="there are no such events")
    if not following:
        return
    last = shown[-1].event_seq if shown else (after_seq or page["newest_seq"] or 0)
    for envelope in follow(client, agent_id, last, on_lost=_say_lost(seat)):
        if seat.json:
            emit(envelope)
        else:
            say("  ".join(_event_row(envelope)))


def show_status(seat: Seat, agent: str | None) -> None:
    client = seat.client()
    found = client.get(client.path(agent, "status"))
    if seat.json:
        emit(found)
        return
    summary = from_plain(found, AgentSummary)
    show_fields(f"agent {summary.identity.agent_id}", _status_fields(summary))
    if summary.lifecycle.operator_hint:
        remark(summary.lifecycle.operator_hint)


def _say_lost(seat: Seat) -> Callable[[], None] | None:
    if seat.json:
        return None
    return lambda: remark(f"the Holon has gone: looking for it again for {PATIENCE_S:.0f} s")


def _status_fields(summary: AgentSummary) -> list[tuple[str, str | None]]:
    state, identity = summary.agent, summary.identity
    terminal, failure, sleep = state.last_turn_terminal, state.last_runtime_failure, state.sleep
    usage = summary.token_usage
    return [
        (
            "kind",
            f"{identity.kind}, {identity.visibility}" + (", the default agent" if identity.is_default_agent else ""),
        ),
        ("status", f"{state.status} ({summary.scheduling_posture.reason})"),
        (
            "stands at",
            summary.closure.outcome + (f", {summary.closure.waiting_reason}" if summary.closure.waiting_reason else ""),
        ),
        (
            "asleep",
            f"since {local_time(sleep.since)}: {sleep.reason}" if sleep and state.status == "asleep" else None,
        ),
        ("until", local_time(state.sleeping_until)),
        ("queue", f"{state.pending} waiting"),
        ("run", state.current_run_id),
        ("model", summary.model.effective_model + (" (its own)" if summary.model.override_model else "")),
        ("commands run on", backend_sentence(to_plain(backend)) if (backend := summary.execution.backend) else None),
        (
            "used",
            f"turns {state.turn_index:,}, rounds {usage.total_model_rounds:,}, tokens {usage.total.total_tokens:,}",
        ),
        (
            "last turn",
            f"{terminal.kind} at {local_time(terminal.completed_at)}, {span(terminal.duration_ms)}"
            if terminal
            else None,
        ),
        ("last failure", f"{local_time(failure.occurred_at)}: {failure.summary}" if failure else None),
        ("look at", failure.detail_hint if failure else None),
        (
            "open",
            f"{summary.active_task_count} tasks, {summary.active_timer_count} timers, "
            f"{len(summary.active_external_triggers)} triggers",
        ),
        ("home", identity.agent_home),
        ("instructions", ", ".join(source.path for source in _instructions(summary))),
    ]


def _instructions(summary: AgentSummary) -> list[GuidanceSource]:
    loaded = summary.loaded_agents_md
    return [source for source in (loaded.agent_source, loaded.workspace_source) if source and not source.problem]


def _newest_presented(
    client: Client, agent_id: str, mode: DisplayMode, limit: int
) -> tuple[int, list[tuple[EventEnvelope, Presentation]]]:
    """The newest events that this mode shows, oldest first, and the number of the newest event of all."""
    found: list[tuple[EventEnvelope, Presentation]] = []
    newest, before = 0, None
    for _ in range(_PAGES):
        page: dict[str, Any] = client.get(agent_path(agent_id, "events"), before_seq=before, limit=_PAGE, order="desc")
        envelopes = from_plain(page["events"], list[EventEnvelope])
        for envelope in envelopes:
            newest = max(newest, envelope.event_seq)
            line = presented(envelope, mode)
            if line is not None and len(found) < limit:
                found.append((envelope, line))
        if len(found) >= limit or not page["has_older"] or not envelopes:
            break
        before = envelopes[-1].event_seq
    return newest, found[::-1]


def _tail_line(envelope: EventEnvelope, line: Presentation) -> dict[str, Any]:
    return {"event_seq": envelope.event_seq, "ts": to_plain(envelope.ts), **to_plain(line)}


def _print_tail(seat: Seat, envelope: EventEnvelope, line: Presentation) -> None:
    if seat.json:
        emit(_tail_line(envelope, line))
        return
    when = local_time(envelope.ts)
    if line.category is EventCategory.BRIEF:
        say(f"{when}  {line.title}\n{line.body or line.summary}\n")
    else:
        say(f"{when}  {line.summary}")


def _event_row(envelope: EventEnvelope) -> tuple[str, str, str, str]:
    return str(envelope.event_seq), local_time(envelope.ts), envelope.type, present(as_event(envelope)).summary
