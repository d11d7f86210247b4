"""`holon timer`: wake an agent after a while, once or again and again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holon.cli.durations import parse_duration
from holon.cli.output import emit, local_time, say, show_table, span
from holon.cli.seat import Agent, Limit, Seat, seated
from holon.core.codec import from_plain
from holon.core.errors import InvalidInput
from holon.core.ids import new_id
from holon.core.timers import Timer

app = typer.Typer(help="An agent's timers: create, list, cancel.")


@app.command("create")
@seated()
def create_timer(
    seat: Seat,
    agent: Agent = None,
    after: Annotated[str | None, typer.Option("--after", metavar="DURATION", help="When: 10s, 5m, 1h30m.")] = None,
    after_ms: Annotated[
        int | None, typer.Option("--after-ms", metavar="MS", min=1, help="When, in milliseconds.")
    ] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="DURATION", help="Again and again: 1h.")] = None,
    every_ms: Annotated[
        int | None, typer.Option("--every-ms", metavar="MS", min=1, help="The same in milliseconds.")
    ] = None,
    summary: Annotated[
        str | None, typer.Option("--summary", "-s", metavar="TEXT", help="What it is for; the agent reads it.")
    ] = None,
) -> None:
    """Set a timer.

    Fires that were missed while nothing ran fall together into one.

    \b
    Example:
      holon timer create --after 10m --summary "look at the build"
      holon timer create --every 1h --summary "hourly round"
    """
    body = _timer_request(_milliseconds(after, after_ms, "--after"), _milliseconds(every, every_ms, "--every"), summary)
    client = seat.client()
    path = client.control_path(agent, "timers")
    made = client.post(path, body, idempotency_key=new_id("cli"))
    if seat.json:
        emit(made)
        return
    timer = from_plain(made, Timer)
    say(f"{timer.id} fires at {local_time(timer.next_fire_at)}: cancel it with 'holon timer cancel {timer.id}'")


@app.command("list")
@seated()
def list_timers(seat: Seat, agent: Agent = None, limit: Limit = 50) -> None:
    """List an agent's timers.

    \b
    Example:
      holon timer list
    """
    client = seat.client()
    listed = client.get(client.path(agent, "timers"), limit=limit)
    if seat.json:
        emit(listed)
        return
    rows = [
        (
            timer.id,
            timer.status,
            local_time(timer.next_fire_at),
            span(timer.interval_ms) if timer.interval_ms else "once",
            str(timer.fire_count),
            timer.summary or "",
        )
        for timer in from_plain(listed, list[Timer])
    ]
    show_table(("timer", "status", "next", "every", "fired", "summary"), rows, empty="there are no timers")


@app.command("cancel")
@seated()
def cancel_timer(
    seat: Seat, timer_id: Annotated[str, typer.Argument(metavar="TIMER", help="The timer's id.")], agent: Agent = None
) -> None:
    """Cancel a timer, and void a tick of it that is still queued.

    \b
    Example:
      holon timer cancel timer_01J9ZK3V7Q
    """
    client = seat.client()
    path = client.control_path(agent, "timers", timer_id, "cancel")
    cancelled = client.post(path)
    seat.answer(cancelled, f"{timer_id} is {cancelled['status']}")


def _milliseconds(text: str | None, number: int | None, option: str) -> int | None:
    if text is not None and number is not None:
        raise InvalidInput(f"{option} and {option}-ms say the same", hint=f"give one of them: {option} 10s")
    if text is None:
        return number
    if (found := parse_duration(text)) < 1:
        raise InvalidInput(f"{option} {text} is no time to wait", hint=f"give at least 1 ms, like {option} 10s")
    return found


def _timer_request(after: int | None, every: int | None, summary: str | None) -> dict[str, Any]:
    first = after if after is not None else every
    if first is None:
        raise InvalidInput("a timer needs a time", hint="give --after 10s, --every 1h or both")
    given = {"duration_ms": first, "interval_ms": every, "summary": summary}
    return {key: value for key, value in given.items() if value is not None}
