"""What daemon and runner say to each other, one JSON object a line, and what the runner leaves on disk.

Standard library only: the runner is forked from a process that has never imported anything else.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple


class Order(NamedTuple):
    """The first line to a runner: everything that the command gets. It inherits nothing else."""

    folder: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    tty: bool
    accepts_input: bool
    rows: int
    columns: int
    #: Of each stream the first and the last bytes are kept; what lies between is counted and left out.
    head_bytes: int
    tail_bytes: int
    #: With less free disk than this, only a small part of the output is kept.
    disk_floor_bytes: int
    #: Between asking the command to end and ending it.
    grace_s: float
    time_limit_s: float | None
    #: `RLIMIT_…` -> value. The runner takes them on itself, for good: the command inherits what nobody can raise.
    limits: dict[str, int]
    #: Files by which the runner enters a control group before it starts the command, and leaves it after.
    groups: list[tuple[str, str]]


#: An order that nobody gave, to rehearse with.
SAMPLE = Order("", [""] * 3, "/", {"A": ""}, False, False, 0, 0, 0, 0, 0, 0.0, None, {}, [])


class Started(NamedTuple):
    """On disk before the command runs, and the first line to everyone who connects."""

    runner_pid: int
    started_at_ms: int
    #: With the numbers, who these processes are: numbers are used again, after a reboot at the latest.
    boot_id: str
    runner_started_at: int
    tty: bool
    accepts_input: bool
    #: The command's own process; on disk a moment after it began. It is in the runner's session, or has a terminal and
    #: leads a session of its own.
    pid: int = 0
    pid_started_at: int = 0


class Refused(NamedTuple):
    """The command could not be started."""

    step: str
    errno: int
    detail: str


class Outcome(StrEnum):
    EXITED = "exited"
    SIGNALED = "signaled"
    #: It never ran.
    NOT_STARTED = "not_started"
    #: Its runner is gone; how it ended is not known.
    LOST = "lost"


class StopReason(StrEnum):
    REQUEST = "request"
    TIME_LIMIT = "time_limit"
    #: Somebody ended the runner, as a machine does that shuts down.
    RUNNER_TERMINATED = "runner_terminated"


class CommandStatus(NamedTuple):
    """How a command ended."""

    outcome: Outcome
    exit_status: int | None = None
    signal: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    #: What it really wrote, kept or not. The transcript of a terminal counts as stdout.
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    #: Something that it wrote was not kept.
    truncated: bool = False
    #: It was not kept because the disk was nearly full.
    disk_low: bool = False
    stopped: StopReason | None = None
    #: It did not end when it was asked to.
    forced: bool = False
    #: What it left in the background and was ended with it, and what of that could not be ended.
    leftovers: int = 0
    survivors: int = 0
    detail: str | None = None


class InputReply(NamedTuple):
    accepted_bytes: int
    #: Why nothing was accepted.
    refusal: str | None = None


class StopReply(NamedTuple):
    #: False: it had ended already.
    stopping: bool


def encode(kind: str, body: NamedTuple | dict[str, Any]) -> bytes:
    plain = body if isinstance(body, dict) else body._asdict()
    return json.dumps({kind: plain}).encode() + b"\n"


def decode(line: bytes) -> tuple[str, dict[str, Any]]:
    ((kind, body),) = json.loads(line).items()
    return kind, body


def read_status(plain: dict[str, Any]) -> CommandStatus:
    """Fields of a newer version are passed over."""
    known = {name: value for name, value in plain.items() if name in CommandStatus._fields}
    stopped = known.get("stopped")
    return CommandStatus(
        **{
            **known,
            "outcome": Outcome(known["outcome"]),
            "stopped": None if stopped is None else StopReason(stopped),
        }
    )


def read_started(plain: dict[str, Any]) -> Started:
    return Started(**{name: value for name, value in plain.items() if name in Started._fields})
