"""Failures as operators see them: one artifact for providers, turns and tasks alike, bounded in size."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from holon.core.codec import Record

METADATA_CHARS = 500
KEY_CHARS = 100
SUMMARY_CHARS = 1_000


class FailureCategory(StrEnum):
    TRANSPORT = "transport"
    PROTOCOL = "protocol"
    RUNTIME = "runtime"
    TASK = "task"
    UNKNOWN = "unknown"


class FailurePhase(StrEnum):
    STARTUP = "startup"
    SHUTDOWN = "shutdown"
    RUNTIME_TURN = "runtime_turn"


class FailureArtifact(Record, frozen=True, kw_only=True):
    category: FailureCategory
    kind: str
    summary: str
    provider: str | None = None
    model_ref: str | None = None
    status: int | None = None
    task_id: str | None = None
    exit_status: int | None = None
    source_chain: list[str] = msgspec.field(default_factory=list)
    metadata: dict[str, str] = msgspec.field(default_factory=dict)

    def bounded(self) -> FailureArtifact:
        """The same failure with long texts cut: an artifact is a summary, never a log."""
        return msgspec.structs.replace(
            self,
            summary=self.summary[:SUMMARY_CHARS],
            source_chain=[line[:METADATA_CHARS] for line in self.source_chain[:8]],
            metadata={key[:KEY_CHARS]: value[:METADATA_CHARS] for key, value in list(self.metadata.items())[:16]},
        )


class RuntimeFailure(Record, frozen=True, kw_only=True):
    """The last failure that an operator should know of, with where to look next."""

    occurred_at: datetime
    summary: str
    phase: FailurePhase
    detail_hint: str | None = None
    failure_artifact: FailureArtifact | None = None
