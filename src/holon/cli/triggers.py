"""`holon trigger`: the one URL per agent with which others can say that something changed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holon.cli.durations import parse_duration
from holon.cli.output import emit, local_time, show_fields
from holon.cli.seat import Agent, Seat, seated
from holon.core.codec import from_plain
from holon.core.triggers import TriggerSummary

app = typer.Typer(help="An agent's trigger URL: show, reveal, rotate, revoke.")


@app.command("show")
@seated()
def show_trigger(seat: Seat, agent: Agent = None) -> None:
    """Show an agent's trigger without its secret URL.

    \b
    Example:
      holon trigger show
    """
    client = seat.client()
    path = client.control_path(agent, "trigger")
    _print_trigger(seat, client.get(path))


@app.command("reveal")
@seated()
def reveal_trigger(seat: Seat, agent: Agent = None) -> None:
    """Print the trigger URL. Whoever has it can wake the agent; that it was shown is on record.

    \b
    Example:
      curl -d '{"branch": "main"}' "$(holon trigger reveal)"
    """
    client = seat.client()
    path = client.control_path(agent, "trigger", "reveal")
    _print_url(seat, client.post(path))


@app.command("rotate")
@seated()
def rotate_trigger(
    seat: Seat,
    agent: Agent = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="DURATION", help="Let the new one expire after 7d, 12h …")
    ] = None,
) -> None:
    """Make a new trigger URL and print it; the old one stops working at once.

    \b
    Example:
      holon trigger rotate --ttl 30d
    """
    client = seat.client()
    path = client.control_path(agent, "trigger", "rotate")
    _print_url(seat, client.post(path, {"ttl_ms": parse_duration(ttl)} if ttl else None))


@app.command("revoke")
@seated()
def revoke_trigger(seat: Seat, agent: Agent = None) -> None:
    """Revoke the trigger URL; 'holon trigger rotate' makes a new one.

    \b
    Example:
      holon trigger revoke
    """
    client = seat.client()
    path = client.control_path(agent, "trigger", "revoke")
    _print_trigger(seat, client.post(path))


def _print_trigger(seat: Seat, summary: dict[str, Any]) -> None:
    if seat.json:
        emit(summary)
        return
    trigger = from_plain(summary, TriggerSummary)
    show_fields(
        f"trigger {trigger.external_trigger_id} of agent {trigger.target_agent_id}",
        [
            ("status", trigger.status),
            ("deliveries", str(trigger.delivery_count)),
            ("last", local_time(trigger.last_delivered_at)),
            ("expires", local_time(trigger.expires_at)),
            ("revoked", local_time(trigger.revoked_at)),
            ("URL", "print it with 'holon trigger reveal'" if trigger.status == "active" else None),
        ],
    )


def _print_url(seat: Seat, capability: dict[str, Any]) -> None:
    """The URL alone, so that it can be used in a shell substitution."""
    seat.answer(capability, str(capability["trigger_url"]))
