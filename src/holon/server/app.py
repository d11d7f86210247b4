"""The app: all routes over one host. It knows nothing of sockets and tokens; `auth` stands in front of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar import Litestar, Request, Response
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler
from litestar.plugins.base import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin

from holon.core.errors import Fenced
from holon.runtime.host import Host
from holon.server import openapi, problems, routes
from holon.server.auth import caller_of
from holon.server.bodies import StrictRequest


class Application(Litestar):
    """All bodies are structs: the plugins for other kinds need not be loaded, which would take a tenth of a second."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def create_app(host: Host) -> Litestar:
    return Application(
        route_handlers=routes.ALL,
        dependencies={"host": Provide(lambda: host, use_cache=True, sync_to_thread=False)},
        guards=[_came_through_a_door],
        exception_handlers={**problems.HANDLERS, Fenced: _ends(host)},
        request_class=StrictRequest,
        request_max_body_size=host.settings.limits.message_bytes,
        openapi_config=openapi.config(),
        logging_config=None,
        debug=False,
    )


def _ends(host: Host) -> Callable[[Request[Any, Any, Any], Fenced], Response[bytes]]:
    """Whoever asks is told, and the process ends: it must not stand in the way of the one that has the home now."""

    def handler(_: Request[Any, Any, Any], error: Fenced) -> Response[bytes]:
        host.note_problem(error)
        return problems.answer(problems.of_error(error))

    return handler


def _came_through_a_door(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    caller_of(connection)
