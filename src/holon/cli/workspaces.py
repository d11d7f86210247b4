"""`holon workspace`: where an agent works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from holon.cli.output import emit, show_fields
from holon.cli.seat import Agent, Seat, seated

app = typer.Typer(help="Where an agent works: show, use, detach.")


@app.command("show")
@seated()
def show_workspace(seat: Seat, agent: Agent = None) -> None:
    """Show where an agent works, and what else is attached to it.

    \b
    Example:
      holon workspace show
    """
    client = seat.client()
    _print(seat, client.get(client.path(agent, "workspace")))


@app.command("use")
@seated()
def use_workspace(
    seat: Seat,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder or repository; of the server, with --url.")],
    agent: Agent = None,
) -> None:
    """Attach a folder or repository to an agent, and let it work there from now on.

    \b
    Example:
      holon workspace use .
      holon workspace use ~/src/project --agent reviewer
    """
    client = seat.client()
    where = path if seat.remote else str(Path(path).expanduser().absolute())
    _print(seat, client.post(client.control_path(agent, "workspace", "use"), {"path": where}))


@app.command("detach")
@seated()
def detach_workspace(
    seat: Seat,
    workspace_id: Annotated[str, typer.Argument(metavar="WORKSPACE", help="The workspace's id.")],
    agent: Agent = None,
) -> None:
    """Detach a workspace that is not the active one. Nothing on disk is touched.

    \b
    Example:
      holon workspace detach ws_0123456789ab
    """
    client = seat.client()
    body = {"workspace_id": workspace_id}
    _print(seat, client.post(client.control_path(agent, "workspace", "detach"), body))


def _print(seat: Seat, view: dict[str, Any]) -> None:
    if seat.json:
        emit(view)
        return
    active = view["active"]
    others = [name for name in view["attached_workspaces"] if name != active["workspace_id"]]
    show_fields(
        f"{view['agent_id']} works in {active['cwd']}",
        [
            ("workspace", active["workspace_id"]),
            ("root", active["execution_root"]),
            ("project", active["workspace_anchor"]),
            ("also attached", ", ".join(others)),
        ],
    )
