"""`holon workspace`: where an agent works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from holon.cli.output import emit, show_fields, show_table
from holon.cli.seat import Agent, Seat, seated
from holon.cli.tasks import refuse_kept

app = typer.Typer(help="Where an agent works, how its commands are confined, and the worktrees that it left.")

#: Follows the runtime's setting `execution.backend`.
DEFAULT = "default"
_NETWORK = {"on": True, "off": False, DEFAULT: None}


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
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="A folder or repository; of the server, with --url.")
    ] = None,
    workspace_id: Annotated[
        str | None, typer.Option("--id", metavar="WORKSPACE", help="One that is attached; agent_home is its own.")
    ] = None,
    agent: Agent = None,
) -> None:
    """Attach a folder or repository to an agent, and let it work there from now on; or in one that it has already.

    \b
    Example:
      holon workspace use .
      holon workspace use ~/src/project --agent reviewer
      holon workspace use --id agent_home
    """
    client = seat.client()
    where = path if path is None or seat.remote else str(Path(path).expanduser().absolute())
    given = {"path": where, "workspace_id": workspace_id}
    body = {name: value for name, value in given.items() if value is not None}
    _print(seat, client.post(client.control_path(agent, "workspace", "use"), body))


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


@app.command("backend")
@seated()
def choose_backend(
    seat: Seat,
    choice: Annotated[
        str | None, typer.Argument(metavar="[CHOICE]", help="host_local, sandboxed, auto; or default: the runtime's.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(metavar="on|off|default", help="Whether its sandbox shares the machine's network.")
    ] = None,
    agent: Agent = None,
    force: Annotated[bool, typer.Option("--force", help="Also if no sandbox can be made here now.")] = False,
) -> None:
    """Show or choose how an agent's commands are confined. What runs already goes on where it began.

    \b
    Example:
      holon workspace backend
      holon workspace backend auto --agent reviewer
      holon workspace backend sandboxed --network on --agent fetcher
      holon workspace backend default --agent reviewer
    """
    if network not in (None, *_NETWORK):
        raise typer.BadParameter("choose on, off or default", param_hint="--network")
    body: dict[str, Any] = {}
    if choice is not None:
        body["backend"] = None if choice == DEFAULT else choice
    if network is not None:
        body["network"] = _NETWORK[network]
    client = seat.client()
    path = client.control_path(agent, "backend")
    found = client.post(path, {**body, "force": force}) if body else client.get(path)
    seat.answer(found, f"commands of agent {found['agent_id']} run on {backend_sentence(found['backend'])}")


@app.command("worktrees")
@seated()
def list_worktrees(seat: Seat, agent: Agent = None) -> None:
    """List the worktrees beside an agent's repositories: in use, a task's, or left behind.

    \b
    Example:
      holon workspace worktrees
    """
    client = seat.client()
    listed = client.get(client.path(agent, "workspace", "worktrees"))
    if seat.json:
        emit(listed)
        return
    rows = [
        (each["branch"] or "no branch", _whose(each), each["path"] if each["exists"] else f"{each['path']} (gone)")
        for each in listed["worktrees"]
    ]
    show_table(("branch", "whose", "path"), rows, empty="no worktrees stand beside its repositories")


@app.command("remove-worktree")
@seated()
def remove_worktree(
    seat: Seat,
    path: Annotated[str, typer.Argument(metavar="PATH", help="As 'holon workspace worktrees' lists it.")],
    agent: Agent = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Also if something in it exists nowhere else: that is lost then.")
    ] = False,
) -> None:
    """Remove a worktree that an agent left behind, with its branch.

    \b
    Example:
      holon workspace remove-worktree ~/src/.holon-worktrees-shop/holon-main-work-a1b2c3
    """
    client = seat.client()
    where = path if seat.remote else str(Path(path).expanduser().absolute())
    body = {"path": where, "discard": discard}
    done = client.post(client.control_path(agent, "workspace", "worktrees", "remove"), body)
    if done["cleanup_status"] not in ("removed", "already_removed"):
        refuse_kept(seat, done["path"], done["branch"], done["reason"])
    seat.answer(done, f"{done['path']} and branch {done['branch']} are removed")


def _whose(worktree: dict[str, Any]) -> str:
    users, task_id = worktree["used_by"], worktree["task_id"]
    return task_id or (f"in use by {', '.join(users)}" if users else "left behind")


def backend_sentence(backend: dict[str, Any]) -> str:
    """`host_local (by execution.backend auto; commands are not confined: …)`"""
    by = "its own choice" if backend["source"] == "agent_override" else "execution.backend"
    place = backend["effective"]
    if place != "host_local":
        place += " with the network" if backend["network"] else " without network"
    return f"{place} (by {by} {backend['choice']}; {backend['reason']})"


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
            ("commands run on", backend_sentence(view["backend"])),
            ("lost", view["lost"]),
        ],
    )
