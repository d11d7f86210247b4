"""The door: who is asking, and whether they may. It stands in front of the app, once for each listener.

The local socket is for its owner only (mode 0600), so nobody is asked there. Over TCP everybody shows a bearer token,
except at the few routes that are open on purpose.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection

from holon.core.codec import Record
from holon.core.errors import Forbidden, HolonError, InvalidSettings, Unauthorized
from holon.core.messages import AdmissionContext, DeliverySurface
from holon.runtime.settings import Settings
from holon.server import problems, tokens

log = logging.getLogger("holon.server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Routes that need no token over TCP. A trigger's URL is itself a capability.
OPEN_ROUTES = {("GET", "/"), ("GET", "/handshake"), ("GET", "/openapi.json")}
OPEN_PREFIXES = {("POST", "/callbacks/wake/"), ("POST", "/callbacks/enqueue/")}

_LOOPBACK_NAMES = {"localhost", "ip6-localhost"}


class Way(StrEnum):
    """The listener through which a request came."""

    LOCAL_SOCKET = "local_socket"
    TCP = "tcp"


class Caller(Record, frozen=True, kw_only=True):
    """What is known of whoever sent the request."""

    way: Way
    #: Showed a valid token, or is on the local socket.
    authenticated: bool
    #: Was let in because of its token, and only for as long as that is one.
    by_token: bool = False
    #: What a local client says that it is (`X-Holon-Surface`); nobody else is asked.
    surface: str | None = None

    @property
    def context(self) -> AdmissionContext:
        if self.way is Way.LOCAL_SOCKET:
            return AdmissionContext.LOCAL_PROCESS
        return AdmissionContext.CONTROL_AUTHENTICATED if self.authenticated else AdmissionContext.PUBLIC_UNAUTHENTICATED

    @property
    def prompt_surface(self) -> DeliverySurface:
        if self.surface == DeliverySurface.CLI_PROMPT:
            return DeliverySurface.CLI_PROMPT
        return DeliverySurface.HTTP_CONTROL_PROMPT

    @property
    def control_surface(self) -> str:
        """The word under which audit events record a control request."""
        if self.way is Way.TCP:
            return "http_control"
        return "cli" if self.surface and self.surface.startswith("cli") else "local_socket"


class Door:
    """The app behind one listener. Everything behind it may rely on `caller_of`."""

    def __init__(self, app: Any, way: Way, settings: Settings) -> None:
        self._app, self._way, self._settings = app, way, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        try:
            caller = self._admit(scope["method"], scope["path"], headers)
        except HolonError as error:
            for message in problems.raw_answer(problems.of_error(error)):
                await send(message)
            return
        state = scope.setdefault("state", {})
        state["caller"] = caller
        state["welcome"] = lambda: not caller.by_token or self._knows(_token(headers))
        await self._app(scope, receive, send)

    def _admit(self, method: str, path: str, headers: dict[bytes, str]) -> Caller:
        if self._way is Way.LOCAL_SOCKET:
            return Caller(way=self._way, authenticated=True, surface=headers.get(b"x-holon-surface"))
        known = self._knows(_token(headers))
        if self._settings.control_auth_mode == "disabled":
            _refuse_other_sites(headers)
            return Caller(way=self._way, authenticated=known)
        if not known and not is_open(method, path):
            raise _refusal(presented=" " in headers.get(b"authorization", ""))
        return Caller(way=self._way, authenticated=known, by_token=known)

    def _knows(self, token: str) -> bool:
        if not token:
            return False
        own = self._settings.control_token
        is_own = bool(own) and hmac.compare_digest(tokens.digest(token), tokens.digest(own or ""))
        try:
            return tokens.verify(self._settings.home, token) or is_own
        except InvalidSettings as error:  # said to the operator, not to whoever is at the door
            log.warning("%s", error)
            return is_own


def caller_of(request: ASGIConnection[Any, Any, Any, Any]) -> Caller:
    """The caller that the door let in. Without a door nobody gets in."""
    caller = request.scope["state"].get("caller")
    if not isinstance(caller, Caller):
        raise Unauthorized("the app has no door", hint="serve it through holon.server.serving")
    return caller


def welcome(request: ASGIConnection[Any, Any, Any, Any]) -> Callable[[], bool]:
    """Whether the caller would still be let in: what lasts asks again, because a token can be revoked meanwhile."""
    still: Callable[[], bool] = request.scope["state"]["welcome"]
    return still


def is_open(method: str, path: str) -> bool:
    return (method, path) in OPEN_ROUTES or any(
        method == open_method and path.startswith(prefix) for open_method, prefix in OPEN_PREFIXES
    )


def check_settings(settings: Settings) -> None:
    """Without tokens the server listens to this machine only."""
    if settings.control_auth_mode == "disabled" and not is_loopback(settings.http_host):
        raise InvalidSettings(
            f"authentication is disabled, but {settings.http_host} can be reached from other machines",
            hint="bind to 127.0.0.1, or set http.auth to auto",
        )


def is_loopback(host: str) -> bool:
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _refuse_other_sites(headers: dict[bytes, str]) -> None:
    """Where no token is needed, a web page could ask through its visitor's browser, which says for whom it asks."""
    origin = headers.get(b"origin")
    asked_for = _host_of(f"//{headers.get(b'host', '')}")
    asked_by = "localhost" if origin is None else _host_of(origin)
    if not is_loopback(asked_for) or not is_loopback(asked_by):
        raise Forbidden(
            "without authentication only programs on this machine are answered",
            hint="ask for 127.0.0.1 or localhost, or set http.auth to auto and send a token",
        )


def _token(headers: dict[bytes, str]) -> str:
    scheme, _, token = headers.get(b"authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _refusal(*, presented: bool) -> Unauthorized:
    return Unauthorized(
        "the token is not known here" if presented else "a token is needed over TCP",
        hint="make one with 'holon config token new' and send it as 'Authorization: Bearer <token>',"
        " or use the local socket",
    )
