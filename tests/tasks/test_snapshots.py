"""What tools show of a task, from its stored record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holon.core.codec import to_plain
from holon.core.failures import FailureArtifact, FailureCategory
from holon.core.messages import Trust
from holon.core.tasks import (
    ChildSupervision,
    CommandRecovery,
    CommandTaskDetail,
    CommandTaskSpec,
    CommandTaskStatusSnapshot,
    InputTarget,
    RetrievalStatus,
    TaskKind,
    TaskOutputSnapshot,
    TaskRecord,
    TaskStatus,
    ToolArtifactRef,
    WaitPolicy,
    WorkspaceMode,
    command_digest,
)
from holon.tasks.snapshots import handle, list_entry, output_result, status_snapshot, wait_policy_of
from tests.core.samples import MOMENT
from tests.tasks.workshop import Workshop, ended

SPEC = CommandTaskSpec(cmd="make test", workdir="/work", shell="bash", login=True)


def task(status: TaskStatus = TaskStatus.COMPLETED, spec: CommandTaskSpec = SPEC, **detail: Any) -> TaskRecord:
    return TaskRecord(
        id="task_1",
        agent_id="main",
        kind=TaskKind.COMMAND_TASK,
        status=status,
        created_at=MOMENT,
        updated_at=MOMENT,
        parent_message_id="msg_1",
        summary="run the tests",
        detail=to_plain(CommandTaskDetail(**detail)),
        recovery=CommandRecovery(summary="run the tests", spec=spec, trust=Trust.TRUSTED_SYSTEM),
    )


@pytest.mark.spec("RT-290")
def test_the_command_is_shown_with_everything_that_makes_its_identity():
    found = status_snapshot(task(TaskStatus.RUNNING, output_path="/f/output.log")).command
    assert found == CommandTaskStatusSnapshot(
        cmd="make test",
        cmd_digest=command_digest(cmd="make test", workdir="/work", shell="bash", login=True, tty=False),
        workdir="/work",
        shell="bash",
        login=True,
        tty=False,
        output_path="/f/output.log",
        terminal_reentry=False,
        promoted_from_exec_command=False,
    )


@pytest.mark.spec("RT-289")
def test_a_status_has_no_output_and_no_artifacts():
    record = task(output_path="/f/output.log", output_summary="SECRET", initial_output="SECRET", exit_status=0)
    shown = to_plain(status_snapshot(record))
    assert "SECRET" not in str(shown)
    assert set(shown) == {
        "task_id",
        "kind",
        "status",
        "created_at",
        "updated_at",
        "wait_policy",
        "summary",
        "parent_message_id",
        "command",
    }


@pytest.mark.spec("RT-278", "RT-291")
def test_a_command_is_in_the_background_unless_the_runtime_says_otherwise():
    assert wait_policy_of(task()) is WaitPolicy.BACKGROUND
    reentering = task(spec=msgspec.structs.replace(SPEC, terminal_reentry=True))
    assert status_snapshot(reentering).wait_policy is WaitPolicy.BACKGROUND
    command = status_snapshot(reentering).command
    assert command
    assert command.terminal_reentry is True
    assert list_entry(task(wait_policy=WaitPolicy.BLOCKING)).wait_policy is WaitPolicy.BLOCKING


@pytest.mark.spec("RT-301")
@pytest.mark.parametrize(
    ("spec", "advertised"),
    [
        (SPEC, (None, None)),
        (msgspec.structs.replace(SPEC, tty=True), (None, None)),
        (msgspec.structs.replace(SPEC, accepts_input=True), (True, InputTarget.STDIN)),
        (msgspec.structs.replace(SPEC, accepts_input=True, tty=True), (True, InputTarget.TTY)),
    ],
)
def test_input_is_advertised_only_of_a_command_that_takes_it(
    spec: CommandTaskSpec, advertised: tuple[bool | None, InputTarget | None]
):
    command = status_snapshot(task(TaskStatus.RUNNING, spec)).command
    assert command
    assert (command.accepts_input, command.input_target) == advertised


@pytest.mark.spec("RT-284", "RT-293", "RT-295")
async def test_a_task_that_has_ended_shows_the_text_of_its_file(workshop: Workshop):
    running = await workshop.start("echo out; echo err >&2; exit 3")
    await ended(running)
    path = str(running.folder / "output.log")
    found = output_result(task(TaskStatus.FAILED, output_path=path, exit_status=3, result_summary="exit 3"))
    assert found.retrieval_status is RetrievalStatus.SUCCESS
    assert sorted(found.task.output_preview.split()) == ["err", "out"]
    assert msgspec.structs.replace(found.task, output_preview="") == TaskOutputSnapshot(
        task_id="task_1",
        kind=TaskKind.COMMAND_TASK,
        status=TaskStatus.FAILED,
        output_preview="",
        output_truncated=False,
        artifacts=[ToolArtifactRef(path=path)],
        summary="run the tests",
        output_artifact=0,
        result_summary="exit 3",
        exit_status=3,
    )


@pytest.mark.spec("RT-285")
@pytest.mark.parametrize("field", ["output_summary", "initial_output"])
def test_without_its_file_a_stored_excerpt_is_shown(tmp_path: Path, field: str):
    stored: dict[str, Any] = {"output_path": str(tmp_path / "gone.log"), field: "all is well"}
    found = output_result(task(**stored))
    assert (found.retrieval_status, found.task.output_preview) == (RetrievalStatus.SUCCESS, "all is well")
    assert (found.task.artifacts, found.task.output_artifact) == ([], None)


@pytest.mark.spec("RT-286")
def test_a_file_alone_makes_the_output_ready(tmp_path: Path):
    (tmp_path / "output.log").write_text("")
    found = output_result(task(output_path=str(tmp_path / "output.log")))
    assert (found.retrieval_status, found.task.output_preview) == (RetrievalStatus.SUCCESS, "")


@pytest.mark.spec("RT-287")
def test_an_end_alone_does_not(tmp_path: Path):
    assert output_result(task()).retrieval_status is RetrievalStatus.NOT_READY
    gone = task(output_path=str(tmp_path / "gone.log"))
    assert output_result(gone).retrieval_status is RetrievalStatus.NOT_READY


@pytest.mark.parametrize(("waited", "expected"), [(True, RetrievalStatus.TIMEOUT), (False, RetrievalStatus.NOT_READY)])
async def test_a_task_that_runs_shows_what_there_is_and_says_that_it_is_not_ready(
    workshop: Workshop, waited: bool, expected: RetrievalStatus
):
    (workshop.root / "output.log").write_text("until now")
    found = output_result(task(TaskStatus.RUNNING, output_path=str(workshop.root / "output.log")), waited=waited)
    assert (found.retrieval_status, found.task.output_preview) == (expected, "until now")


@pytest.mark.spec("RT-294")
def test_a_long_output_is_clipped_and_says_so(tmp_path: Path):
    (tmp_path / "output.log").write_text("x" * 9_000)
    from_file = output_result(task(output_path=str(tmp_path / "output.log"))).task
    stored = output_result(task(output_summary="x" * 9_000)).task
    for found in (from_file, stored):
        assert (len(found.output_preview) <= 8_000, found.output_truncated) == (True, True)


@pytest.mark.spec("RT-296")
def test_a_task_that_failed_carries_its_evidence():
    failure = FailureArtifact(category=FailureCategory.TASK, kind="command_lost", summary="its runner is gone")
    found = output_result(task(TaskStatus.FAILED, initial_output="", failure_artifact=failure))
    assert found.task.failure_artifact == failure


@pytest.mark.spec("RT-298")
def test_a_child_has_the_same_envelope_without_what_only_commands_have():
    supervision = ChildSupervision(
        parent_agent_id="main",
        child_agent_id="tmp_child_1",
        supervision_task_id="task_1",
        workspace_mode=WorkspaceMode.INHERIT,
    )
    child = msgspec.structs.replace(
        task(output_summary="done", result_summary="it worked"), kind=TaskKind.CHILD_AGENT_TASK, recovery=None
    )
    found = output_result(child, supervision=supervision)
    assert found.retrieval_status is RetrievalStatus.SUCCESS
    assert (found.task.output_preview, found.task.result_summary) == ("done", "it worked")
    assert (found.task.exit_status, found.task.artifacts, found.task.output_artifact) == (None, [], None)
    assert found.task.child_supervision == supervision == status_snapshot(child, supervision).child_supervision


def test_a_handle_has_what_was_written_until_it_became_a_task():
    found = handle(task(TaskStatus.RUNNING, initial_output="so far"))
    assert (found.task_id, found.task_kind, found.initial_output) == ("task_1", TaskKind.COMMAND_TASK, "so far")
