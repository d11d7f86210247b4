"""Tools for work in the background: `TaskList`, `TaskStatus`, `TaskOutput`, `TaskInput`, `TaskStop`."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from holon.core.codec import Input
from holon.tools.registry import CallContext, Tool, ToolOutcome

_TASK = msgspec.Meta(description="The task's id.")


class ListInput(Input, frozen=True, kw_only=True):
    pass


class TaskInputs(Input, frozen=True, kw_only=True):
    task_id: Annotated[str, _TASK]


class OutputInput(Input, frozen=True, kw_only=True):
    task_id: Annotated[str, _TASK]
    block: Annotated[bool, msgspec.Meta(description="Wait for its end, up to timeout_ms.")] = True
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=3_600_000)] = 30_000


class SendInput(Input, frozen=True, kw_only=True):
    task_id: Annotated[str, _TASK]
    input: Annotated[str, msgspec.Meta(description="What to type, or what to tell a child.", max_length=100_000)]


class StopInput(Input, frozen=True, kw_only=True):
    task_id: Annotated[str, _TASK]
    force: Annotated[bool, msgspec.Meta(description="End it at once instead of asking first.")] = False


class Overseer(Protocol):
    """What the runtime does for these tools."""

    async def listing(self, context: CallContext, asked: ListInput) -> ToolOutcome: ...
    async def status(self, context: CallContext, asked: TaskInputs) -> ToolOutcome: ...
    async def output(self, context: CallContext, asked: OutputInput) -> ToolOutcome: ...
    async def send(self, context: CallContext, asked: SendInput) -> ToolOutcome: ...
    async def stop(self, context: CallContext, asked: StopInput) -> ToolOutcome: ...


def task_tools(overseer: Overseer) -> list[Tool]:
    return [
        Tool("TaskList", "Your tasks that are not over.", ListInput, overseer.listing, True),
        Tool("TaskStatus", "Where a task stands, without its output.", TaskInputs, overseer.status, True),
        Tool(
            "TaskOutput",
            "What a task wrote; with block, after its end.",
            OutputInput,
            overseer.output,
            waits_ms=lambda asked: asked.timeout_ms if asked.block else 0,
        ),
        Tool("TaskInput", "Type into a running task, or tell a child something.", SendInput, overseer.send),
        Tool("TaskStop", "End a task: asked first, forced after a grace period.", StopInput, overseer.stop),
    ]
