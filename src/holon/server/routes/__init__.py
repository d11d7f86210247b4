"""Routes: one module a group. A handler reads the request, asks the host once, and shapes the answer."""

from __future__ import annotations

from typing import Any

from holon.server.routes import (
    agents,
    analytics,
    callbacks,
    control,
    events,
    ingress,
    lifecycle,
    models,
    prompts,
    runs,
    runtime,
    skills,
    tasks,
    timers,
    triggers,
    worktrees,
)

ALL: list[Any] = [
    handler
    for group in (
        runtime,
        agents,
        events,
        ingress,
        callbacks,
        control,
        runs,
        lifecycle,
        prompts,
        models,
        analytics,
        skills,
        tasks,
        worktrees,
        timers,
        triggers,
    )
    for handler in group.HANDLERS
]
