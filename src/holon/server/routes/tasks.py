"""Tasks and workspaces: what an agent has running and where it works, with the operator's word to both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from holon.core.codec import Input
from holon.core.policy import BackendChoice
from holon.core.tasks import TaskOutputResult, TaskStatusSnapshot
from holon.runtime.confinement import BackendOutcome
from holon.runtime.housing import WorkspaceView
from holon.runtime.overseeing import InputReceipt, StopReceipt
from holon.server.auth import caller_of
from holon.server.openapi import refusals
from holon.server.parameters import AgentId, TheHost

_TASK = "/control/agents/{agent_id:str}/tasks/{task_id:str}"
#: A request does not wait longer; a caller that wants to asks again.
MAX_WAIT_MS = 60_000

Block = Annotated[bool, QueryParameter(description="Wait for the end of the task, up to `timeout_ms`.")]
Timeout = Annotated[int, QueryParameter(ge=1, le=MAX_WAIT_MS, description="How long to wait.")]


class TaskInputRequest(Input, frozen=True, kw_only=True):
    """What to type into a command, or to tell a child."""

    input: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]


class TaskStopRequest(Input, frozen=True, kw_only=True):
    """How to end a task: `force` does it at once, instead of asking first."""

    force: bool = False


class WorkspaceUseRequest(Input, frozen=True, kw_only=True):
    """Exactly one of the two: a folder or repository on the server's machine, or an attached workspace (`agent_home`
    is the agent's own)."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)] | None = None
    workspace_id: Annotated[str, msgspec.Meta(min_length=1)] | None = None


class BackendRequest(Input, frozen=True, kw_only=True):
    """The backend of the agent's next commands, and whether they reach the network from a sandbox; null: as the runtime
    is set, absent: as it was. `force` takes a sandbox that cannot be made here: the agent then runs no commands."""

    backend: BackendChoice | msgspec.UnsetType | None = msgspec.UNSET
    network: bool | msgspec.UnsetType | None = msgspec.UNSET
    force: bool = False

    def __post_init__(self) -> None:
        if self.backend is msgspec.UNSET and self.network is msgspec.UNSET:
            raise ValueError("give a backend or a network")


class WorkspaceDetachRequest(Input, frozen=True, kw_only=True):
    """A workspace that is attached and not the active one."""

    workspace_id: Annotated[str, msgspec.Meta(min_length=1)]


@get(_TASK, summary="Where a task stands", tags=["tasks"], responses=refusals(404, 409))
async def status(host: TheHost, agent_id: AgentId, task_id: FromPath[str]) -> TaskStatusSnapshot:
    """Lifecycle and coordination, without output."""
    return await host.overseer.look(agent_id, task_id)


@get(f"{_TASK}/output", summary="What a task wrote", tags=["tasks"], responses=refusals(404, 409))
async def output(
    host: TheHost, agent_id: AgentId, task_id: FromPath[str], block: Block = False, timeout_ms: Timeout = 30_000
) -> TaskOutputResult:
    """`retrieval_status` says whether the task is over, and if not whether it was waited for."""
    return await host.overseer.read_output(agent_id, task_id, wait_ms=timeout_ms if block else None)


@post(
    f"{_TASK}/input",
    status_code=200,
    summary="Type into a task, or tell a child something",
    tags=["tasks"],
    responses=refusals(404, 409, 429),
)
async def send(
    host: TheHost, agent_id: AgentId, task_id: FromPath[str], data: JSONBody[TaskInputRequest]
) -> InputReceipt:
    """`accepted_input` is false if the task takes none; then `summary_text` says why."""
    return await host.overseer.say(agent_id, task_id, data.input)


@post(f"{_TASK}/stop", status_code=200, summary="End a task", tags=["tasks"], responses=refusals(404, 409))
async def stop(
    host: TheHost, agent_id: AgentId, task_id: FromPath[str], data: JSONBody[TaskStopRequest | None] = None
) -> StopReceipt:
    """Asked first, forced after a grace period. Its result comes to the agent as of any other task."""
    return await host.overseer.end(agent_id, task_id, force=data.force if data else False)


@get("/agents/{agent_id:str}/workspace", summary="Where an agent works", tags=["agents"], responses=refusals(404, 409))
async def workspace(host: TheHost, agent_id: AgentId) -> WorkspaceView:
    return await host.housing.look((await host.views.summary(agent_id)).identity)


@post(
    "/control/agents/{agent_id:str}/workspace/use",
    status_code=200,
    summary="Let an agent work in a folder",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def use(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[WorkspaceUseRequest]
) -> WorkspaceView:
    """Attaches the workspace of the path, or takes an attached one, and makes it the active one."""
    path = Path(data.path) if data.path else None
    surface = caller_of(request).control_surface
    return await host.housing.enter(agent_id, path, workspace_id=data.workspace_id, surface=surface)


@post(
    "/control/agents/{agent_id:str}/workspace/detach",
    status_code=200,
    summary="Detach a workspace that is not the active one",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def detach(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[WorkspaceDetachRequest]
) -> WorkspaceView:
    """Nothing on disk is touched."""
    return await host.housing.leave(agent_id, data.workspace_id, surface=caller_of(request).control_surface)


@get(
    "/control/agents/{agent_id:str}/backend",
    summary="How the agent's commands are confined",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def get_backend(host: TheHost, agent_id: AgentId) -> BackendOutcome:
    """What was chosen, by whom, and what it comes to on this machine, in words."""
    return await host.confinement.get(agent_id)


@post(
    "/control/agents/{agent_id:str}/backend",
    status_code=200,
    summary="Choose how the agent's commands are confined",
    tags=["agents"],
    responses=refusals(404, 409),
)
async def set_backend(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[BackendRequest]
) -> BackendOutcome:
    """From its next command on, and for the private agents that work for it: what runs goes on where it began."""
    surface = caller_of(request).control_surface
    return await host.confinement.set(agent_id, data.backend, network=data.network, force=data.force, surface=surface)


HANDLERS = [status, output, send, stop, workspace, use, detach, get_backend, set_backend]
