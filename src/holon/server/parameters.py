"""Parameters that many routes share, and the answer to a request that was sent again under its idempotency key."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from litestar import Response
from litestar.params import Parameter

from holon.core.codec import Record
from holon.runtime.admission import KEY_CHARS

T = TypeVar("T")

#: The agent of a route; where the route names none, the default agent is meant.
AgentId = Annotated[str, Parameter(description="The agent's id.", examples=[])]
DefaultedAgentId = Annotated[str | None, Parameter(description="The agent's id.")]

IdempotencyKey = Annotated[
    str | None,
    Parameter(
        header="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARS,
        description="A request that is sent again under its key has no second effect and gets the first answer.",
    ),
]


def limit(default: int, most: int) -> Any:
    """`limit` of a listing."""
    return Annotated[int, Parameter(ge=1, le=most, description=f"How many at most ({default} if not said).")]


class Accepted(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The message is durable: it will be worked on even if the process dies now."""

    agent_id: str
    message_id: str
    ok: bool = True


def replayable(content: T, *, status: int, replayed: bool) -> Response[T]:
    """`status` for the first answer; 200 and a header for the same answer given again."""
    if replayed:
        return Response(content, status_code=200, headers={"idempotency-replayed": "true"})
    return Response(content, status_code=status)
