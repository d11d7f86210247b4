"""`holon prompt`: say something to an agent of a running Holon, and by default wait for what it answers."""

from __future__ import annotations

from typing import Annotated

import typer

from holon.cli.client import agent_path
from holon.cli.outcome import EXIT_CODES, await_outcome
from holon.cli.output import INTERRUPTED, WAITING, emit, remark, say
from holon.cli.progress import Progress, Style
from holon.cli.seat import Agent, Seat, read_text, seated
from holon.core.ids import new_id


@seated()
def prompt(
    seat: Seat,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; '-' reads it from standard input.")],
    agent: Agent = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answer and print it.")] = True,
) -> None:
    """Say something to an agent and print its answer.

    It needs a running Holon. The message is durable as soon as it is admitted: Ctrl-C leaves it to the agent. Exit
    codes: 0 completed, 1 failed, 2 refused, 3 the agent waits for something.

    \b
    Example:
      holon prompt "what is left to do?"
      holon prompt "check the build" --agent ci --no-wait
    """
    words = read_text(text)
    client = seat.client()
    agent_id = client.agent_id(agent)
    before = client.get(agent_path(agent_id, "status"))
    admitted = client.post(agent_path(agent_id, "prompt", control=True), {"text": words}, idempotency_key=new_id("cli"))
    message_id = str(admitted["message_id"])
    if wait:
        raise typer.Exit(_wait(seat, agent_id, message_id, before["newest_event_seq"]))
    seat.answer(
        admitted,
        f"{message_id} is queued for agent {agent_id}: follow it with 'holon tail --agent {agent_id} --follow'",
    )


def _wait(seat: Seat, agent_id: str, message_id: str, after_seq: int) -> int:
    client = seat.client()
    hint = client.get(agent_path(agent_id, "status"))["lifecycle"].get("operator_hint")
    if hint:
        if seat.json:
            emit({"agent_id": agent_id, "message_id": message_id, "final_status": "waiting", "text": hint})
        else:
            say(f"{message_id} waits in the queue of agent {agent_id}: {hint}")
        return WAITING
    try:
        with Progress(Style.for_output(as_json=seat.json)) as progress:
            outcome = await_outcome(client, agent_id, message_id, after_seq=after_seq, on_event=progress.show)
    except KeyboardInterrupt:
        if not seat.json:
            remark(
                f"left: agent {agent_id} goes on with {message_id}; look with 'holon tail --agent {agent_id} --follow'"
            )
        return INTERRUPTED
    seat.answer(outcome, outcome.text)
    return EXIT_CODES[outcome.final_status]
