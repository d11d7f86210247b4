"""Tasks that were stored under names that are no longer used."""

from __future__ import annotations

from typing import Any

import pytest

from holon.core.codec import dumps, from_plain, loads, to_plain
from holon.core.messages import Trust
from holon.core.tasks import (
    ChildRecovery,
    CommandRecovery,
    CommandTaskSpec,
    TaskKind,
    TaskRecord,
    TaskStatus,
    WaitPolicy,
    WorkspaceMode,
    read_command_spec,
    read_task,
)
from holon.tasks.snapshots import wait_policy_of
from tests.core.samples import MOMENT


def stored(kind: str, **more: Any) -> dict[str, Any]:
    moment = to_plain(MOMENT)
    return {
        "id": "task_1",
        "agent_id": "main",
        "kind": kind,
        "status": "interrupted",
        "created_at": moment,
        "updated_at": moment,
        **more,
    }


@pytest.mark.spec("RT-275")
@pytest.mark.parametrize(
    ("kind", "mode"), [("subagent_task", WorkspaceMode.INHERIT), ("worktree_subagent_task", WorkspaceMode.WORKTREE)]
)
def test_a_legacy_child_keeps_its_identity_and_workspace_and_blocks_nobody(kind: str, mode: WorkspaceMode):
    recovery = {"kind": kind, "summary": "look", "prompt": "look around", "trust": "trusted_system"}
    detail = {"child_agent_id": "tmp_child_1", "wait_policy": "blocking"}
    found = read_task(stored(kind, detail=detail, recovery=recovery))
    assert found == TaskRecord(
        id="task_1",
        agent_id="main",
        kind=TaskKind.CHILD_AGENT_TASK,
        status=TaskStatus.INTERRUPTED,
        created_at=MOMENT,
        updated_at=MOMENT,
        detail={"child_agent_id": "tmp_child_1", "workspace_mode": mode},
        recovery=ChildRecovery(summary="look", prompt="look around", trust=Trust.TRUSTED_SYSTEM, workspace_mode=mode),
    )
    assert wait_policy_of(found) is WaitPolicy.BACKGROUND
    assert loads(dumps(found), TaskRecord) == found


@pytest.mark.spec("RT-274")
def test_legacy_names_are_read_and_never_written():
    assert {kind.value for kind in TaskKind} == {"command_task", "child_agent_task", "sleep_job"}
    with pytest.raises(ValueError, match="subagent_task"):
        from_plain(stored("subagent_task"), TaskRecord)


@pytest.mark.spec("RT-276")
@pytest.mark.parametrize(
    "recovery",
    [
        CommandRecovery(
            summary="build",
            spec=CommandTaskSpec(cmd="make", workdir="/work", shell="sh", login=False, tty=True, accepts_input=True),
            trust=Trust.TRUSTED_OPERATOR,
            promoted_from_exec_command=True,
        ),
        ChildRecovery(
            summary="look", prompt="look around", trust=Trust.TRUSTED_SYSTEM, workspace_mode=WorkspaceMode.WORKTREE
        ),
    ],
)
def test_recovery_specs_come_back_as_they_were_stored(recovery: CommandRecovery | ChildRecovery):
    task = read_task({**stored("command_task"), "recovery": to_plain(recovery)})
    assert task.recovery == recovery
    assert loads(dumps(task), TaskRecord) == task
    assert to_plain(task)["recovery"]["kind"] in ("command_task", "child_agent_task")


@pytest.mark.spec("RT-277")
@pytest.mark.parametrize("value", [True, False])
def test_continue_on_result_is_read_as_terminal_reentry(value: bool):
    spec = {"cmd": "make", "continue_on_result": value}
    assert read_command_spec(spec) == CommandTaskSpec(cmd="make", terminal_reentry=value)
    recovery = {"kind": "command_task", "summary": "s", "spec": spec, "trust": "trusted_system"}
    found = read_task(stored("command_task", recovery=recovery)).recovery
    assert isinstance(found, CommandRecovery)
    assert found.spec.terminal_reentry is value


def test_a_spec_of_today_is_read_as_it_is():
    spec = CommandTaskSpec(cmd="make", terminal_reentry=True)
    assert read_command_spec(to_plain(spec)) == spec
    assert read_command_spec({**to_plain(spec), "continue_on_result": False}) == spec
