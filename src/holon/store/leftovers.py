"""Leftovers: what has come to its end (settled messages with their turns, ended timers and tasks, used keys, loads).

Ids sort by time, so what is old enough is a range of the primary key; what is in the range and not at its end yet, or
ended lately, is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from holon.core.clock import to_ms
from holon.core.codec import loads
from holon.core.ids import first_id
from holon.core.retention import RetentionFamily
from holon.core.tasks import TaskRecord, has_worktree
from holon.core.timers import Timer
from holon.store import calls, sqlite
from holon.store import loads as ledger
from holon.store.histories import SAMPLE
from holon.store.transaction import END, Tx

_PAGE = 500
#: What a used key's answer, and an ended timer's or task's record, usually take.
_KEY_BYTES, _ENDED_BYTES = 100, 400
#: What a load and a sum take: mostly ids and names, and in two indexes.
_LOAD_BYTES, _SUM_BYTES = 400, 60


class Measure(NamedTuple):
    rows: int
    estimated_bytes: int


def measure(tx: Tx, family: RetentionFamily, before_ms: int, kept: Collection[str]) -> Measure:
    """How many records a removal would take, and roughly how many bytes."""
    match family:
        case RetentionFamily.IDEMPOTENCY:
            row = tx.one("SELECT COUNT(*) FROM idempotency WHERE created_at < ?", before_ms)
            rows = int(row[0]) if row else 0
            return Measure(rows, rows * sqlite.row_bytes(_KEY_BYTES))
        case RetentionFamily.MESSAGES:
            return _measure_messages(tx, before_ms, kept)
        case RetentionFamily.TIMERS | RetentionFamily.TASKS:
            rows = sum(1 for _ in _ended(tx, family, before_ms))
            return Measure(rows, rows * sqlite.row_bytes(_ENDED_BYTES))
        case RetentionFamily.LOADS:
            rows = ledger.old(tx, before_ms)
            return Measure(rows, rows * sqlite.row_bytes(_LOAD_BYTES))
        case RetentionFamily.SUMS:
            rows = calls.old_days(tx, before_ms) + ledger.old_months(tx, before_ms)
            return Measure(rows, rows * sqlite.row_bytes(_SUM_BYTES))
        case _:
            raise AssertionError(f"{family} is not removed here")


def remove(tx: Tx, family: RetentionFamily, before_ms: int, kept: Collection[str], limit: int) -> int:
    """Removes the oldest of them, at most `limit`; how many."""
    match family:
        case RetentionFamily.IDEMPOTENCY:
            keys = tx.all(
                "SELECT scope, key FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?", before_ms, limit
            )
            tx.many("DELETE FROM idempotency WHERE scope = ? AND key = ?", keys)
            return len(keys)
        case RetentionFamily.MESSAGES:
            return _remove_messages(tx, before_ms, kept, limit)
        case RetentionFamily.TIMERS | RetentionFamily.TASKS:
            ids = [(id_,) for id_, _ in zip(_ended(tx, family, before_ms), range(limit), strict=False)]
            tx.many(f"DELETE FROM {family} WHERE id = ?", ids)
            return len(ids)
        case RetentionFamily.LOADS:
            return ledger.sum_up(tx, before_ms, limit)
        case RetentionFamily.SUMS:
            days = calls.drop_days(tx, before_ms, limit)
            return days + ledger.drop_months(tx, before_ms, limit - days)
        case _:
            raise AssertionError(f"{family} is not removed here")


def remove_message(tx: Tx, message_id: str) -> int:
    """A message with all that hangs on it; how much that was, its tool calls counted one by one."""
    touched = 1
    for (turn_id,) in tx.all("SELECT id FROM turns WHERE message_id = ?", message_id):
        touched += tx.run("DELETE FROM tool_calls WHERE turn_id = ?", turn_id)
    tx.run("DELETE FROM turns WHERE message_id = ?", message_id)
    tx.run("DELETE FROM queue WHERE message_id = ?", message_id)
    tx.run("DELETE FROM messages WHERE id = ?", message_id)
    return touched


def settled(tx: Tx, message_id: str, before_ms: int) -> bool:
    """Whether a message was made, and came to its end, before this moment."""
    row = tx.one(f"SELECT 1 FROM queue WHERE message_id = ? AND {_SETTLED}", message_id, before_ms)
    return row is not None and message_id < first_id("msg", before_ms)


def any_settled(tx: Tx, before_ms: int) -> bool:
    return next(_settled_messages(tx, before_ms), None) is not None


def messages_of_live_tasks(tx: Tx) -> set[str]:
    """The messages whose work still goes on in the background."""
    live = tx.all("SELECT record FROM tasks WHERE status IN ('queued', 'running', 'cancelling', 'interrupted')")
    return {parent for (record,) in live if (parent := loads(record, TaskRecord).parent_message_id)}


_SETTLED = "status IN ('processed', 'interjected', 'aborted', 'dropped') AND updated_at < ?"


def _measure_messages(tx: Tx, before_ms: int, kept: Collection[str]) -> Measure:
    end = first_id("msg", before_ms)
    row = tx.one(f"SELECT COUNT(*) FROM queue WHERE message_id < ? AND {_SETTLED}", end, before_ms)
    rows = (int(row[0]) if row else 0) - len(kept)
    sample = [row[0] for row in tx.all("SELECT id FROM messages WHERE id < ? ORDER BY id LIMIT ?", end, SAMPLE)]
    taken = sum(_message_bytes(tx, message_id) for message_id in sample)
    return Measure(rows, rows * taken // max(1, len(sample)))


def _message_bytes(tx: Tx, message_id: str) -> int:
    """The envelope, its queue entry, its turns and their tool calls."""
    rows = tx.all(
        "SELECT LENGTH(envelope) FROM messages WHERE id = ?"
        " UNION ALL SELECT LENGTH(record) FROM turns WHERE message_id = ?"
        " UNION ALL SELECT LENGTH(c.record) FROM turns t JOIN tool_calls c ON c.turn_id = t.id WHERE t.message_id = ?",
        *(message_id, message_id, message_id),
    )
    return sqlite.row_bytes(0) + sum(sqlite.row_bytes(row[0]) for row in rows)


def _remove_messages(tx: Tx, before_ms: int, kept: Collection[str], limit: int) -> int:
    """A message goes with all that hangs on it. Tool calls count toward the limit, so that a batch is bounded."""
    removed = touched = 0
    for message_id in _settled_messages(tx, before_ms):
        if touched >= limit:
            break
        if message_id in kept:
            continue
        touched += remove_message(tx, message_id)
        removed += 1
    return removed


def _settled_messages(tx: Tx, before_ms: int) -> Iterator[str]:
    after, end = "", first_id("msg", before_ms)
    while page := tx.all(
        f"SELECT message_id FROM queue WHERE message_id > ? AND message_id < ? AND {_SETTLED}"
        " ORDER BY message_id LIMIT ?",
        *(after, end, before_ms, _PAGE),
    ):
        yield from (row[0] for row in page)
        after = page[-1][0]


def _timer_ended_ms(record: str) -> int:
    timer = loads(record, Timer)
    return to_ms(timer.last_fired_at or timer.created_at)


def _task_ended_ms(record: str) -> int:
    """Never, for one that still has a worktree: nothing else knows of it."""
    task = loads(record, TaskRecord)
    return END if has_worktree(task) else to_ms(task.updated_at)


#: Prefix of the ids, which statuses are an end, and when it came.
_ENDINGS: dict[RetentionFamily, tuple[str, str, Callable[[str], int]]] = {
    RetentionFamily.TIMERS: ("timer", "('completed', 'cancelled')", _timer_ended_ms),
    RetentionFamily.TASKS: ("task", "('completed', 'failed', 'cancelled')", _task_ended_ms),
}


def _ended(tx: Tx, family: RetentionFamily, before_ms: int) -> Iterator[str]:
    prefix, statuses, ended_ms = _ENDINGS[family]
    after, end = "", first_id(prefix, before_ms)
    while page := tx.all(
        f"SELECT id, record FROM {family} WHERE id > ? AND id < ? AND status IN {statuses} ORDER BY id LIMIT ?",
        *(after, end, _PAGE),
    ):
        yield from (id_ for id_, record in page if ended_ms(record) < before_ms)
        after = page[-1][0]
