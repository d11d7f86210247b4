"""Transitions: the name of every step that changes durable state. Each is one transaction.

The names are what crash tests kill at (`HOLON_KILL_AT=<name>:<before|after>:<nth>`), so a step that is added here gets
its kill by being here.
"""

from __future__ import annotations

from enum import StrEnum


class Transition(StrEnum):
    HOST_ACQUIRE = "host.acquire"
    HOST_RECOVER = "host.recover"
    AGENT_CREATE = "agent.create"
    AGENT_HOME_MADE = "agent.home_made"
    AGENT_CONTROL = "agent.control"
    AGENT_ARCHIVE = "agent.archive"
    MESSAGE_ADMIT = "message.admit"
    MESSAGE_REDUCE = "message.reduce"
    TURN_BEGIN = "turn.begin"
    TURN_RESUME = "turn.resume"
    TURN_ROUND = "turn.round"
    TOOL_DONE = "tool.done"
    TURN_SETTLE = "turn.settle"
    TURN_FAIL = "turn.fail"
    TURN_SUSPEND = "turn.suspend"
    IDLE_DECIDE = "idle.decide"
    WAKE_HINT = "wake.hint"
    TIMER_CREATE = "timer.create"
    TIMER_CANCEL = "timer.cancel"
    TIMER_FIRE = "timer.fire"
    TRIGGER_PROVISION = "trigger.provision"
    TRIGGER_REVOKE = "trigger.revoke"
    TRIGGER_REVEAL = "trigger.reveal"
    TASK_START = "task.start"
    TASK_END = "task.end"
    TASK_CHANGE = "task.change"
    WORKTREE_NOTE = "worktree.note"
    WORKTREE_CLEARED = "worktree.cleared"
    RUN_ABORT = "run.abort"
    WATCHDOG = "watchdog.notice"
    RETENTION = "retention.apply"
    AUDIT = "audit.note"
