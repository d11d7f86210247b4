"""Tools that act on the machine: `ExecCommand`, `ExecCommandBatch`, `ApplyPatch`."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec

from holon.core.codec import Input
from holon.providers.contract import Freeform
from holon.tools.registry import CallContext, Tool, ToolOutcome
from holon.workspaces.grammar import GRAMMAR

MAX_BATCH = 12


class ExecInput(Input, frozen=True, kw_only=True):
    cmd: Annotated[str, msgspec.Meta(description="The command line, as you would type it.", min_length=1)]
    workdir: Annotated[str | None, msgspec.Meta(description="Where to run it, inside the workspace.")] = None
    shell: Annotated[str | None, msgspec.Meta(description="Another shell than bash.")] = None
    login: Annotated[bool, msgspec.Meta(description="Read the login profile first.")] = True
    tty: Annotated[bool, msgspec.Meta(description="Give it a terminal.")] = False
    accepts_input: Annotated[bool | None, msgspec.Meta(description="Keep stdin open for TaskInput.")] = None
    duplicate_policy: Annotated[
        Literal["reuse_running", "start_new"],
        msgspec.Meta(description="start_new: run it again although the same command is running."),
    ] = "reuse_running"
    yield_time_ms: Annotated[
        int, msgspec.Meta(description="After this time a running command becomes a task.", ge=1, le=600_000)
    ] = 10_000
    max_output_tokens: Annotated[int | None, msgspec.Meta(description="How much output you want to see.")] = None


class BatchItem(Input, frozen=True, kw_only=True):
    cmd: Annotated[str, msgspec.Meta(min_length=1)]
    workdir: str | None = None
    shell: str | None = None
    login: bool = True
    yield_time_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)] = 10_000
    max_output_tokens: int | None = None


class BatchInput(Input, frozen=True, kw_only=True):
    items: Annotated[
        list[BatchItem],
        msgspec.Meta(description="Commands, run one after the other.", min_length=1, max_length=MAX_BATCH),
    ]
    stop_on_error: Annotated[bool, msgspec.Meta(description="Skip the rest after a failure.")] = False


class PatchInput(Input, frozen=True, kw_only=True):
    patch: Annotated[str, msgspec.Meta(description="A unified diff.", min_length=1)]


class Hands(Protocol):
    """What the runtime does for these tools."""

    async def run(self, context: CallContext, asked: ExecInput) -> ToolOutcome: ...
    async def run_batch(self, context: CallContext, asked: BatchInput) -> ToolOutcome: ...
    async def patch(self, context: CallContext, asked: PatchInput) -> ToolOutcome: ...


def command_tools(hands: Hands) -> list[Tool]:
    return [
        Tool(
            "ExecCommand",
            "Run a shell command. Look with rg --files, rg -n, sed -n, head and tail. What takes longer than"
            " yield_time_ms goes on as a task, and its result comes to you; what it leaves behind (nohup x &, setsid)"
            " ends with it, so let a long command become a task.",
            ExecInput,
            hands.run,
            waits_ms=lambda asked: asked.yield_time_ms,
        ),
        Tool(
            "ExecCommandBatch",
            "Run several short commands in order and see their results together. One that takes longer than"
            " yield_time_ms is ended.",
            BatchInput,
            hands.run_batch,
            waits_ms=lambda asked: sum(item.yield_time_ms for item in asked.items),
        ),
        Tool(
            "ApplyPatch",
            "Change files with a patch. All of it applies, or nothing does; context must match exactly.",
            PatchInput,
            hands.patch,
            freeform=Freeform(argument="patch", syntax="lark", definition=GRAMMAR),
        ),
    ]
