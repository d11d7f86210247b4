"""Tools of delegation: `SpawnAgent`, `AgentGet`, `NotifyOperator`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

import msgspec

from holon.core.agents import AgentState
from holon.core.codec import Input, dumps, to_plain
from holon.store import Tx
from holon.tools.envelope import ToolError, ToolFailure
from holon.tools.registry import CallContext, Tool, ToolOutcome


class SpawnInput(Input, frozen=True, kw_only=True):
    initial_message: Annotated[
        str | None, msgspec.Meta(description="What the new agent shall do, complete in itself.")
    ] = None
    preset: Annotated[
        Literal["private_child", "public_named"],
        msgspec.Meta(description="private_child: yours, until its work is done; public_named: an agent of its own."),
    ] = "private_child"
    agent_id: Annotated[str | None, msgspec.Meta(description="Only for public_named: its name.")] = None
    template: Annotated[str | None, msgspec.Meta(description="Only for public_named: a template's id.")] = None
    workspace_mode: Annotated[
        Literal["inherit", "worktree"],
        msgspec.Meta(description="worktree: the child works in an isolated copy of the repository, as last committed."),
    ] = "inherit"


class AgentGetInput(Input, frozen=True, kw_only=True):
    pass


class NotifyInput(Input, frozen=True, kw_only=True):
    message: Annotated[
        str, msgspec.Meta(description="What your owner should know now.", min_length=1, max_length=4_000)
    ]


class Family(Protocol):
    """What the runtime does for these tools."""

    async def plan_spawn(self, context: CallContext, asked: SpawnInput) -> SpawnPlan: ...
    async def look(self, context: CallContext) -> Any: ...
    def notify(self, tx: Tx, context: CallContext, message: str) -> None: ...


class SpawnPlan(Protocol):
    """A spawn that was checked: its answer is known, and it is carried out in the transaction of the call."""

    @property
    def answer(self) -> dict[str, Any]: ...
    def carry_out(self, tx: Tx, state: AgentState) -> AgentState: ...
    async def follow(self) -> None: ...


def delegation_tools(family: Family) -> list[Tool]:
    async def spawn(context: CallContext, asked: SpawnInput) -> ToolOutcome:
        _check(asked)
        plan = await family.plan_spawn(context, asked)
        return ToolOutcome(
            content=dumps({"ok": True, **plan.answer}),
            summary=f"spawned {plan.answer['agent_id']}",
            change=plan.carry_out,
            after=plan.follow,
        )

    async def look(context: CallContext, _asked: AgentGetInput) -> ToolOutcome:
        return ToolOutcome(content=dumps({"agent": to_plain(await family.look(context))}), summary="looked at itself")

    async def notify(context: CallContext, asked: NotifyInput) -> ToolOutcome:
        return ToolOutcome(
            content=dumps({"ok": True}),
            summary="notified the operator",
            effect=lambda tx: family.notify(tx, context, asked.message),
        )

    return [
        Tool(
            "SpawnAgent",
            "Delegate bounded work to a private child that reports back to you as a task, or found a public agent.",
            SpawnInput,
            spawn,
        ),
        Tool("AgentGet", "Your own state: identity, posture, waits, children, usage.", AgentGetInput, look, True),
        Tool("NotifyOperator", "Tell your owner something now, without ending the turn.", NotifyInput, notify),
    ]


def _check(asked: SpawnInput) -> None:
    private = asked.preset == "private_child"
    problem = None
    if private and not (asked.initial_message or "").strip():
        problem = ("initial_message", "a private child needs an initial_message: it is the child's task")
    elif private and (asked.agent_id or asked.template):
        problem = ("agent_id", "agent_id and template belong to preset public_named")
    elif not private and not asked.agent_id:
        problem = ("agent_id", "a public agent needs an agent_id")
    elif not private and asked.workspace_mode != "inherit":
        problem = ("workspace_mode", "worktree is for private children")
    if problem:
        field, message = problem
        raise ToolFailure(
            ToolError(
                kind="invalid_tool_input",
                message=message,
                details={"field": field},
                recovery_hint="call SpawnAgent again with it put right",
            )
        )
