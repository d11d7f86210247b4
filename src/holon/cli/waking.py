"""`holon wake`: tell an agent that it may want to look."""

from __future__ import annotations

from typing import Annotated

import typer

from holon.cli.seat import Agent, Seat, seated


@seated()
def wake(
    seat: Seat,
    agent: Agent = None,
    reason: Annotated[
        str, typer.Option("--reason", "-r", metavar="TEXT", help="Why; the agent reads it.")
    ] = "the operator asked",
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="Who noticed.")] = None,
) -> None:
    """Tell an agent that it may want to look.

    It is a hint: a busy agent looks when it is free.

    \b
    Example:
      holon wake --reason "the build is green again"
    """
    client = seat.client()
    body = {"reason": reason} | ({"source": source} if source else {})
    outcome = client.post(client.control_path(agent, "wake"), body)
    seat.answer(outcome, f"agent {outcome['agent_id']}: {outcome['disposition']}")
