"""Twins of model providers: loopback servers that speak the real wire, answer as scripted, and bill by published rules.

For tests, demos and benchmarks; the only stand-ins of the project. docs/twins.md is their page.
"""

from twins.billing import Bill, Caching, Model
from twins.calls import Call, Outcome
from twins.clock import TwinClock
from twins.script import (
    Answer,
    ApiName,
    Chunk,
    CodexOutput,
    Fault,
    FaultKind,
    InvalidScript,
    Quirk,
    Rule,
    Script,
    StopReason,
    ToolCall,
    When,
    load_script,
    parse_script,
)
from twins.server import Twin

__all__ = [
    "Answer",
    "ApiName",
    "Bill",
    "Caching",
    "Call",
    "Chunk",
    "CodexOutput",
    "Fault",
    "FaultKind",
    "InvalidScript",
    "Model",
    "Outcome",
    "Quirk",
    "Rule",
    "Script",
    "StopReason",
    "ToolCall",
    "Twin",
    "TwinClock",
    "When",
    "load_script",
    "parse_script",
]
