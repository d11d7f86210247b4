"""What a batch of commands answers: all facts in a JSON head, then a line for each item.

Output stands in the head alone, as much as there is room for. It is counted as it is written there, where a line break
takes two characters and an escape six.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from holon.core.codec import Record, dumps
from holon.core.errors import HolonError
from holon.core.tasks import ToolArtifactRef
from holon.core.values import Value
from holon.tasks.outcomes import Ending, ending_of, notes_on
from holon.tasks.outputs import OutputPreview, artifacts
from holon.tasks.protocol import CommandStatus, Outcome
from holon.tasks.snapshots import clipped

#: Of a command: in its item, and in its line.
CMD_CHARS = 200
LINE_CHARS = 60
#: Of an error, which may quote what the model wrote.
ERROR_CHARS = 600
#: Room for the head without its items.
HEAD_CHARS = 200


class ItemStatus(StrEnum):
    #: It ended by itself, whatever its exit status.
    COMPLETED = "completed"
    #: It was ended, or nobody knows how it ended.
    FAILED = "failed"
    #: It never ran.
    REJECTED = "rejected"
    SKIPPED = "skipped"


class ItemReceipt(Record, frozen=True, kw_only=True):
    """An item that did not run."""

    index: int
    status: ItemStatus
    #: Its beginning, if it is long.
    cmd: str
    error_kind: str | None = None
    error_message: str | None = None
    recovery_hint: str | None = None


class RanReceipt(ItemReceipt, frozen=True, kw_only=True):
    exit_status: int | None
    duration_ms: int
    stdout_preview: str
    stderr_preview: str
    #: Something that it wrote is missing in the previews; the artifacts have more.
    truncated: bool
    stdout_bytes: int
    stderr_bytes: int
    notes: list[str] = msgspec.field(default_factory=list)
    ending: Ending | None = None
    artifacts: list[ToolArtifactRef] = msgspec.field(default_factory=list)
    stdout_artifact: int | None = None
    stderr_artifact: int | None = None

    @property
    def went_well(self) -> bool:
        return self.status is ItemStatus.COMPLETED and self.exit_status == 0


class BatchReceipt(Record, frozen=True, kw_only=True, omit_defaults=False):
    ok: bool = True
    item_count: int
    completed_count: int
    failed_count: int
    rejected_count: int
    skipped_count: int
    stop_on_error: bool
    items: Sequence[ItemReceipt]

    @property
    def text(self) -> str:
        return "\n".join([dumps(self), *map(_line, self.items)])


def batch_receipt(items: Sequence[ItemReceipt], *, stop_on_error: bool) -> BatchReceipt:
    counts = Counter(item.status for item in items)
    return BatchReceipt(
        item_count=len(items),
        completed_count=counts[ItemStatus.COMPLETED],
        failed_count=counts[ItemStatus.FAILED],
        rejected_count=counts[ItemStatus.REJECTED],
        skipped_count=counts[ItemStatus.SKIPPED],
        stop_on_error=stop_on_error,
        items=items,
    )


def skipped(index: int, cmd: str) -> ItemReceipt:
    return ItemReceipt(index=index, status=ItemStatus.SKIPPED, cmd=clipped(cmd, CMD_CHARS))


def broken(index: int, cmd: str, error: Exception, *, began: bool) -> ItemReceipt:
    """Of an item that could not start, or whose end cannot be told."""
    kind, message, hint = "tool_execution_failed", repr(error), "inspect what it may have done before you repeat it"
    if isinstance(error, HolonError):
        kind, message, hint = error.code, error.message, error.hint or ""
    return ItemReceipt(
        index=index,
        status=ItemStatus.FAILED if began else ItemStatus.REJECTED,
        cmd=clipped(cmd, CMD_CHARS),
        error_kind=kind,
        error_message=clipped(message, ERROR_CHARS),
        recovery_hint=clipped(hint, ERROR_CHARS) or None,
    )


class Ran(Value, frozen=True, kw_only=True):
    """How an item came out, before it is known how much of its output there is room for."""

    index: int
    cmd: str
    #: None: it was killed and is not gone yet.
    status: CommandStatus | None
    duration_ms: int
    folder: Path
    #: The time that it had, if it did not end within.
    timed_out_ms: int | None = None

    def receipt(self, read: Callable[[int], OutputPreview], asked_chars: int, room_chars: int) -> RanReceipt:
        """With as much output as was asked for and there is room for. `read` brings that many characters of it."""
        chars = max(0, min(asked_chars, room_chars))
        while True:
            shown = read(chars)
            found = self._with(shown)
            over = written_chars(found) - room_chars
            if over <= 0 or chars == 0:
                return found
            said = len(dumps([shown.stdout, shown.stderr]))
            chars = min(chars, len(shown.stdout) + len(shown.stderr))
            chars = min(chars - 1, chars * max(0, said - over) // said) if chars else 0

    def _with(self, shown: OutputPreview) -> RanReceipt:
        truncated = shown.truncated or (self.status is not None and self.status.truncated)
        kept = artifacts(self.folder) if truncated else None  # otherwise all of it is shown, and its files go
        kind, message, hint = self._error()
        return RanReceipt(
            index=self.index,
            status=ItemStatus.FAILED if kind else ItemStatus.COMPLETED,
            cmd=clipped(self.cmd, CMD_CHARS),
            error_kind=kind,
            error_message=message,
            recovery_hint=hint,
            exit_status=self.status.exit_status if self.status else None,
            duration_ms=self.duration_ms,
            stdout_preview=shown.stdout,
            stderr_preview=shown.stderr,
            truncated=truncated,
            stdout_bytes=shown.stdout_bytes,
            stderr_bytes=shown.stderr_bytes,
            notes=self._notes(),
            ending=ending_of(self.status) if self.status else None,
            artifacts=kept.artifacts if kept else [],
            stdout_artifact=kept.stdout_artifact if kept else None,
            stderr_artifact=kept.stderr_artifact if kept else None,
        )

    def _error(self) -> tuple[str | None, str | None, str | None]:
        if self.timed_out_ms is not None:
            return (
                "timeout",
                f"it had not ended after {self.timed_out_ms} ms (yield_time_ms) and was killed with all that it began",
                "run it with ExecCommand, which makes it a task, or give it a longer yield_time_ms",
            )
        if self.status is None or self.status.outcome in (Outcome.LOST, Outcome.NOT_STARTED):
            why = self.status.detail if self.status else None
            return (
                "command_lost",
                why or "how it ended is not known",
                "inspect what it may have done before you repeat it",
            )
        return None, None, None

    def _notes(self) -> list[str]:
        """Of one that timed out not the signal that ended it: the error says it better."""
        if self.status is None:
            return []
        shown = self.status if self.timed_out_ms is None else self.status._replace(signal=None, stopped=None)
        return notes_on(shown, self.folder)


def written_chars(item: ItemReceipt) -> int:
    """What it takes in the receipt, with the comma and the line break around it."""
    return len(dumps(item)) + len(_line(item)) + 2


def _line(item: ItemReceipt) -> str:
    head = f"--- [{item.index}] {item.status}: {clipped(' '.join(item.cmd.split()), LINE_CHARS)}"
    facts = [item.error_kind] if item.error_kind else []
    if isinstance(item, RanReceipt):
        facts += [f"exit {item.exit_status}"] if item.exit_status is not None else []
        facts.append(f"{item.duration_ms} ms")
    return f"{head} ({', '.join(facts)})" if facts else head
