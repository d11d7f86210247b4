"""Parameters that many routes share, and the answer to a request that was sent again under its idempotency key."""

from __future__ import annotations

from typing import Annotated, TypeVar

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, PathParameter

from holon.core.codec import Record
from holon.runtime.admission import KEY_CHARS
from holon.runtime.host import Host

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
