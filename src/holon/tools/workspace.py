"""The tool that chooses where an agent works: `UseWorkspace`."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec

from holon.core.codec import Input
from holon.tools.registry import CallContext, Tool, ToolOutcome


class UseInput(Input, frozen=True, kw_only=True):
    path: Annotated[str | None, msgspec.Meta(description="A folder or repository.")] = None
    workspace_id: Annotated[str | None, msgspec.Meta(description="One that is attached; agent_home is yours.")] = None
    mode: Annotated[
        Literal["direct", "isolated"], msgspec.Meta(description="isolated: work in a copy on a branch of its own.")
    ] = "direct"
    cwd: Annotated[str | None, msgspec.Meta(description="Where to start, inside it.")] = None
    isolation_label: Annotated[str | None, msgspec.Meta(description="A word for the branch's name.")] = None


class Housing(Protocol):
    async def use(self, context: CallContext, asked: UseInput) -> ToolOutcome: ...


def workspace_tools(housing: Housing) -> list[Tool]:
    return [
        Tool(
            "UseWorkspace",
            "Choose where you work: exactly one of path and workspace_id.",
            UseInput,
            housing.use,
        )
    ]
