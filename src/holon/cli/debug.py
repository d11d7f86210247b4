"""`holon debug`: what an agent's prompt is made of, where time goes, and what retention would remove."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holon.cli.output import emit, say, show_table, span
from holon.cli.seat import Agent, Limit, Seat, seated
from holon.core.errors import InvalidInput

app = typer.Typer(help="What a prompt is made of, where time goes, and what retention removes.")


@app.command()
@seated()
def prompt(
    seat: Seat,
    agent: Agent = None,
    call: Annotated[
        int | None, typer.Option("--call", metavar="N", min=1, help="A past call by its number, as it was sent.")
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare the newest request, or --call, with the one before.")
    ] = False,
    text: Annotated[bool, typer.Option("--text", help="Print the prompt itself.")] = False,
) -> None:
    """Show what an agent's prompt is made of, what its parts cost, and what of it came from the cache.

    Without --call it is the prompt of the next turn. A past call is made again from what is stored and compared with
    what the ledger knows of it. In the bar each letter is a part, and under it stands what became of it: R was read
    from the cache, W was written to it, F was fresh.

    \b
    Example:
      holon debug prompt
      holon debug prompt --call 7 --text
      holon debug prompt --diff
    """
    from holon.cli.prompt_views import show_diff, show_prompt, show_text

    if diff and text:
        raise InvalidInput("--diff and --text are two questions", hint="ask one at a time")
    client = seat.client()
    if diff:
        found = client.get(client.control_path(agent, "prompt", "diff"), call=call)
    else:
        found = client.get(client.control_path(agent, "prompt"), call=call, text="true" if text else None)
    if seat.json:
        emit(found)
    elif diff:
        show_diff(found)
    elif text:
        show_text(found)
    else:
        show_prompt(found)


@app.command()
@seated()
def latency(seat: Seat, agent: Agent = None, limit: Limit = 10) -> None:
    """Show where the time of an agent's newest turns went, computed from its events.

    \b
    Example:
      holon debug latency --limit 5
    """
    client = seat.client()
    turns = client.get(client.path(agent, "latency"), limit=limit)
    if seat.json:
        emit(turns)
        return
    columns = ("turn", "queue", "context", "model", "tools", "cleanup", "total")
    show_table(columns, [_latency_row(turn) for turn in turns], empty="there are no ended turns")


@app.command()
@seated()
def retention(
    seat: Seat,
    apply: Annotated[bool, typer.Option("--apply/--dry-run", help="Remove it, or only say what would go.")] = False,
) -> None:
    """Show what retention would remove now, or remove it. Nothing that is still referenced is ever removed.

    \b
    Example:
      holon debug retention --dry-run
    """
    client = seat.client()
    path = "/control/runtime/retention"
    plan = client.post(path) if apply else client.get(path)
    if seat.json:
        emit(plan)
        return
    rows = [(family, str(count)) for family, count in plan["deleted"].items() if count]
    show_table(("records", "removed" if apply else "would go"), rows, empty="nothing is old enough to go")
    if rows and not apply:
        say("nothing was removed: 'holon debug retention --apply' does it")


def _latency_row(turn: dict[str, Any]) -> tuple[str, ...]:
    parts = ("queue_wait_ms", "context_build_ms", "provider_ms", "tool_ms", "cleanup_ms", "total_ms")
    return (str(turn["turn_index"]), *(span(turn[part]) for part in parts))
