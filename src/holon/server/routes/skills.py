"""Skills: what an agent can see and has loaded, what is installed for it, and what loads brought."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get, post
from litestar.params import JSONBody, QueryParameter

from holon.core.codec import Record
from holon.runtime.skilling import DEFAULT_DAYS, SkillInstallRequest, SkillsReport, SkillsView, SkillUninstallRequest
from holon.server.auth import caller_of
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost
from holon.skills.installing import Installed, Provenance

Days = Annotated[int, QueryParameter(ge=1, le=36_500, description="How many days back.")]
OfAgent = Annotated[str | None, QueryParameter(description="Only what this agent loaded.", min_length=1)]


class Uninstalled(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    provenance: Provenance | None


@get(
    "/agents/{agent_id:str}/skills",
    summary="The skills that an agent sees",
    tags=["skills"],
    responses=refusals(404),
)
async def listing(host: TheHost, agent_id: AgentId) -> SkillsView:
    """Names, descriptions and references, with what is active in its session. Never a body."""
    return await host.skills.listing(agent_id)


@post(
    "/control/agents/{agent_id:str}/skills/install",
    status_code=201,
    summary="Install a skill for an agent",
    tags=["skills"],
    responses=refusals(400, 404, 409),
)
async def install(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[SkillInstallRequest]
) -> Installed:
    """From a folder or an archive on this machine, or a git URL, pinned to its commit. Nothing of it is executed."""
    return await host.skills.install(agent_id, data, surface=caller_of(request).control_surface)


@post(
    "/control/agents/{agent_id:str}/skills/uninstall",
    status_code=200,
    summary="Take an installed skill away",
    tags=["skills"],
    responses=refusals(400, 404, 409),
)
async def uninstall(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[SkillUninstallRequest]
) -> Uninstalled:
    """A skill that was written here, and not installed, needs `force`."""
    found = await host.skills.uninstall(agent_id, data, surface=caller_of(request).control_surface)
    return Uninstalled(name=data.name, provenance=found)


@get("/analytics/skills", summary="What loads of skills brought", tags=["analytics"], responses=refusals(404))
async def report(host: TheHost, days: Days = DEFAULT_DAYS, agent_id: OfAgent = None) -> SkillsReport:
    """A line a skill: loads, preloads, references, uses, refusals, tokens and money; and who was never loaded."""
    return await host.skills.report(days=days, agent_id=agent_id)


HANDLERS = [listing, install, uninstall, report]
