"""Runtime status: whether this process is healthy, and what it is busy with."""

from __future__ import annotations

import hashlib
from datetime import datetime

from holon.core.agents import AgentStatus, Visibility
from holon.core.codec import Record, dumps
from holon.core.errors import HolonError
from holon.core.failures import RuntimeFailure
from holon.core.limits import Limits
from holon.runtime.settings import Settings
from holon.store import Tx, agents, tasks


class Activity(Record, frozen=True, kw_only=True, omit_defaults=False):
    state: str
    active_agent_count: int
    active_task_count: int
    processing_agent_count: int
    waiting_agent_count: int


class StartupSurface(Record, frozen=True, kw_only=True, omit_defaults=False):
    home_dir: str
    socket_path: str
    http_addr: str
    default_agent_id: str
    callback_base_url: str
    control_auth_mode: str
    control_token_configured: bool


class RuntimeStatus(Record, frozen=True, kw_only=True, omit_defaults=False):
    ok: bool
    healthy: bool
    version: str
    pid: int
    started_at: datetime
    fence: int
    config_fingerprint: str
    model_default: str
    model_fallbacks: list[str]
    limits: Limits
    activity: Activity
    startup_surface: StartupSurface
    database_bytes: int
    problem: str | None = None
    last_failure: RuntimeFailure | None = None


def problem_words(problem: HolonError, waiting: int) -> str:
    """What is wrong and what to do, and that whatever waits for it needs nothing more."""
    who = {0: "", 1: "; 1 agent waits for it and goes on by itself"}
    return f"{problem}{who.get(waiting, f'; {waiting} agents wait for it and go on by themselves')}"


def activity(tx: Tx) -> Activity:
    """`processing`: a public agent boots or runs; `waiting`: only waits are left; else `idle`."""
    counts = agents.count_by_status(tx, Visibility.PUBLIC)
    processing = counts.get(AgentStatus.BOOTING, 0) + counts.get(AgentStatus.AWAKE_RUNNING, 0)
    waiting = counts.get(AgentStatus.AWAITING_TASK, 0)
    return Activity(
        state="processing" if processing else "waiting" if waiting else "idle",
        active_agent_count=sum(counts.values()),
        active_task_count=tasks.count_live(tx),
        processing_agent_count=processing,
        waiting_agent_count=waiting,
    )


def fingerprint(settings: Settings) -> str:
    """Equal for equal effective settings; the token is not part of it."""
    shown = [
        str(settings.home),
        settings.default_agent_id,
        f"{settings.http_host}:{settings.http_port}",
        str(settings.socket_path),
        settings.advertise_url,
        settings.control_auth_mode,
        settings.model_default,
        settings.model_fallbacks,
        settings.limits,
        settings.retention,
    ]
    return hashlib.sha256(dumps(shown).encode()).hexdigest()[:16]


def surface(settings: Settings, http_addr: str, base_url: str) -> StartupSurface:
    return StartupSurface(
        home_dir=str(settings.home),
        socket_path=str(settings.socket_path),
        http_addr=http_addr,
        default_agent_id=settings.default_agent_id,
        callback_base_url=base_url,
        control_auth_mode=settings.control_auth_mode,
        control_token_configured=settings.control_token is not None,
    )
