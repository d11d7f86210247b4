"""What the four APIs have in common for the server: how a request is read, and how an answer or an error is put."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from twins.billing import Bill, Model
from twins.cache import Prompt
from twins.counting import canonical
from twins.playing import Turn
from twins.script import ApiName, Fault, StopReason

#: Keys that the twins take. A real key sent here by mistake is refused.
KEY_PREFIX = "twin-"


class Refusal(Exception):
    """The service says no. `type`, `code` and `param` are what its error bodies call so."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Reading:
    """A request that the service has accepted."""

    body: Mapping[str, Any]
    model_name: str
    model: Model
    stream: bool
    turns: Sequence[Turn]
    prompt: Prompt
    max_output: int | None
    stops: Sequence[str] = ()
    #: Tools that take free text instead of JSON.
    free_text_tools: frozenset[str] = frozenset()
    #: What the API needs again when it answers.
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SaidTool:
    id: str | None
    name: str
    #: What the model wrote: JSON, broken JSON, or free text.
    arguments: str
    #: The same, decoded; the text itself where it is no JSON.
    input: Any
    free_text: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What the model has said in the end: the script's answer, cut to the limits of the request."""

    thinking: str
    #: Pieces of the text, each with the wait before it.
    pieces: Sequence[tuple[str, int]]
    tools: Sequence[SaidTool]
    stop: StopReason
    stop_sequence: str | None
    output_tokens: int
    thinking_tokens: int
    #: Whether the answer tells what it cost.
    usage: bool

    @property
    def text(self) -> str:
        return "".join(piece for piece, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in the making: who asked what, what is said, what it costs, and where its ids come from."""

    reading: Reading
    said: Said
    bill: Bill
    ids: Ids
    now_s: int


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event, or a comment line if it has neither name nor data."""

    name: str | None
    data: str
    wait_ms: int = 0

    def encode(self) -> bytes:
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {self.data}\n\n".encode("utf-8", "replace")  # half a surrogate pair has no bytes


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    wait_ms: int = 0

    def encode(self) -> bytes:
        return f": {self.text}\n\n".encode()


StreamPart = Event | Comment


class Ids:
    """Ids that follow from the request and the call's number: the same run of a script gives the same ids.

    They stand in the next prompt, so that random ones would make its token count random.
    """

    def __init__(self, body: Any, call: int) -> None:
        self._seed = f"{call}\0{canonical(body)}"
        self._made = 0
        self._main: dict[str, str] = {}

    def main(self, prefix: str) -> str:
        """The id of the answer itself: the same in each of its events."""
        if prefix not in self._main:
            self._main[prefix] = self.make(prefix)
        return self._main[prefix]

    def make(self, prefix: str, length: int = 24) -> str:
        self._made += 1
        digest = hashlib.sha256(f"{self._seed}\0{self._made}".encode("utf-8", "surrogatepass"))
        return prefix + digest.hexdigest()[:length]


class Api(Protocol):
    """One of the wires."""

    name: ApiName
    #: Whether a prompt that is too long is told in the stream, after a status of 200.
    overflow_in_stream: bool

    def authorize(self, headers: Mapping[str, str]) -> str:
        """Who asks. Raises a refusal for a missing or unknown key."""
        ...

    def read(self, body: Any, headers: Mapping[str, str], owner: str) -> Reading:
        """The request, checked as the service checks it. Raises a refusal."""
        ...

    def whole(self, reply: Reply) -> dict[str, Any]: ...

    def events(self, reply: Reply) -> Iterator[StreamPart]: ...

    def refusal_of(self, fault: Fault, reading: Reading) -> Refusal:
        """The error that a fault with a status asks for, in the service's own words."""
        ...

    def overflow(self, reading: Reading) -> Refusal: ...

    def failure(self, fault: Fault, reading: Reading) -> Refusal:
        """The error of a model that fails after it began."""
        ...

    def failed_whole(self, refusal: Refusal, reply: Reply) -> dict[str, Any]:
        """The failure, told to someone who did not ask for a stream; a service that tells it by a status raises it."""
        ...

    def failing_end(self, refusal: Refusal, reply: Reply, sent: int) -> list[StreamPart]:
        """The failure, told at the end of a stream of so many events."""
        ...

    def error_body(self, refusal: Refusal, request_id: str) -> Any: ...

    def headers(self, request_id: str) -> dict[str, str]: ...


def bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def retry_headers(fault: Fault) -> dict[str, str]:
    if fault.retry_after is None:
        return {}
    return {"retry-after": f"{fault.retry_after:g}"}
