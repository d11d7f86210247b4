"""`holon run`: one request from admission to its result, with or without a daemon.

Without one it opens the home itself, under the same lease that a daemon takes. A turn that is interrupted stays open on
disk and is taken up again by whoever opens the home next.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holon.cli.outcome import EXIT_CODES
from holon.cli.output import INTERRUPTED, emit, remark, say
from holon.cli.progress import Progress, Style
from holon.cli.seat import Seat, read_text, seated
from holon.core.errors import InvalidInput

if TYPE_CHECKING:
    from holon.cli.client import Client
    from holon.runtime.run_once import RunRequest
    from holon.runtime.run_results import RunResult


@seated()
def run(
    seat: Seat,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to do; '-' reads it from standard input.")],
    agent: Annotated[
        str | None,
        typer.Option("--agent", "-a", metavar="AGENT", help="A public agent; a temporary private one if left out."),
    ] = None,
    create_agent: Annotated[bool, typer.Option("--create-agent", help="Make the agent if it is not there.")] = False,
    max_turns: Annotated[
        int | None,
        typer.Option(
            "--max-turns",
            metavar="N",
            min=1,
            help="End after so many turns; what the agent queued for itself by then waits until it is spoken to.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="REF", help="The model of this run, like scripted/echo.")
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace", "-w", metavar="PATH", help="The folder or repository to work in; of the server, with --url."
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="REF", help="With --create-agent: what the new agent begins with."),
    ] = None,
    wait_for_tasks: Annotated[
        bool,
        typer.Option(
            "--wait-for-tasks/--no-wait-for-tasks",
            help="Go on until what was started in the background is over; or leave it to the agent.",
        ),
    ] = True,
) -> None:
    """Do one thing and print the result. No daemon is needed; one that runs on this home is used.

    Exit codes: 0 completed, 1 failed, 2 refused, 3 waiting or --max-turns reached.

    \b
    Example:
      holon run "say hello"
      holon run --json --agent reviewer --create-agent "read the diff"
      holon run --workspace . "run the tests and mend what fails"
    """
    from holon.runtime.run_once import RunRequest

    if create_agent and agent is None:
        raise InvalidInput(
            "--create-agent needs the agent's name", hint="add --agent NAME, or leave --create-agent out"
        )
    words = read_text(text)
    if workspace is not None and not seat.remote:
        workspace = str(Path(workspace).expanduser().absolute())
    request = RunRequest(
        text=words,
        agent_id=agent,
        create_agent=create_agent,
        max_turns=max_turns,
        model=model,
        workspace=workspace,
        template=template,
        wait_for_tasks=wait_for_tasks,
    )
    client = seat.client()
    through_daemon = seat.remote or client.answers()
    progress = Progress(Style.for_output(as_json=seat.json))
    try:
        with progress:
            result = _through(client, request, progress) if through_daemon else _here(seat, request, progress)
    except KeyboardInterrupt:
        if not seat.json:
            remark(_farewell(progress.agent_id, through_daemon))
        raise typer.Exit(INTERRUPTED) from None
    _print(seat, result)
    raise typer.Exit(EXIT_CODES[result.final_status.value])


def _through(client: Client, request: RunRequest, progress: Progress) -> RunResult:
    from holon.cli.remote_runs import run_through

    return run_through(client, request, progress.show)


def _here(seat: Seat, request: RunRequest, progress: Progress) -> RunResult:
    import asyncio

    return asyncio.run(_run_here(seat, request, progress))


async def _run_here(seat: Seat, request: RunRequest, progress: Progress) -> RunResult:
    from holon.runtime.host import Host
    from holon.runtime.run_once import run_once

    async with await Host.open(seat.settings(), purpose="run") as host:
        return await run_once(host, request, progress.show)


def _farewell(agent_id: str | None, through_daemon: bool) -> str:
    if agent_id is None:
        return "interrupted: nothing was heard of the turn yet; if its message was admitted, it is taken up again"
    if through_daemon and agent_id.startswith("tmp_"):
        return "left: the run goes on in the Holon that has this home; its agent is private"
    if through_daemon:
        return f"left: agent {agent_id} goes on; look with 'holon tail --agent {agent_id} --follow'"
    return (
        f"interrupted: the turn of agent {agent_id} stays open and is taken up again when Holon next runs on this home"
    )


def _print(seat: Seat, result: RunResult) -> None:
    if seat.json:
        emit(result)
        return
    if result.final_text:
        say(result.final_text)
    for begun in result.tasks:
        if begun.worktree is not None and begun.worktree["retained_for_review"]:
            remark(f"kept for review: {begun.worktree['worktree_path']} ('holon task status {begun.task.id}')")
    if result.failure_artifact is not None:
        remark(f"failed: {result.failure_artifact.summary}")
    elif result.final_status.value != "completed":
        remark(f"{result.final_status.value}: {result.waiting_reason or result.sleep_reason or 'see --json'}")
