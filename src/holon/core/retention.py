"""Retention: how long records are kept, how much room they may take, and what a pass over them would remove.

Values only; what is protected and how rows are found is the store's business (`store/retention.py`).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from holon.core.codec import Input, Record

Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]


class RetentionPolicy(Input, frozen=True, kw_only=True):
    """On by default. What is still in use is kept whatever its age and its size."""

    #: Whether old records are removed at all.
    enabled: bool = True
    #: Days that the event log reaches back; a client whose cursor is older is told so.
    events_days: Days = 30
    #: Days that the transcript reaches back, with the calls to models and the prompt heads that they were made with.
    transcript_days: Days = 180
    #: Days that a settled message is kept, with its queue entry, turns and tool calls; so are ended timers and tasks.
    messages_days: Days = 180
    #: Days that briefs, which are what people read, are kept.
    briefs_days: Days = 365
    #: Days for which a request that is sent again under its idempotency key gets the first answer.
    idempotency_days: Days = 7
    #: Days that each load of a skill or reference is kept; older ones are summed by skill and month.
    loads_days: Days = 180
    #: Days that sums are kept: costs by day, loads by month.
    sums_days: Days = 400
    #: Days that an archived temporary agent (`tmp_…`) is kept; then it goes with all its records and its folder.
    temporary_days: Days = 30
    #: Days that the files are kept which commands left in `task-output`, from their end on; bytes that those of one
    #: agent may take: above that, the oldest go first. 0 is no limit.
    output_days: Days = 30
    output_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1_073_741_824
    #: Bytes that the records may take; above that, ages are halved until they fit. 0 is no limit.
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 2_000_000_000


class RetentionFamily(StrEnum):
    """What is counted together, in the order in which it is removed; folders go before their agents."""

    IDEMPOTENCY = "idempotency"
    EVENTS = "events"
    TRANSCRIPT = "transcript"
    CALLS = "calls"
    EPOCHS = "epochs"
    BRIEFS = "briefs"
    MESSAGES = "messages"
    TIMERS = "timers"
    TASKS = "tasks"
    LOADS = "loads"
    SUMS = "sums"
    AGENTS = "agents"
    #: Folders of the agents above. They take no room in the store.
    HOMES = "homes"
    #: Folders of commands that are over. Neither do these.
    OUTPUTS = "outputs"


class RetentionReason(StrEnum):
    AGE = "age"
    SIZE = "size"


class FamilyCut(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Of one family: everything before `before` that nothing protects, and how many records that is."""

    family: RetentionFamily
    before: datetime
    rows: int
    #: What they take, from samples.
    estimated_bytes: int


class HistoryCut(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Of one agent's history of one family: everything below `below`, a number or an id."""

    family: RetentionFamily
    agent_id: str
    below: int | str
    rows: int
    estimated_bytes: int


class RetentionPlan(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a pass would remove. Making it changes nothing: it is the dry run."""

    made_at: datetime
    reason: RetentionReason
    size_bytes: int
    max_bytes: int
    families: list[FamilyCut] = msgspec.field(default_factory=list)
    histories: list[HistoryCut] = msgspec.field(default_factory=list)
    #: Settled messages before the cut that something which stays refers to.
    kept_messages: list[str] = msgspec.field(default_factory=list)
    #: Archived temporary agents that go as a whole, with their folders.
    agents: list[str] = msgspec.field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(cut.rows for cut in self.families)

    @property
    def short_bytes(self) -> int:
        """How far above its limit the store would stay: more is to be removed, or all that is left is protected."""
        if self.max_bytes == 0:
            return 0
        return max(0, self.size_bytes - sum(cut.estimated_bytes for cut in self.families) - self.max_bytes)
