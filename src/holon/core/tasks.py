"""Tasks: background work with an owner. A command, a child agent, or a bounded sleep.

The record is what the runtime believes; for a command the folder of its runner is where the bytes are. Also the legacy
readers for tasks that were stored under names that are no longer used.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from holon.core.codec import Record, dumps, from_plain
from holon.core.failures import FailureArtifact
from holon.core.messages import Trust


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


class WaitPolicy(StrEnum):
    """Whether an agent waits for a task. Only the runtime makes one blocking; nothing in a command's spec does."""

    BACKGROUND = "background"
    BLOCKING = "blocking"


class WorkspaceMode(StrEnum):
    INHERIT = "inherit"
    WORKTREE = "worktree"


class InputTarget(StrEnum):
    STDIN = "stdin"
    TTY = "tty"
    CHILD_FOLLOWUP = "child_followup"


class CommandTaskSpec(Record, frozen=True, kw_only=True):
    """What was asked for when the command was started."""

    cmd: str
    workdir: str | None = None
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_time_ms: int = 10_000
    max_output_tokens: int | None = None
    accepts_input: bool = False
    #: Its result leads to a turn. Owned by the runtime: no request can set it.
    terminal_reentry: bool = False

    @property
    def digest(self) -> str:
        return command_digest(cmd=self.cmd, workdir=self.workdir, shell=self.shell, login=self.login, tty=self.tty)


class CommandRecovery(Record, frozen=True, kw_only=True, tag_field="kind", tag="command_task"):
    summary: str
    spec: CommandTaskSpec
    trust: Trust
    promoted_from_exec_command: bool = False


class ChildRecovery(Record, frozen=True, kw_only=True, tag_field="kind", tag="child_agent_task"):
    summary: str
    prompt: str
    trust: Trust
    workspace_mode: WorkspaceMode


Recovery = CommandRecovery | ChildRecovery


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
    #: For a command: `CommandTaskDetail`, as plain values.
    detail: dict[str, Any] | None = None
    #: What a restart needs to take it up again.
    recovery: Recovery | None = None


def has_worktree(task: TaskRecord) -> bool:
    """Whether a worktree that the task owns may still be on disk: in use, or kept for review."""
    worktree: dict[str, Any] | None = (task.detail or {}).get("worktree")
    return worktree is not None and worktree.get("cleanup_status") not in ("removed", "already_removed")


class CommandTaskDetail(Record, frozen=True, kw_only=True):
    """`TaskRecord.detail` of a command: where it is, and from its end on what can be said without its files."""

    #: Covers what was asked for and, where nothing was, what was taken: the two fields below.
    cmd_digest: str | None = None
    workdir: str | None = None
    shell: str | None = None
    #: Which processes it is (`protocol.Started`): should its folder be removed, they can still be found and ended.
    runner: dict[str, Any] | None = None
    #: The runner's folder.
    folder: str | None = None
    #: The file with everything that it wrote. On a record that has ended it makes the output ready by itself.
    output_path: str | None = None
    #: What it had written when it became a task, and at its end: for readers when the file cannot be read.
    initial_output: str | None = None
    output_summary: str | None = None
    output_truncated: bool = False
    #: Retention took the file then.
    output_removed_at: datetime | None = None
    result_summary: str | None = None
    exit_status: int | None = None
    failure_artifact: FailureArtifact | None = None
    wait_policy: WaitPolicy = WaitPolicy.BACKGROUND


def command_digest(*, cmd: str, workdir: str | None, shell: str | None, login: bool, tty: bool) -> str:
    """The identity of a command: two that share it do the same thing in the same place."""
    return hashlib.sha256(dumps([cmd, workdir, shell, login, tty]).encode()).hexdigest()


# ---- what tools show


class TaskHandle(Record, frozen=True, kw_only=True):
    task_id: str
    task_kind: TaskKind
    status: TaskStatus
    initial_output: str | None = None


class ToolArtifactRef(Record, frozen=True, kw_only=True):
    """A path, and nothing else: there is no other way to an artifact."""

    path: str


class CommandTaskStatusSnapshot(Record, frozen=True, kw_only=True):
    #: In a status, cut only if it is huge; elsewhere its beginning, to know it by.
    cmd: str | None = None
    cmd_preview: str | None = None
    #: The key that identity is compared by; it covers the four fields below as well.
    cmd_digest: str | None = None
    workdir: str | None = None
    shell: str | None = None
    login: bool | None = None
    tty: bool | None = None
    output_path: str | None = None
    #: Why there is no path any more.
    output_note: str | None = None
    result_summary: str | None = None
    exit_status: int | None = None
    terminal_reentry: bool | None = None
    promoted_from_exec_command: bool | None = None
    #: Only of a command that was started to take input.
    accepts_input: bool | None = None
    input_target: InputTarget | None = None


class ChildSupervision(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The same wherever a supervised child is shown."""

    parent_agent_id: str
    child_agent_id: str
    supervision_task_id: str
    workspace_mode: WorkspaceMode | None = None
    worktree: dict[str, Any] | None = None
    cleanup_owner: Literal["supervision_task"] = "supervision_task"
    cleanup_status: str | None = None
    followup_target: Literal["parent_supervisor"] = "parent_supervisor"


class TaskStatusSnapshot(Record, frozen=True, kw_only=True):
    """Lifecycle and coordination, never output."""

    task_id: str
    kind: TaskKind
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    wait_policy: WaitPolicy = msgspec.field()
    summary: str | None = None
    parent_message_id: str | None = None
    command: CommandTaskStatusSnapshot | None = None
    workspace_mode: WorkspaceMode | None = None
    child_agent_id: str | None = None
    child_supervision: ChildSupervision | None = None
    #: What the parent sees of its child: phase, waits, newest briefs.
    child_observability: dict[str, Any] | None = None


class TaskListEntry(Record, frozen=True, kw_only=True):
    id: str
    kind: TaskKind
    status: TaskStatus
    updated_at: datetime
    wait_policy: WaitPolicy
    summary: str | None = None
    command: CommandTaskStatusSnapshot | None = None


class RetrievalStatus(StrEnum):
    SUCCESS = "success"
    TIMEOUT = "timeout"
    NOT_READY = "not_ready"


class TaskOutputSnapshot(Record, frozen=True, kw_only=True):
    task_id: str
    kind: TaskKind
    status: TaskStatus
    output_preview: str = msgspec.field()
    output_truncated: bool = msgspec.field()
    artifacts: list[ToolArtifactRef] = msgspec.field()
    summary: str | None = None
    output_artifact: int | None = None
    #: Of a command whose file is no longer there: the preview is what its record has.
    output_note: str | None = None
    result_summary: str | None = None
    exit_status: int | None = None
    failure_artifact: FailureArtifact | None = None
    child_supervision: ChildSupervision | None = None


class TaskOutputResult(Record, frozen=True, kw_only=True):
    retrieval_status: RetrievalStatus
    task: TaskOutputSnapshot


# ---- records of another age

#: Stored kind -> how its child worked.
LEGACY_CHILDREN = {
    "subagent_task": WorkspaceMode.INHERIT,
    "worktree_subagent_task": WorkspaceMode.WORKTREE,
}


def read_task(stored: dict[str, Any]) -> TaskRecord:
    """A stored task of any age. A legacy child was never waited for, whatever its detail says."""
    if stored.get("kind") in LEGACY_CHILDREN:
        mode = LEGACY_CHILDREN[stored["kind"]]
        detail = {name: value for name, value in (stored.get("detail") or {}).items() if name != "wait_policy"}
        stored = {**stored, "kind": TaskKind.CHILD_AGENT_TASK, "detail": {**detail, "workspace_mode": mode}}
    if recovery := stored.get("recovery"):
        stored = {**stored, "recovery": _read_recovery(recovery)}
    return from_plain(stored, TaskRecord)


def read_command_spec(stored: dict[str, Any]) -> CommandTaskSpec:
    """A stored spec of any age."""
    return from_plain(_with_reentry(stored), CommandTaskSpec)


def _read_recovery(stored: dict[str, Any]) -> dict[str, Any]:
    kind = stored.get("kind")
    if kind in LEGACY_CHILDREN:
        return {**stored, "kind": TaskKind.CHILD_AGENT_TASK.value, "workspace_mode": LEGACY_CHILDREN[kind]}
    if kind == TaskKind.COMMAND_TASK:
        return {**stored, "spec": _with_reentry(stored["spec"])}
    return stored


def _with_reentry(spec: dict[str, Any]) -> dict[str, Any]:
    """`continue_on_result` is what `terminal_reentry` was called."""
    rest = {name: value for name, value in spec.items() if name != "continue_on_result"}
    if "continue_on_result" in spec:
        rest.setdefault("terminal_reentry", spec["continue_on_result"])
    return rest
