"""Control: what an operator says to an agent, and the making of agents. Over TCP these need a token."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get, post
from litestar.params import FromPath, JSONBody

from holon.core.agents import AgentIdentity
from holon.core.codec import Input
from holon.core.messages import MessageKind, OperatorOrigin, Priority, TextBody
from holon.runtime.admission import Admission
from holon.runtime.views import MessageStatus
from holon.runtime.waking import WakeOutcome, WakeRequest
from holon.server.auth import caller_of
from holon.server.openapi import refusals
from holon.server.parameters import Accepted, AgentId, IdempotencyKey, TheHost, accepted, replayable, replays


class PromptRequest(Input, frozen=True, kw_only=True):
    """What the operator says. It interjects: a turn that runs takes it up at its next safe point."""

    text: str
    actor_id: str | None = None
    priority: Priority = Priority.INTERJECT
    metadata: dict[str, Any] | None = None
    correlation_id: str | None = None
    causation_id: str | None = None


@post(
    "/control/agents/{agent_id:str}/prompt",
    status_code=202,
    summary="Say something to an agent, as its operator",
    tags=["control"],
    responses=refusals(404, 409, 413, 422, 429) | replays(Accepted),
)
async def prompt(
    host: TheHost,
    request: Request[Any, Any, Any],
    agent_id: AgentId,
    data: JSONBody[PromptRequest],
    idempotency_key: IdempotencyKey = None,
) -> Response[Accepted]:
    """Admits the prompt durably, then answers. What comes of it is in the briefs and the events."""
    caller = caller_of(request)
    admitted = await host.inbox.admit(
        Admission(
            agent_id=agent_id,
            kind=MessageKind.OPERATOR_PROMPT,
            origin=OperatorOrigin(actor_id=data.actor_id),
            body=TextBody(text=data.text),
            surface=caller.prompt_surface,
            context=caller.context,
            priority=data.priority,
            metadata=data.metadata,
            correlation_id=data.correlation_id,
            causation_id=data.causation_id,
            idempotency_key=idempotency_key,
        )
    )
    return replayable(accepted(admitted), status=202)


@get(
    "/control/agents/{agent_id:str}/messages/{message_id:str}",
    summary="Where a message stands",
    tags=["control"],
    responses=refusals(404),
)
async def message(host: TheHost, agent_id: AgentId, message_id: FromPath[str]) -> MessageStatus:
    """The message, its place in the queue, and its turn once it has one."""
    return await host.views.message(agent_id, message_id)


@post(
    "/control/agents/{agent_id:str}/wake",
    status_code=200,
    summary="Ask an agent to look whether something changed",
    tags=["control"],
    responses=refusals(404, 409),
)
async def wake(
    host: TheHost, request: Request[Any, Any, Any], agent_id: AgentId, data: JSONBody[WakeRequest]
) -> WakeOutcome:
    """A hint, not a message. A stopped agent is not woken: the problem says to resume it."""
    return await host.waking.wake(agent_id, data, surface=caller_of(request).control_surface)


class CreateRequest(Input, frozen=True, kw_only=True):
    """What the agent's home is made from: a template's id, an absolute folder, or a GitHub tree URL."""

    template: str | None = None


@post(
    "/control/agents/{agent_id:str}/create",
    status_code=201,
    summary="Make a public agent of this name",
    tags=["control"],
    responses=refusals(404, 409, 422) | replays(AgentIdentity),
)
async def create(
    host: TheHost,
    request: Request[Any, Any, Any],
    agent_id: AgentId,
    data: JSONBody[CreateRequest | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[AgentIdentity]:
    """The only way to make one: nobody makes an agent by writing to it. If its template fails, there is no agent."""
    answer = await host.agents.create(
        agent_id,
        surface=caller_of(request).control_surface,
        idempotency_key=idempotency_key,
        template=data.template if data else None,
    )
    return replayable(answer, status=201)


HANDLERS = [prompt, message, wake, create]
