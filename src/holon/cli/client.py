"""The client: plain HTTP to a Holon, over the socket of its home or over TCP with a token.

A refusal comes back as the error that the server raised, with its code, sentence and hint.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from holon.core.codec import InvalidJson, dumps, loads
from holon.core.errors import DaemonUnreachable, InvalidInput, OperatorError
from holon.core.values import Value

CALL_TIMEOUT_S = 60.0
#: How the CLI names itself on the local socket, for provenance.
SURFACE = "cli_prompt"


class UnixAddress(Value, frozen=True, kw_only=True):
    path: Path
    home: Path

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        return _UnixConnection(self.path, timeout)

    @property
    def prefix(self) -> str:
        return ""

    @property
    def token(self) -> str | None:
        return None  # whoever may open the socket is the operator

    def unreachable(self, error: OSError) -> DaemonUnreachable:
        if isinstance(error, PermissionError):
            return DaemonUnreachable(
                f"the Holon on {self.home} belongs to another user ({self.path} cannot be opened)",
                hint="run the command as that user, or use --url with a token",
            )
        return DaemonUnreachable(f"no Holon is running on {self.home}", hint="start one with 'holon serve'")


class TcpAddress(Value, frozen=True, kw_only=True):
    url: str
    token: str | None = None

    def connection(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise InvalidInput(f"{self.url!r} is not the URL of a Holon", hint="write it like http://127.0.0.1:7878")
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.hostname, port, timeout=timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(parts.hostname, port, timeout=timeout)

    @property
    def prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    def unreachable(self, error: OSError) -> DaemonUnreachable:
        reason = error.strerror or str(error) or type(error).__name__
        return DaemonUnreachable(
            f"no Holon answers at {self.url} ({reason})", hint="check the URL, and 'holon serve' there"
        )


Address = UnixAddress | TcpAddress


class LineBroke(DaemonUnreachable):
    """The request went out and no answer came: it may have been done."""


class Client:
    def __init__(self, address: Address) -> None:
        self.address = address

    def get(self, path: str, **query: Any) -> Any:
        return self._call("GET", with_query(path, query))

    def post(self, path: str, body: Any = None, *, idempotency_key: str | None = None) -> Any:
        """Sends a command. With an idempotency key it is sent again, once, if the line broke before the answer."""
        try:
            return self._call("POST", path, body or {}, idempotency_key)
        except LineBroke:
            if idempotency_key is None:
                raise
        return self._call("POST", path, body or {}, idempotency_key)

    def answers(self) -> bool:
        """Whether a Holon listens here."""
        try:
            self.get("/")
        except LineBroke:
            raise  # somebody has the home, but does not speak: starting another one would not help
        except DaemonUnreachable:
            return False
        return True

    def agent_id(self, agent: str | None) -> str:
        """The agent that is meant: without a name it is the default agent."""
        return str(self.get("/")["default_agent"]) if agent is None else agent

    def path(self, agent: str | None, *rest: str) -> str:
        return agent_path(self.agent_id(agent), *rest)

    def control_path(self, agent: str | None, *rest: str) -> str:
        return agent_path(self.agent_id(agent), *rest, control=True)

    def open(
        self, method: str, path: str, *, body: Any = None, headers: dict[str, str] | None = None, timeout: float
    ) -> http.client.HTTPResponse:
        """Sends a request and returns the answer, still unread. A refusal is raised."""
        connection = self.address.connection(timeout)
        sent = {"Accept": "application/json", "X-Holon-Surface": SURFACE, **(headers or {})}
        if self.address.token:
            sent["Authorization"] = f"Bearer {self.address.token}"
        payload = None
        if body is not None:
            payload = dumps(body).encode()
            sent["Content-Type"] = "application/json"
        try:
            connection.connect()
        except OSError as error:
            raise self.address.unreachable(error) from error
        try:
            connection.request(method, self.address.prefix + path, body=payload, headers=sent)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._broken(error) from error
        if response.status >= 400:
            raise refusal(response.status, _read(response, self))
        return response

    def _call(self, method: str, path: str, body: Any = None, idempotency_key: str | None = None) -> Any:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        response = self.open(method, path, body=body, headers=headers, timeout=CALL_TIMEOUT_S)
        content = _read(response, self)
        try:
            return loads(content, Any) if content else None
        except InvalidJson as error:
            raise DaemonUnreachable(
                f"what answers at {_where(self.address)} is not a Holon", hint="check --url and --home"
            ) from error

    def _broken(self, error: Exception) -> LineBroke:
        reason = "it did not answer in time" if isinstance(error, TimeoutError) else "the connection broke"
        return LineBroke(
            f"the Holon at {_where(self.address)} gave no answer: {reason}",
            hint="look with 'holon status', then try again",
        )


def with_query(path: str, query: dict[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def agent_path(agent_id: str, *rest: str, control: bool = False) -> str:
    """`/agents/{id}/…`, or its control side; every part is quoted."""
    if not agent_id:
        raise InvalidInput("the agent's id is empty", hint="'holon agent list' shows the agents that there are")
    if "" in rest:
        raise InvalidInput("an id is empty", hint="give the id of the thing that is meant")
    parts = ["control", "agents"] if control else ["agents"]
    return "/" + "/".join(quote(part, safe="") for part in (*parts, agent_id, *rest))


def refusal(status: int, content: bytes) -> OperatorError:
    """The server's problem details as the error that it raised."""
    try:
        problem = loads(content, dict[str, Any])
    except (InvalidJson, UnicodeDecodeError):
        problem = {}
    code = str(problem.get("code") or f"http_{status}")
    message = str(problem.get("detail") or problem.get("title") or http.client.responses.get(status, f"HTTP {status}"))
    kind = _ERRORS.get(code) or type("Refused", (OperatorError,), {"code": code, "status": status})
    hint = problem.get("hint")
    error: OperatorError = kind(message, hint=str(hint) if hint else None)
    return error


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(str(self._path))
        except OSError:
            self.sock.close()
            raise


def _read(response: http.client.HTTPResponse, client: Client) -> bytes:
    try:
        return response.read()
    except (OSError, http.client.HTTPException) as error:
        raise client._broken(error) from error


def _where(address: Address) -> str:
    return address.url if isinstance(address, TcpAddress) else str(address.path)


def _by_code(kind: type[OperatorError]) -> dict[str, type[OperatorError]]:
    below = (_by_code(lower) for lower in kind.__subclasses__())
    return {code: lower for found in below for code, lower in found.items()} | {kind.code: kind}


_ERRORS = _by_code(OperatorError)
