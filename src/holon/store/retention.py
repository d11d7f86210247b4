"""Retention in the store: finds what is too old, or too much, and removes it in small batches.

Never touched: what waits or is claimed; open turns and what came in during them; what the model's window shows, and its
epoch; the newest entries of every agent that is not archived, and the messages that those refer to; timers and tasks
that have not ended, and the messages that began them; triggers. An archived temporary agent goes as a whole
(`retirement.py`), unless something still holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from holon.core.clock import moment, to_ms
from holon.core.event_kinds import RetentionApplied
from holon.core.events import RUNTIME_SCOPE
from holon.core.retention import FamilyCut, HistoryCut, RetentionFamily, RetentionPlan, RetentionPolicy, RetentionReason
from holon.core.transitions import Transition
from holon.store import histories, leftovers, retirement, sqlite
from holon.store.database import Store
from holon.store.histories import History
from holon.store.transaction import Tx

DAY_MS = 86_400_000
#: A batch of a pass: about ten milliseconds during which other writes wait.
BATCH_ROWS = 500

#: All but the folders, which are not in the store.
FOLDERS = (RetentionFamily.HOMES, RetentionFamily.OUTPUTS)
STORED = tuple(family for family in RetentionFamily if family not in FOLDERS)

#: Clears away what temporary agents that go have outside the store; which of them have nothing there any more.
Clearing = Callable[[list[str]], Awaitable[list[str]]]

#: What is left of the ages, step by step, when the store is too big. The last step leaves only what is protected.
_SHARES = (*(2.0**-halvings for halvings in range(13)), 0.0)


def plan(tx: Tx, policy: RetentionPolicy, size_bytes: int) -> RetentionPlan:
    """What a pass would remove now. It changes nothing; it reads little more than the keys of what it would remove."""
    if not policy.enabled:
        return RetentionPlan(made_at=moment(tx.now_ms), reason=RetentionReason.AGE, size_bytes=size_bytes, max_bytes=0)
    agents = histories.histories(tx)
    found = _draft(tx, policy, size_bytes, agents, share=1.0)
    for share in _SHARES[1:]:
        if found.short_bytes == 0:
            break
        found = _draft(tx, policy, size_bytes, agents, share=share)
    return found


def apply(tx: Tx, plan: RetentionPlan, limit_rows: int = 5_000) -> dict[str, int]:
    """Removes a batch of the plan and notes it in the runtime's log; `{}` when nothing was left.

    An agent counts when its last row goes: until then its family may stand there with 0.

    One transaction: what was removed, the new beginning of each log, and the note are on disk together or not at all.
    """
    removed: Counter[str] = Counter()
    made_at_ms, kept = to_ms(plan.made_at), frozenset(plan.kept_messages)
    for cut in plan.families:
        for part in _parts(plan, cut):
            left = limit_rows - removed.total()
            if left <= 0:
                break
            if isinstance(part, HistoryCut):
                rows = histories.remove(tx, part, cut, made_at_ms, left)
            else:
                rows = leftovers.remove(tx, cut.family, to_ms(cut.before), kept, left)
            if rows:
                removed[cut.family.value] += rows
    _retire(tx, plan.agents, limit_rows - removed.total(), removed)
    if removed.total():
        tx.emit(RUNTIME_SCOPE, RetentionApplied(deleted=dict(removed), reason=plan.reason))
    return dict(removed)


async def enforce(store: Store, policy: RetentionPolicy, clear: Clearing | None = None) -> dict[str, int]:
    """A whole pass: plans on a reader, removes between the writes of others, gives freed pages back to the disk.

    What temporary agents have outside the store is cleared away first: while their rows stand, it is tried again.
    """
    removed: Counter[str] = Counter()
    for _ in _SHARES:  # sizes are estimated: one plan may not be enough
        size_bytes = await store.read(sqlite.size_bytes)
        found = await store.read(partial(plan, policy=policy, size_bytes=size_bytes))
        if clear is not None and found.agents:
            found = msgspec.structs.replace(found, agents=await clear(found.agents))
        taken: Counter[str] = Counter()
        while batch := await store.write(partial(apply, plan=found, limit_rows=BATCH_ROWS), Transition.RETENTION):
            taken.update(batch)
        removed.update(taken)
        if not taken or not 0 < policy.max_bytes < await store.read(sqlite.size_bytes):
            break
    while removed and await store.give_back():
        pass
    return dict(removed)


def _draft(tx: Tx, policy: RetentionPolicy, size_bytes: int, agents: list[History], *, share: float) -> RetentionPlan:
    """The plan with ages that are this share of the policy's."""
    before = _moments(tx, policy, share)
    cuts = [cut for history in agents for cut in histories.cuts(tx, history, before)]
    kept = _kept_messages(tx, agents, before[RetentionFamily.MESSAGES])
    temporary = retirement.due(tx, before[RetentionFamily.AGENTS])
    families = []
    for family in STORED:
        if family is RetentionFamily.AGENTS:
            cut_already = sum(cut.estimated_bytes for cut in cuts if cut.agent_id in set(temporary))
            taken = retirement.estimated_bytes(tx, temporary)
            size = leftovers.Measure(len(temporary), max(0, taken - cut_already))
        elif family in histories.FAMILIES:
            mine = [cut for cut in cuts if cut.family is family]
            size = leftovers.Measure(sum(cut.rows for cut in mine), sum(cut.estimated_bytes for cut in mine))
        else:
            size = leftovers.measure(tx, family, before[family], kept)
        families.append(FamilyCut(family=family, before=moment(before[family]), **size._asdict()))
    return RetentionPlan(
        made_at=moment(tx.now_ms),
        reason=RetentionReason.AGE if share == 1.0 else RetentionReason.SIZE,
        size_bytes=size_bytes,
        max_bytes=policy.max_bytes,
        families=families,
        histories=cuts,
        kept_messages=kept,
        agents=temporary,
    )


def _moments(tx: Tx, policy: RetentionPolicy, share: float) -> dict[RetentionFamily, int]:
    """The moment before which each family is too old.

    A message stays for as long as events and transcript of its time do, and nothing goes that came in while a turn was
    open that still is. Idempotency keys keep their age whatever the size: they are a promise to callers. So do sums,
    which are small; and a temporary agent stays for as long as a key may lead back to it.
    """

    def ago(days: int, share: float = share) -> int:
        return tx.now_ms - int(days * DAY_MS * share)

    row = tx.one("SELECT COALESCE(MIN(started_at), ?) FROM turns WHERE phase <> 'terminal'", tx.now_ms)
    open_since = row[0] if row else tx.now_ms
    events, transcript, messages = ago(policy.events_days), ago(policy.transcript_days), ago(policy.messages_days)
    return {
        RetentionFamily.IDEMPOTENCY: ago(policy.idempotency_days, 1.0),
        RetentionFamily.EVENTS: events,
        RetentionFamily.TRANSCRIPT: transcript,
        RetentionFamily.CALLS: transcript,
        RetentionFamily.EPOCHS: transcript,
        RetentionFamily.BRIEFS: ago(policy.briefs_days),
        RetentionFamily.MESSAGES: min(messages, transcript, events, open_since),
        RetentionFamily.TIMERS: messages,
        RetentionFamily.TASKS: messages,
        RetentionFamily.LOADS: ago(policy.loads_days),
        RetentionFamily.SUMS: ago(policy.sums_days, 1.0),
        RetentionFamily.AGENTS: min(ago(policy.temporary_days), ago(policy.idempotency_days, 1.0)),
    }


def _kept_messages(tx: Tx, agents: list[History], before_ms: int) -> list[str]:
    """Settled messages before this moment that something which stays refers to."""
    if not leftovers.any_settled(tx, before_ms):
        return []
    referred = leftovers.messages_of_live_tasks(tx).union(*(histories.messages_shown(tx, agent) for agent in agents))
    return sorted(message_id for message_id in referred if leftovers.settled(tx, message_id, before_ms))


def _parts(plan: RetentionPlan, cut: FamilyCut) -> list[HistoryCut] | list[None]:
    """A family is removed agent by agent where it is a history, else as a whole; agents go after everything else."""
    if cut.family in histories.FAMILIES:
        return [part for part in plan.histories if part.family is cut.family]
    return [] if cut.family not in STORED or cut.family is RetentionFamily.AGENTS else [None]


def _retire(tx: Tx, agent_ids: Sequence[str], limit: int, removed: Counter[str]) -> None:
    """Temporary agents, one after the other, as far as the batch reaches."""
    for agent_id in agent_ids:
        if limit <= 0:
            return
        rows, whole = retirement.remove(tx, agent_id, limit)
        limit -= rows
        if rows:
            removed[RetentionFamily.AGENTS] += whole
