"""Prompts: what an agent's model is shown, for its operator. Over TCP these need a token, like all of control."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from holon.runtime.inspection import PromptView
from holon.runtime.past_requests import PromptDiff
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost

Call = Annotated[
    int | None, QueryParameter(ge=1, le=2**63 - 1, description="The number of a call in the agent's ledger.")
]
WithText = Annotated[bool, QueryParameter(description="Adds the text of each block.")]


@get(
    "/control/agents/{agent_id:str}/prompt",
    summary="The agent's prompt, with what its parts cost",
    tags=["control"],
    responses=refusals(404, 409),
)
async def inspect(host: TheHost, agent_id: AgentId, call: Call = None, text: WithText = False) -> PromptView:
    """As the next turn would send it, or as `call` sent it.

    A past request is made again from what is stored, and compared with what the ledger knows of it (`verification`).
    """
    return await host.inspection.prompt(agent_id, call=call, text=text)


@get(
    "/control/agents/{agent_id:str}/prompt/diff",
    summary="Two requests that follow one another",
    tags=["control"],
    responses=refusals(404, 409),
)
async def compare(host: TheHost, agent_id: AgentId, call: Call = None) -> PromptDiff:
    """The newest request, or `call`, against the one before: what it adds, or where it first differs."""
    return await host.inspection.diff(agent_id, call=call)


HANDLERS = [inspect, compare]
