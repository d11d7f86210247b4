"""`holon task`: what an agent has running in the background, and an operator's word to it."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from holon.cli.durations import parse_duration
from holon.cli.output import emit, local_time, remark, say, show_fields, show_table
from holon.cli.seat import Agent, Limit, Seat, read_text, seated
from holon.core.codec import from_plain
from holon.core.errors import Conflict
from holon.core.tasks import TaskRecord, TaskStatusSnapshot

app = typer.Typer(help="An agent's tasks: list, status, output, input, stop; and the worktrees that they own.")

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]

#: One request waits so long; a longer wait is several requests.
_ONE_WAIT_MS = 20_000


@app.command("list")
@seated()
def list_tasks(seat: Seat, agent: Agent = None, limit: Limit = 50) -> None:
    """List an agent's tasks, also those that are over.

    \b
    Example:
      holon task list
    """
    client = seat.client()
    listed = client.get(client.path(agent, "tasks"), limit=limit)
    if seat.json:
        emit(listed)
        return
    rows = [
        (task.id, task.kind, task.status, local_time(task.updated_at), task.summary or "")
        for task in from_plain(listed, list[TaskRecord])
    ]
    show_table(("task", "kind", "status", "since", "summary"), rows, empty="there are no tasks")


@app.command("status")
@seated()
def task_status(seat: Seat, task_id: TaskId, agent: Agent = None) -> None:
    """Show where a task stands, without its output.

    \b
    Example:
      holon task status task_01J9ZK3V7Q
    """
    client = seat.client()
    shown = client.get(client.control_path(agent, "tasks", task_id))
    if seat.json:
        emit(shown)
        return
    task = from_plain(shown, TaskStatusSnapshot)
    command = task.command
    exit_status = command.exit_status if command else None
    show_fields(
        f"{task.task_id} is {task.status}",
        [
            ("kind", task.kind),
            ("command", command.cmd if command else None),
            ("exit status", None if exit_status is None else str(exit_status)),
            ("result", command.result_summary if command else None),
            ("output", command.output_path if command else None),
            ("child", task.child_agent_id),
            ("child is", (task.child_observability or {}).get("phase")),
            *_worktree_fields(task.child_supervision.worktree if task.child_supervision else None),
            ("began", local_time(task.created_at)),
            ("since", local_time(task.updated_at)),
        ],
    )


@app.command("output")
@seated()
def task_output(
    seat: Seat,
    task_id: TaskId,
    agent: Agent = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="DURATION", help="Wait for its end, at most so long: 30s, 5m.")
    ] = None,
) -> None:
    """Print what a task wrote.

    \b
    Example:
      holon task output task_01J9ZK3V7Q
      holon task output task_01J9ZK3V7Q --wait 5m
    """
    client = seat.client()
    path = client.control_path(agent, "tasks", task_id, "output")
    deadline = time.monotonic() + (parse_duration(wait) / 1000 if wait else 0)
    while True:
        left_ms = round((deadline - time.monotonic()) * 1000)
        waiting = {"block": "true", "timeout_ms": min(left_ms, _ONE_WAIT_MS)} if left_ms > 0 else {}
        shown: dict[str, Any] = client.get(path, **waiting)
        if shown["retrieval_status"] == "success" or left_ms <= _ONE_WAIT_MS:
            break
    if seat.json:
        emit(shown)
        return
    task = shown["task"]
    say(task["output_preview"].rstrip("\n"))
    if task["output_truncated"]:
        remark(f"the middle is left out; all of it: 'holon task status {task_id}' names the file")
    if shown["retrieval_status"] != "success":
        remark(f"{task_id} is {task['status']}: wait for its end with --wait 5m")


@app.command("input")
@seated()
def task_input(
    seat: Seat,
    task_id: TaskId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to type; '-' reads it from standard input.")],
    agent: Agent = None,
    no_newline: Annotated[bool, typer.Option("--no-newline", help="Do not end it with a newline.")] = False,
) -> None:
    """Type a line into a running task, or tell a child something.

    \b
    Example:
      holon task input task_01J9ZK3V7Q yes
    """
    words = read_text(text)
    client = seat.client()
    line = words if no_newline or words.endswith("\n") else f"{words}\n"
    receipt = client.post(client.control_path(agent, "tasks", task_id, "input"), {"input": line})
    seat.answer(receipt, receipt["summary_text"])


@app.command("stop")
@seated()
def stop_task(
    seat: Seat,
    task_id: TaskId,
    agent: Agent = None,
    force: Annotated[bool, typer.Option("--force", help="End it at once instead of asking first.")] = False,
) -> None:
    """End a task: it is asked first, and ended after a grace period. The agent gets its result.

    \b
    Example:
      holon task stop task_01J9ZK3V7Q
    """
    client = seat.client()
    receipt = client.post(client.control_path(agent, "tasks", task_id, "stop"), {"force": force})
    status = receipt["task"]["status"]
    seat.answer(receipt, f"{task_id} was asked to end" if receipt["stop_requested"] else f"{task_id} is {status}")


@app.command("worktrees")
@seated()
def list_worktrees(seat: Seat, agent: Agent = None) -> None:
    """List the worktrees that an agent's tasks own: in use, kept for review, or gone.

    \b
    Example:
      holon task worktrees
    """
    client = seat.client()
    listed = client.get(client.path(agent, "worktree-summary"))
    if seat.json:
        emit(listed)
        return
    rows = [
        (
            entry["task_id"],
            entry["task_status"],
            entry["worktree"]["cleanup_status"],
            str(entry["worktree"].get("changed_file_count", 0)),
            entry["worktree"]["worktree_path"],
        )
        for entry in listed["summary"]
    ]
    show_table(("task", "status", "worktree", "changed", "path"), rows, empty="no task has a worktree")


@app.command("remove-worktree")
@seated()
def remove_worktree(
    seat: Seat,
    task_id: TaskId,
    agent: Agent = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Also if something in it exists nowhere else: that is lost then.")
    ] = False,
) -> None:
    """Remove a worktree that was kept for review, with its branch, once its work is merged or given up.

    \b
    Example:
      holon task remove-worktree task_01J9ZK3V7Q
      holon task remove-worktree task_01J9ZK3V7Q --discard
    """
    client = seat.client()
    shown = client.post(client.control_path(agent, "tasks", task_id, "worktree", "remove"), {"discard": discard})
    worktree = shown["child_supervision"]["worktree"]
    path, branch = worktree["worktree_path"], worktree["worktree_branch"]
    if not worktree["auto_cleaned_up"]:
        refuse_kept(seat, path, branch, worktree.get("cleanup_reason"))
    seat.answer(shown, f"{path} and branch {branch} are removed")


def refuse_kept(seat: Seat, path: str, branch: str, reason: str | None) -> None:
    """A worktree that stays is no success to a person; a machine reads it in the answer."""
    if not seat.json:
        raise Conflict(f"{path} is kept: {reason}", hint=f"merge branch {branch}, or give it up with --discard")


def _worktree_fields(worktree: dict[str, Any] | None) -> list[tuple[str, str | None]]:
    if worktree is None:
        return []
    named, count = worktree.get("changed_files") or [], worktree.get("changed_file_count", 0)
    more = f" and {count - len(named[:10])} more" if count > len(named[:10]) else ""
    path, cleanup = worktree["worktree_path"], worktree["cleanup_status"]
    kept = worktree["retained_for_review"]
    return [
        ("worktree", path),
        ("branch", worktree["worktree_branch"]),
        ("cleanup", f"{cleanup}: {worktree.get('cleanup_reason')}" if kept else cleanup),
        ("changed", ", ".join(named[:10]) + more if named else None),
        ("review with", f"git -C {path} diff {worktree['base_commit'][:12]}" if kept else None),
    ]
