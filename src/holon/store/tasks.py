"""Tasks in the store. Rows of any age are read; what is written is of this age."""

from __future__ import annotations

from holon.core.clock import to_ms
from holon.core.codec import dumps, loads
from holon.core.tasks import TaskRecord, read_task
from holon.store.transaction import Tx

_LIVE = "('queued', 'running', 'cancelling', 'interrupted')"


def save(tx: Tx, task: TaskRecord) -> None:
    tx.run(
        "INSERT INTO tasks (id, agent_id, kind, status, due_at, record) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, status = excluded.status, due_at = excluded.due_at,"
        " record = excluded.record",
        task.id,
        task.agent_id,
        task.kind,
        task.status,
        to_ms(task.due_at) if task.due_at else None,
        dumps(task),
    )


def get(tx: Tx, task_id: str) -> TaskRecord | None:
    row = tx.one("SELECT record FROM tasks WHERE id = ?", task_id)
    return _task(row[0]) if row else None


def live(tx: Tx, agent_id: str) -> list[TaskRecord]:
    rows = tx.all(f"SELECT record FROM tasks WHERE agent_id = ? AND status IN {_LIVE} ORDER BY id", agent_id)
    return [_task(row[0]) for row in rows]


def of_agent(tx: Tx, agent_id: str, limit: int = 50) -> list[TaskRecord]:
    rows = tx.all("SELECT record FROM tasks WHERE agent_id = ? ORDER BY id DESC LIMIT ?", agent_id, limit)
    return [_task(row[0]) for row in rows]


def due(tx: Tx, now_ms: int, limit: int = 256) -> list[TaskRecord]:
    rows = tx.all(
        "SELECT record FROM tasks WHERE status = 'running' AND due_at IS NOT NULL AND due_at <= ?"
        " ORDER BY due_at LIMIT ?",
        now_ms,
        limit,
    )
    return [_task(row[0]) for row in rows]


def next_due_ms(tx: Tx) -> int | None:
    row = tx.one("SELECT MIN(due_at) FROM tasks WHERE status = 'running' AND due_at IS NOT NULL")
    return row[0] if row else None


def count_live(tx: Tx) -> int:
    row = tx.one(f"SELECT COUNT(*) FROM tasks WHERE status IN {_LIVE}")
    return int(row[0]) if row else 0


def delete(tx: Tx, task_id: str) -> None:
    """A command that ended within its call leaves no record."""
    tx.run("DELETE FROM tasks WHERE id = ?", task_id)


def live_commands(tx: Tx) -> list[TaskRecord]:
    """Commands of all agents that are not over: what a restart looks for."""
    rows = tx.all(f"SELECT record FROM tasks WHERE status IN {_LIVE} AND kind = 'command_task' ORDER BY id")
    return [_task(row[0]) for row in rows]


def _task(record: str) -> TaskRecord:
    return read_task(loads(record, dict))
