"""Parameters that many routes share, and the answer to a request that was sent again under its idempotency key."""

from __future__ import annotations

from typing import Annotated, TypeVar

from litestar import Response
from litestar.di import NamedDependency
from litestar.openapi import ResponseSpec
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from holon.core.codec import Record
from holon.runtime.admission import Admitted
from holon.runtime.host import Host
from holon.store.idempotency import KEY_CHARS, Answer

T = TypeVar("T")

#: The host that the app was made for.
TheHost = NamedDependency[Host]

AgentId = Annotated[str, PathParameter(description="The agent's id.")]
#: On routes that exist with and without an agent's id: without it the default agent is meant.
DefaultedAgentId = Annotated[str | None, PathParameter(description="The agent's id.")]

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARS,
        description="A request that is sent again under its key has no second effect and gets the first answer.",
    ),
]

#: A number in one of an agent's logs.
Sequence = Annotated[
    int | None,
    QueryParameter(
        ge=0,
        le=2**63 - 1,
        schema_extra={"minimum": 0},  # a zero is left out of the document otherwise
        description="A number in the agent's log.",
    ),
]


class Accepted(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The message is durable: it will be worked on even if the process dies now."""

    agent_id: str
    message_id: str
    ok: bool = True


def accepted(admitted: Admitted) -> Answer[Accepted]:
    answer = Accepted(agent_id=admitted.agent_id, message_id=admitted.message_id)
    return Answer(answer, replayed=admitted.duplicate)


def replays(content: type) -> dict[int, ResponseSpec]:
    """The answer to a repeated request, for the document."""
    return {200: ResponseSpec(content, description="The first answer again: `Idempotency-Replayed` is `true`.")}


def replayable(answer: Answer[T], *, status: int) -> Response[T]:
    """`status` for the first answer; 200 and a header for the same answer given again."""
    if answer.replayed:
        return Response(answer.value, status_code=200, headers={"idempotency-replayed": "true"})
    return Response(answer.value, status_code=status)
