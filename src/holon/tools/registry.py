"""The registry: which tools exist, how their inputs are typed, and how one call is run.

A tool whose effect is durable state returns it as a function of the transaction (`effect`). It then commits together
with the call's result, so the effect happens exactly once.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from holon.core.agents import AgentIdentity, AgentState
from holon.core.codec import InvalidShape, dumps, from_plain
from holon.core.messages import MessageEnvelope
from holon.core.values import Value
from holon.providers.contract import INVALID_ARGUMENTS, Freeform, ToolSpec
from holon.store import Tx
from holon.tools.envelope import ToolError, ToolFailure


class CallContext(Value, frozen=True):
    """What a tool may know about its call: who asks, because of which message, in which turn."""

    agent: AgentIdentity
    envelope: MessageEnvelope
    turn_id: str
    run_id: str
    call_id: str
    #: Whether the operator has aborted the run, for a tool that is cancelled and must tell this from a shutdown.
    aborted: Callable[[], bool] = msgspec.field(default=lambda: False)


class SleepRequest(Value, frozen=True):
    """The model wants to rest; the turn ends if nothing else was asked for in the same round."""

    reason: str
    duration_ms: int | None = None


class ToolOutcome(Value, frozen=True):
    content: str
    summary: str
    #: How many commands the call ran: a batch is one call, and as many commands as it has items.
    command_items: int | None = None
    #: Durable consequences, committed with the result. Refused (a `HolonError`), the call becomes an error.
    effect: Callable[[Tx], None] | None = None
    #: The same for consequences that change the calling agent's own state.
    change: Callable[[Tx, AgentState], AgentState] | None = None
    #: What may follow once all of it is on disk. It must be safe to lose.
    after: Callable[[], Awaitable[None]] | None = None
    sleep: SleepRequest | None = None


class Tool(Value, frozen=True):
    name: str
    description: str
    input_type: type[msgspec.Struct]
    run: Callable[[CallContext, Any], Awaitable[ToolOutcome]]
    #: Calls that only read may run side by side with their neighbours.
    read_only: bool = False
    #: How long a call may wait by its own word, in milliseconds: so long its silence is no stall.
    waits_ms: Callable[[Any], int] | None = None
    #: The one argument as plain text under a grammar, for models that take a tool so.
    freeform: Freeform | None = None


class ToolRegistry(Value, frozen=True):
    tools: dict[str, Tool] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> ToolRegistry:
        return cls({tool.name: tool for tool in tools})

    def specs(self) -> list[ToolSpec]:
        """The catalogue in a fixed order: the same for every trigger, so the prompt's prefix does not change."""
        return [
            ToolSpec(
                name=tool.name,
                description=tool.description,
                input_schema=input_schema(tool.input_type),
                freeform=tool.freeform,
            )
            for _, tool in sorted(self.tools.items())
        ]

    def read_only(self, name: str) -> bool:
        return name in self.tools and self.tools[name].read_only

    def waits_ms(self, name: str, arguments: dict[str, Any]) -> int:
        """How long this call may wait by its own word. What cannot be read will not wait."""
        tool = self.tools.get(name)
        if tool is None or tool.waits_ms is None:
            return 0
        try:
            return tool.waits_ms(from_plain(arguments, tool.input_type))
        except InvalidShape:
            return 0

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> ToolOutcome:
        """Runs one call; `ToolFailure` for everything that the model should hear of."""
        tool = self.tools.get(name)
        if tool is None:
            raise ToolFailure(
                ToolError(
                    kind="unknown_tool",
                    message=f"there is no tool {name!r}",
                    recovery_hint="use one of: " + ", ".join(sorted(self.tools)),
                )
            )
        if INVALID_ARGUMENTS in arguments:
            raise ToolFailure(
                ToolError(
                    kind="invalid_tool_input",
                    message="the arguments are not a JSON object",
                    details={"given": str(arguments[INVALID_ARGUMENTS])[:500]},
                    recovery_hint=f"call {name} again with well-formed JSON",
                )
            )
        try:
            typed = from_plain(arguments, tool.input_type)
        except InvalidShape as error:
            raise ToolFailure(
                ToolError(
                    kind="invalid_tool_input",
                    message=str(error),
                    details={"field": _field_of(str(error))},
                    recovery_hint=f"call {name} again with the arguments of its schema",
                )
            ) from error
        return await tool.run(context, typed)


def input_schema(input_type: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, from their type; nobody writes it by hand."""
    (schema,), components = msgspec.json.schema_components([input_type], ref_template="#/$defs/{name}")
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        schema = dict(components[name])
        if f'"#/$defs/{name}"' not in dumps(components):  # kept where the struct refers to itself
            del components[name]
    schema.pop("title", None)
    return {**schema, "$defs": components} if components else schema


def _field_of(message: str) -> str:
    """The field that the message names: "… field `txt`", or "… - at `$.text`" where a value is of the wrong type."""
    found = re.search(r"field `([^`]+)`", message) or re.search(r"at `\$\.([^`]+)`", message)
    return found[1] if found else "$"
