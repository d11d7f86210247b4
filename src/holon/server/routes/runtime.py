"""The runtime itself: who answers here, how it is, and how to end it."""

from __future__ import annotations

from typing import Any, Literal

from litestar import Request, get, post
from litestar.params import JSONBody

import holon
from holon.core.codec import Record
from holon.runtime.status import RuntimeStatus
from holon.server.auth import Way, caller_of
from holon.server.bodies import NoFields
from holon.server.openapi import refusals
from holon.server.parameters import TheHost

PROTOCOL_NAME, PROTOCOL_VERSION = "holon-control", 1

#: What a client may count on here, by name.
CAPABILITIES = [
    "agents",
    "analytics",
    "callbacks",
    "control",
    "doctor",
    "enqueue",
    "events",
    "events_stream",
    "idempotency_key",
    "latency",
    "lifecycle",
    "models",
    "presentation",
    "problem_details",
    "prompt_inspection",
    "runs",
    "timers",
    "triggers",
    "webhooks",
]


class Root(Record, frozen=True, kw_only=True, omit_defaults=False):
    default_agent: str
    ok: bool = True


class Protocol(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str = PROTOCOL_NAME
    version: int = PROTOCOL_VERSION


class AuthState(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How this caller proves itself (`local`: not at all), and whether it has to."""

    mode: Literal["bearer", "local"]
    required: bool


class RuntimeIdentity(Record, frozen=True, kw_only=True):
    """What answers here. Where it lives on the disk is told to those who may know."""

    default_agent: str
    version: str
    home_dir: str | None = None
    socket_path: str | None = None
    advertise_url: str | None = None


class Handshake(Record, frozen=True, kw_only=True, omit_defaults=False):
    protocol: Protocol
    auth: AuthState
    capabilities: list[str]
    runtime: RuntimeIdentity
    ok: bool = True


class Readiness(Record, frozen=True, kw_only=True, omit_defaults=False):
    ready: bool
    ok: bool = True


class ShutdownAccepted(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The end is on its way. Agents are not stopped by it: the next start takes up what was under way."""

    shutting_down: bool = True
    ok: bool = True


class RetentionReport(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How many records of each family went, or would go."""

    deleted: dict[str, int]
    dry_run: bool


@get("/", summary="Is this Holon?", tags=["runtime"], responses=refusals())
async def root(host: TheHost) -> Root:
    return Root(default_agent=host.settings.default_agent_id)


@get("/handshake", summary="What can be done here, and how", tags=["runtime"], responses=refusals())
async def handshake(host: TheHost, request: Request[Any, Any, Any]) -> Handshake:
    """The first request of a client: protocol, authentication, capabilities."""
    caller, settings = caller_of(request), host.settings
    local = caller.way is Way.LOCAL_SOCKET
    trusted = caller.authenticated
    return Handshake(
        protocol=Protocol(),
        auth=AuthState(
            mode="local" if local else "bearer", required=not local and settings.control_auth_mode != "disabled"
        ),
        capabilities=CAPABILITIES,
        runtime=RuntimeIdentity(
            default_agent=settings.default_agent_id,
            version=holon.__version__,
            home_dir=str(settings.home) if trusted else None,
            socket_path=str(settings.socket_path) if trusted else None,
            advertise_url=settings.advertise_url,
        ),
    )


@get("/control/runtime/readiness", summary="Whether requests are taken", tags=["runtime"], responses=refusals())
async def readiness(host: TheHost) -> Readiness:
    """`ready` while the runtime takes work; not any more once its end has been asked for."""
    return Readiness(ready=not host.shutdown_requested.is_set())


@get("/control/runtime/status", summary="How the runtime is", tags=["runtime"], responses=refusals())
async def status(host: TheHost) -> RuntimeStatus:
    """Its process, its home, its settings, what its agents do, and the last failure."""
    return await host.runtime_status()


@post("/control/runtime/shutdown", status_code=202, summary="End this process", tags=["runtime"], responses=refusals())
async def shutdown(
    host: TheHost, request: Request[Any, Any, Any], data: JSONBody[NoFields | None] = None
) -> ShutdownAccepted:
    """Answers, then ends in order: requests under way are finished, streams are closed, open turns stay on disk."""
    await host.request_shutdown(caller_of(request).control_surface)
    return ShutdownAccepted()


@get("/control/runtime/retention", summary="What retention would remove", tags=["runtime"], responses=refusals())
async def retention_plan(host: TheHost) -> RetentionReport:
    """The dry run: nothing is removed by looking."""
    plan = await host.retention.plan()
    return RetentionReport(deleted={cut.family: cut.rows for cut in plan.families}, dry_run=True)


@post(
    "/control/runtime/retention",
    status_code=200,
    summary="Remove what retention would remove",
    tags=["runtime"],
    responses=refusals(),
)
async def apply_retention(host: TheHost, data: JSONBody[NoFields | None] = None) -> RetentionReport:
    """What is still referenced is never removed."""
    return RetentionReport(deleted=await host.retention.apply(), dry_run=False)


HANDLERS = [root, handshake, readiness, status, shutdown, retention_plan, apply_retention]
