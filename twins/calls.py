"""Calls: what a twin was asked, what became of it, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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


class Ledger:
    """All calls of a twin."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def open(self, api: ApiName, path: str, headers: Mapping[str, str], at_ms: int) -> Call:
        number = len(self._calls) + 1
        shown = {name: value for name, value in headers.items() if name not in _SECRET}
        call = Call(number, api, path, shown, None, at_ms, request_id=f"req_twin{number:06d}")
        self._calls.append(call)
        return call

    def note(self, number: int, **changes: Any) -> None:
        self._calls[number - 1] = replace(self._calls[number - 1], **changes)

    def calls(self) -> list[Call]:
        return list(self._calls)

    def total(self) -> Bill:
        return sum((call.bill for call in self._calls if call.bill is not None), Bill())


_SECRET = frozenset({"authorization", "x-api-key"})
