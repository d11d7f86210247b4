"""Calls: what a twin was asked, what became of it, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from twins.billing import Bill
from twins.script import ApiName, FaultKind


class Outcome(StrEnum):
    #: Not answered yet; a stalled call stays so until the client goes.
    OPEN = "open"
    ANSWERED = "answered"
    #: Refused by the service's own rules.
    REFUSED = "refused"
    #: Failed as the script, or an injected fault, says.
    FAULTED = "faulted"
    #: The client went away before the last byte.
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model. The list is in the order of arrival; a call is replaced as it goes on."""

    number: int
    api: ApiName
    path: str
    #: Names in lower case; the key is left out.
    headers: Mapping[str, str]
    #: The decoded body; `None` if it was no JSON.
    request: Any
    at_ms: int
    request_id: str
    model: str = ""
    stream: bool = False
    outcome: Outcome = Outcome.OPEN
    status: int | None = None
    fault: FaultKind | None = None
    #: Why it was refused.
    error: str | None = None
    #: What it cost. `None` where nothing is charged: refused, failed, stalled.
    bill: Bill | None = None
    #: The body of an answer that was not streamed.
    response: Any = None
