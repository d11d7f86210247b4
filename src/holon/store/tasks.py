"""Tasks in the store. Rows of any age are read; what is written is of this age."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holon.core.clock import iso, to_ms
from holon.core.codec import dumps, loads
from holon.core.tasks import TaskRecord, read_task
from holon.store.transaction import END, Tx

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


def count_children(tx: Tx, agent_id: str | None = None) -> int:
    """Children that are not done yet, of one agent or of all: counted in an index that has only those."""
    question = f"SELECT COUNT(*) FROM tasks WHERE kind = 'child_agent_task' AND status IN {_LIVE}"
    row = tx.one(question) if agent_id is None else tx.one(question + " AND agent_id = ?", agent_id)
    return int(row[0]) if row else 0


def delete(tx: Tx, task_id: str) -> None:
    """A command that ended within its call leaves no record."""
    tx.run("DELETE FROM tasks WHERE id = ?", task_id)


def live_commands(tx: Tx) -> list[TaskRecord]:
    """Commands of all agents that are not over: what a restart looks for."""
    rows = tx.all(f"SELECT record FROM tasks WHERE status IN {_LIVE} AND kind = 'command_task' ORDER BY id")
    return [_task(row[0]) for row in rows]


def ends(tx: Tx, task_ids: Iterable[str]) -> dict[str, int]:
    """When these tasks ended, as far as they are on record; `END` for those that have not."""
    found = ((task_id, get(tx, task_id)) for task_id in task_ids)
    return {task_id: to_ms(task.updated_at) if task.status.terminal else END for task_id, task in found if task}


def note_outputs_gone(tx: Tx, task_ids: Iterable[str]) -> None:
    """From now on the records of these tasks say that their output is not kept. It is no news of the tasks."""
    for task_id in task_ids:
        task = get(tx, task_id)
        if task is not None and task.status.terminal and "output_removed_at" not in (task.detail or {}):
            detail = {**(task.detail or {}), "output_removed_at": iso(tx.now_ms)}
            save(tx, msgspec.structs.replace(task, detail=detail))


def _task(record: str) -> TaskRecord:
    return read_task(loads(record, dict))
