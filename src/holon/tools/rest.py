"""Tools of rest and follow-up: `Sleep` and `Enqueue`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from holon.core.codec import Input, dumps
from holon.core.messages import Priority
from holon.store import Tx
from holon.tools.envelope import ToolError, ToolFailure
from holon.tools.registry import CallContext, SleepRequest, Tool, ToolOutcome

MAX_SLEEP_MS = 365 * 24 * 3_600_000


class SleepInput(Input, frozen=True, kw_only=True):
    reason: Annotated[str, msgspec.Meta(description="What you rest for, in a few words.", max_length=500)] = "resting"
    duration_ms: Annotated[
        int | None,
        msgspec.Meta(
            description="Wake me after this many milliseconds. Leave it out to rest until something happens.",
            extra_json_schema={"minimum": 1, "maximum": MAX_SLEEP_MS},
        ),
    ] = None


class EnqueueInput(Input, frozen=True, kw_only=True):
    text: Annotated[str, msgspec.Meta(description="What you want to be told.", min_length=1, max_length=100_000)]
    priority: Annotated[
        Priority, msgspec.Meta(description="next: right after this turn; background: when nothing else waits.")
    ] = Priority.NEXT


async def sleep(_context: CallContext, asked: SleepInput) -> ToolOutcome:
    duration = asked.duration_ms or None  # models write 0 for "no duration"
    if duration is not None and duration < 0:
        raise ToolFailure(
            ToolError(
                kind="invalid_tool_input",
                message=f"duration_ms must be positive, not {duration}",
                details={"field": "duration_ms"},
                recovery_hint="leave duration_ms out to rest until something happens",
            )
        )
    if duration is not None:
        duration = min(duration, MAX_SLEEP_MS)
    until = f"for {duration} ms" if duration else "until something happens"
    return ToolOutcome(
        content=dumps({"ok": True, "reason": asked.reason, "duration_ms": duration}),
        summary=f"rests {until}: {asked.reason}",
        sleep=SleepRequest(asked.reason, duration),
    )


SLEEP = Tool(
    name="Sleep",
    description=(
        "Rest when there is nothing left to do now. Alone in a round it ends the turn. Give duration_ms only to be"
        " woken after that time; leave it out to rest until something happens."
    ),
    input_type=SleepInput,
    run=sleep,
)

#: Admits a follow-up in the transaction of the call's result: (tx, context, text, priority).
FollowUp = Callable[[Tx, CallContext, str, Priority], None]


def enqueue_tool(follow_up: FollowUp) -> Tool:
    async def enqueue(context: CallContext, asked: EnqueueInput) -> ToolOutcome:
        priority = Priority.NEXT if asked.priority is Priority.INTERJECT else asked.priority
        return ToolOutcome(
            content=dumps({"ok": True, "enqueued": True, "priority": priority, "follow_up_text": asked.text}),
            summary=f"queued a follow-up ({priority})",
            effect=lambda tx: follow_up(tx, context, asked.text, priority),
        )

    return Tool(
        name="Enqueue",
        description="Queue a follow-up for yourself: it wakes you in a turn of its own.",
        input_type=EnqueueInput,
        run=enqueue,
    )
