"""Worktrees: which ones an agent's tasks own, which ones stand beside its repositories, and the operator's word on one
that was kept or left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody

from holon.core.codec import Input, Record
from holon.core.tasks import TaskStatusSnapshot
from holon.runtime.overseeing import OwnedWorktree
from holon.runtime.shelves import ShelvedOutcome, ShelvedWorktree
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost


class WorktreeSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Newest first. `retained_for_review` marks those that wait for a person."""

    agent_id: str
    summary: list[OwnedWorktree]


class WorktreeRemoveRequest(Input, frozen=True, kw_only=True):
    """Without `discard` it goes only if everything in it exists elsewhere too, as after a merge."""

    discard: bool = False


class ShelvedWorktrees(Record, frozen=True, kw_only=True, omit_defaults=False):
    agent_id: str
    worktrees: list[ShelvedWorktree]


class ShelvedRemoveRequest(WorktreeRemoveRequest, frozen=True, kw_only=True):
    """By its path, as it is listed."""

    path: Annotated[str, msgspec.Meta(min_length=1)]


@get(
    "/agents/{agent_id:str}/worktree-summary",
    summary="The worktrees of an agent's tasks",
    tags=["tasks"],
    responses=refusals(404, 409),
)
async def summary(host: TheHost, agent_id: AgentId) -> WorktreeSummary:
    return WorktreeSummary(agent_id=agent_id, summary=await host.overseer.worktrees(agent_id))


@post(
    "/control/agents/{agent_id:str}/tasks/{task_id:str}/worktree/remove",
    status_code=200,
    summary="Remove a worktree that was kept for review",
    tags=["tasks"],
    responses=refusals(404, 409),
)
async def remove(
    host: TheHost, agent_id: AgentId, task_id: FromPath[str], data: JSONBody[WorktreeRemoveRequest | None] = None
) -> TaskStatusSnapshot:
    """With its branch. If something in it exists nowhere else it stays, and `cleanup_reason` says what."""
    return await host.overseer.remove_worktree(agent_id, task_id, discard=data.discard if data else False)


@get(
    "/agents/{agent_id:str}/workspace/worktrees",
    summary="The worktrees beside an agent's repositories",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def shelved(host: TheHost, agent_id: AgentId) -> ShelvedWorktrees:
    """All that the runtime has made of the attached repositories and not removed, whoever works in them."""
    return ShelvedWorktrees(agent_id=agent_id, worktrees=await host.shelves.look(agent_id))


@post(
    "/control/agents/{agent_id:str}/workspace/worktrees/remove",
    status_code=200,
    summary="Remove a worktree that nobody works in",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def take_down(host: TheHost, agent_id: AgentId, data: JSONBody[ShelvedRemoveRequest]) -> ShelvedOutcome:
    """With its branch. If something in it exists nowhere else it stays, and `reason` says what."""
    return await host.shelves.remove(agent_id, Path(data.path), discard=data.discard)


HANDLERS = [summary, remove, shelved, take_down]
