"""Tasks: background work with an owner. For now a task is a bounded sleep; commands and children come with `tasks`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from holon.core.codec import Record


class TaskKind(StrEnum):
    COMMAND_TASK = "command_task"
    CHILD_AGENT_TASK = "child_agent_task"
    SLEEP_JOB = "sleep_job"


class TaskStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def terminal(self) -> bool:
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


class TaskRecord(Record, frozen=True, kw_only=True):
    id: str
    agent_id: str
    kind: TaskKind
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    parent_message_id: str | None = None
    work_item_id: str | None = None
    summary: str | None = None
    #: For a sleep job: when it ends.
    due_at: datetime | None = None
    detail: dict[str, Any] | None = None
