"""`holon agent`: the agents of a running Holon, and their lifecycle."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holon.cli.client import agent_path
from holon.cli.inspection import show_status
from holon.cli.output import emit, say, show_table
from holon.cli.seat import Agent, Seat, seated
from holon.core.agents import AgentListEntry, AgentModelState
from holon.core.codec import from_plain
from holon.core.ids import new_id

app = typer.Typer(help="Agents: list, create, pause, resume, stop, abort, and their models.")
model = typer.Typer(help="The model of one agent: show it, set another one, go back to the default.")
app.add_typer(model, name="model")

Id = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")]


@app.command("list")
@seated()
def list_agents(seat: Seat) -> None:
    """List the public agents.

    \b
    Example:
      holon agent list
    """
    listed = seat.client().get("/agents/list")
    if seat.json:
        emit(listed)
        return
    entries = from_plain(listed, list[AgentListEntry])
    rows = [
        (
            entry.identity.agent_id + (" (default)" if entry.identity.is_default_agent else ""),
            entry.status,
            entry.waiting_reason or entry.scheduling_posture.reason,
            str(entry.pending),
            entry.current_run_id or "",
            entry.model.effective_model,
        )
        for entry in entries
    ]
    show_table(("agent", "status", "because", "queued", "run", "model"), rows, empty="there are no agents")


@app.command()
@seated()
def create(
    seat: Seat,
    agent: Id,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="REF", help="A template's id, absolute folder, or GitHub tree URL."),
    ] = None,
) -> None:
    """Create a public agent. Agents are never created by talking to them.

    With a template its home begins with that template's instructions and skills. If anything of it fails, there is no
    agent.

    \b
    Example:
      holon agent create reviewer --template holon-reviewer
    """
    made = seat.client().post(
        agent_path(agent, "create", control=True),
        {"template": template} if template is not None else None,
        idempotency_key=new_id("cli"),
    )
    seat.answer(made, f"agent {agent} is there: talk to it with 'holon prompt --agent {agent} TEXT'")


@app.command("templates")
@seated()
def list_templates(seat: Seat) -> None:
    """List the templates that new agents can be made from.

    \b
    Example:
      holon agent templates
    """
    listed = seat.client().get("/templates")
    if seat.json:
        emit(listed)
        return
    rows = [
        (
            entry["template_id"],
            entry["source"],
            ", ".join(entry["included_skills"]),
            entry["problem"] or entry["description"],
        )
        for entry in listed
    ]
    show_table(("template", "source", "skills", "what it is"), rows, empty="there are no templates")


@app.command()
@seated()
def status(
    seat: Seat, agent: Annotated[str | None, typer.Argument(metavar="[AGENT]", help="The agent's id.")] = None
) -> None:
    """Show one agent, like 'holon status --agent'.

    \b
    Example:
      holon agent status reviewer
    """
    show_status(seat, agent)


@app.command()
@seated()
def pause(seat: Seat, agent: Id) -> None:
    """Hold an agent's queue: messages are taken and wait, a running turn goes on.

    \b
    Example:
      holon agent pause reviewer
    """
    _control(seat, agent, "pause")


@app.command()
@seated()
def resume(seat: Seat, agent: Id) -> None:
    """Let a paused or stopped agent work again.

    \b
    Example:
      holon agent resume reviewer
    """
    _control(seat, agent, "resume")


@app.command()
@seated()
def stop(seat: Seat, agent: Id) -> None:
    """Stop an agent: it takes no messages until it is resumed, also after a restart.

    \b
    Example:
      holon agent stop reviewer
    """
    _control(seat, agent, "stop")


@app.command()
@seated()
def abort(
    seat: Seat,
    agent: Id,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="RUN", help="Only if this is still the current run.")
    ] = None,
    stop_after: Annotated[bool, typer.Option("--stop", help="Stop the agent afterwards.")] = False,
) -> None:
    """End the turn that an agent is running.

    \b
    Example:
      holon agent abort reviewer
    """
    body = {"run_id": run_id, "mode": "stop_after_abort" if stop_after else None}
    given = {key: value for key, value in body.items() if value is not None}
    outcome = seat.client().post(agent_path(agent, "current-run", "abort", control=True), given)
    seat.answer(
        outcome,
        f"run {outcome['run_id']} of agent {agent} is being aborted" + (", then the agent stops" if stop_after else ""),
    )


@model.command("get")
@seated()
def get_model(seat: Seat, agent: Agent = None) -> None:
    """Show which model an agent's next turn begins with, and what is tried after it.

    \b
    Example:
      holon agent model get --agent reviewer
    """
    client = seat.client()
    found = client.get(client.control_path(agent, "model"))
    seat.answer(found, _model_sentence(found))


@model.command("set")
@seated()
def set_model(
    seat: Seat,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The model, like anthropic/claude-opus-5.")],
    agent: Agent = None,
    force: Annotated[bool, typer.Option("--force", help="Also if its provider cannot be used now.")] = False,
) -> None:
    """Give an agent a model of its own. A turn that runs keeps the model that it began with.

    \b
    Example:
      holon agent model set anthropic/claude-opus-5 --agent reviewer
    """
    client = seat.client()
    found = client.post(client.control_path(agent, "model"), {"model": ref, "force": force})
    seat.answer(found, _model_sentence(found))


@model.command("clear")
@seated()
def clear_model(seat: Seat, agent: Agent = None) -> None:
    """Let an agent use the runtime's default model again.

    \b
    Example:
      holon agent model clear --agent reviewer
    """
    client = seat.client()
    found = client.post(client.control_path(agent, "model", "clear"))
    seat.answer(found, _model_sentence(found))


def _model_sentence(found: dict[str, Any]) -> str:
    state = from_plain(found["model"], AgentModelState)
    why = "its own" if state.source == "agent_override" else "the default"
    after = f"; if it fails: {', '.join(state.effective_fallback_models)}" if state.effective_fallback_models else ""
    return f"agent {found['agent_id']} uses {state.effective_model} ({why}) from its next turn on{after}"


def _control(seat: Seat, agent: str, action: str) -> None:
    outcome = seat.client().post(agent_path(agent, action, control=True))
    if seat.json:
        emit(outcome)
    elif outcome.get("changed", True):
        say(f"agent {agent} is {outcome['status']}")
    else:
        say(f"agent {agent} was {outcome['status']} already")
