"""Tasks that an older runtime has stored are read like any other, wherever tasks are read."""

from __future__ import annotations

from typing import Any

import pytest

from holon.core.codec import dumps
from holon.core.tasks import CommandRecovery, TaskKind, TaskStatus, WorkspaceMode
from holon.store import Store, Tx, tasks
from tests.store.calls import read, write

MOMENT = "2026-01-01T00:00:00Z"


def old(task_id: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "id": task_id,
        "agent_id": "main",
        "kind": kind,
        "status": "running",
        "created_at": MOMENT,
        "updated_at": MOMENT,
        **more,
    }


def put(tx: Tx, record: dict[str, Any]) -> None:
    tx.run(
        "INSERT INTO tasks (id, agent_id, kind, status, due_at, record) VALUES (?, ?, ?, ?, ?, ?)",
        record["id"],
        record["agent_id"],
        record["kind"],
        record["status"],
        None,
        dumps(record),
    )


@pytest.mark.spec("RT-275")
def test_a_child_under_its_old_name_is_a_child_and_is_kept_under_its_new_one(store: Store) -> None:
    write(
        store, put, old("task_1", "worktree_subagent_task", detail={"child_agent_id": "c", "wait_policy": "blocking"})
    )
    (task,) = read(store, tasks.live, "main")
    assert read(store, tasks.get, "task_1") == task
    assert read(store, tasks.of_agent, "main") == [task]
    assert (task.kind, task.status) == (TaskKind.CHILD_AGENT_TASK, TaskStatus.RUNNING)
    assert task.detail == {"child_agent_id": "c", "workspace_mode": WorkspaceMode.WORKTREE}
    write(store, tasks.save, task)
    assert read(store, tasks.get, "task_1") == task


@pytest.mark.parametrize("leads_to_a_turn", [True, False])
def test_a_command_keeps_what_its_old_word_for_reentry_said(store: Store, leads_to_a_turn: bool) -> None:
    spec = {"cmd": "make", "continue_on_result": leads_to_a_turn}
    recovery = {"kind": "command_task", "summary": "make", "spec": spec, "trust": "trusted_operator"}
    write(store, put, old("task_2", "command_task", recovery=recovery))
    (task,) = read(store, tasks.live_commands)
    assert isinstance(task.recovery, CommandRecovery)
    assert task.recovery.spec.terminal_reentry is leads_to_a_turn
