"""Batches of commands: the facts of each item, whatever happens to the others, and no more than there is room for."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holon.core.transcripts import TranscriptKind
from holon.tools.registry import CallContext
from tests.runtime.conftest import Opens
from tests.runtime.test_hands import call, script


def batch(*items: dict[str, Any], **more: Any) -> str:
    return script(call("ExecCommandBatch", items=[{"login": False, **item} for item in items], **more))


def printing(python: str) -> str:
    """A command that runs this much Python."""
    return f'{sys.executable} -c "{python}"'


async def receipt(life: Any) -> tuple[dict[str, Any], list[str]]:
    """What the model was told by the last batch: the head, and the lines below it."""
    head, *lines = (await content(life)).split("\n")
    return json.loads(head), lines


async def content(life: Any) -> str:
    entry = (await life.transcript(TranscriptKind.TOOL_RESULTS))[-1]
    text: str = entry.data["results"][0]["content"]
    return text


def timeless(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in item.items() if name != "duration_ms"} for item in items]


@pytest.mark.spec("RT-266", "RT-268", "RT-269", "RT-270", "RT-272")
async def test_each_item_is_told_with_all_its_facts_and_a_line_of_its_own(living: Opens) -> None:
    life = await living(
        batch(
            {"cmd": "echo one; echo two >&2"},
            {"cmd": "echo begun; sleep 9", "yield_time_ms": 200},
            {"cmd": "true", "workdir": "nowhere"},
            {"cmd": "exit 2"},
            {"cmd": "true"},
        )
    )
    await life.ask("go")
    head, lines = await receipt(life)
    items = head.pop("items")
    assert head == {
        "ok": True,
        "item_count": 5,
        "completed_count": 3,
        "failed_count": 1,
        "rejected_count": 1,
        "skipped_count": 0,
        "stop_on_error": False,
    }
    silent = {"stdout_preview": "", "stderr_preview": "", "truncated": False, "stdout_bytes": 0, "stderr_bytes": 0}
    assert items[2].pop("recovery_hint").startswith("name an existing folder inside ")
    assert timeless(items) == [
        {
            "index": 0,
            "status": "completed",
            "cmd": "echo one; echo two >&2",
            "exit_status": 0,
            **silent,
            "stdout_preview": "one\n",
            "stderr_preview": "two\n",
            "stdout_bytes": 4,
            "stderr_bytes": 4,
        },
        {
            "index": 1,
            "status": "failed",
            "cmd": "echo begun; sleep 9",
            "error_kind": "timeout",
            "error_message": "it had not ended after 200 ms (yield_time_ms) and was killed with all that it began",
            "recovery_hint": "run it with ExecCommand, which makes it a task, or give it a longer yield_time_ms",
            "exit_status": None,
            **silent,
            "stdout_preview": "begun\n",
            "stdout_bytes": 6,
            "ending": {"signal": 9, "stopped": "request", "forced": True},
        },
        {
            "index": 2,
            "status": "rejected",
            "cmd": "true",
            "error_kind": "execution_root_violation",
            "error_message": "workdir 'nowhere' is no folder",
        },
        {"index": 3, "status": "completed", "cmd": "exit 2", "exit_status": 2, **silent},
        {"index": 4, "status": "completed", "cmd": "true", "exit_status": 0, **silent},
    ]
    assert 200 <= items[1]["duration_ms"] < 9_000
    took = [item.get("duration_ms") for item in items]
    assert lines == [
        f"--- [0] completed: echo one; echo two >&2 (exit 0, {took[0]} ms)",
        f"--- [1] failed: echo begun; sleep 9 (timeout, {took[1]} ms)",
        "--- [2] rejected: true (execution_root_violation)",
        f"--- [3] completed: exit 2 (exit 2, {took[3]} ms)",
        f"--- [4] completed: true (exit 0, {took[4]} ms)",
    ]
    assert await life.tasks() == []


@pytest.mark.spec("RT-267")
@pytest.mark.parametrize("flag", ["tty", "accepts_input"])
async def test_an_item_has_no_terminal_and_takes_no_input(living: Opens, flag: str) -> None:
    life = await living(batch({"cmd": "touch ran", flag: True}))
    await life.ask("go")
    head, _ = await receipt(life)
    assert (head["ok"], head["kind"], head["field"]) == (False, "invalid_tool_input", flag)


@pytest.mark.spec("RT-266")
async def test_after_a_failure_the_rest_is_skipped_if_it_was_asked_for(living: Opens) -> None:
    life = await living(batch({"cmd": "true"}, {"cmd": "false"}, {"cmd": "touch ran"}, stop_on_error=True))
    await life.ask("go")
    head, lines = await receipt(life)
    assert head["items"][2] == {"index": 2, "status": "skipped", "cmd": "touch ran"}
    assert lines[2] == "--- [2] skipped: touch ran"


@pytest.mark.spec("RT-266", "RT-269")
async def test_an_item_may_remove_the_folder_that_it_runs_in(living: Opens) -> None:
    life = await living(
        batch({"cmd": "mkdir sub"}, {"cmd": "echo gone; rmdir ../sub", "workdir": "sub"}, {"cmd": "echo on"})
    )
    await life.ask("go")
    head, _ = await receipt(life)
    assert [item["stdout_preview"] for item in head["items"]] == ["", "gone\n", "on\n"]


@pytest.mark.spec("RT-266")
async def test_a_remark_on_commands_that_fails_takes_no_result_away(living: Opens) -> None:
    def fails(_context: CallContext, _done: Sequence[tuple[str, Path]]) -> None:
        raise OSError("a skill's folder cannot be read")

    life = await living(batch({"cmd": "echo one"}))
    life.host._hands.notice = fails
    await life.ask("go")
    head, _ = await receipt(life)
    assert head["items"][0]["stdout_preview"] == "one\n"


@pytest.mark.spec("RT-269")
async def test_what_is_cut_is_on_disk_and_what_is_shown_whole_is_not(living: Opens) -> None:
    life = await living(batch({"cmd": "seq 1 20000; echo oops >&2", "max_output_tokens": 50}, {"cmd": "echo all"}))
    await life.ask("go")
    long, short = (await receipt(life))[0]["items"]
    assert long["truncated"] is True
    paths = [entry["path"] for entry in long["artifacts"]]
    assert [os.path.basename(path) for path in paths] == ["output.log", "stdout.log", "stderr.log"]
    whole = await asyncio.to_thread(Path(paths[long["stdout_artifact"]]).read_bytes)
    assert len(whole) == long["stdout_bytes"] == 108_894
    assert await asyncio.to_thread(Path(paths[long["stderr_artifact"]]).read_bytes) == b"oops\n"
    assert len(long["stdout_preview"] + long["stderr_preview"]) <= 200
    assert "artifacts" not in short
    (kept,) = await asyncio.to_thread(lambda: list(Path(paths[0]).parent.parent.iterdir()))
    assert kept == Path(paths[0]).parent


@pytest.mark.spec("RT-256", "RT-269")
@pytest.mark.parametrize("text", ["'x'", "'\\\\n'", "chr(27)", "chr(0x1f600)"])
async def test_a_receipt_keeps_to_the_budget_however_its_output_is_written(living: Opens, text: str) -> None:
    """A line break takes two characters there, an escape six."""
    loud = {"cmd": printing(f"print({text} * 9000)"), "max_output_tokens": 9_000}
    life = await living(batch(*[loud] * 4), max_tool_output_tokens=2_000)
    await life.ask("go")
    assert 7_000 < len(await content(life)) <= 2_000 * 4
    items = (await receipt(life))[0]["items"]
    sizes = [len(json.dumps(item["stdout_preview"], ensure_ascii=False)) for item in items]
    assert min(sizes) > 0.5 * max(sizes)


@pytest.mark.spec("RT-256")
async def test_what_one_item_does_not_need_is_there_for_the_next(living: Opens) -> None:
    loud = {"cmd": printing("print('x' * 9000)"), "max_output_tokens": 9_000}
    life = await living(batch({"cmd": "true"}, {"cmd": "true"}, loud), max_tool_output_tokens=2_000)
    await life.ask("go")
    assert len((await receipt(life))[0]["items"][2]["stdout_preview"]) > 6_000


@pytest.mark.spec("RT-269")
async def test_a_huge_command_or_error_is_cut(living: Opens) -> None:
    life = await living(batch({"cmd": "true #" + "y" * 100_000}, {"cmd": "true", "workdir": "z" * 100_000}))
    await life.ask("go")
    head, lines = await receipt(life)
    assert head["items"][0]["cmd"] == f"true #{'y' * 194}… (100006 characters)"
    assert head["items"][1]["status"] == "rejected"
    assert len(await content(life)) < 3_000
    assert max(map(len, lines)) < 150


async def test_a_command_that_could_not_start_leaves_nothing(living: Opens, tmp_path: Path) -> None:
    life = await living(batch({"cmd": "x" * 3_000_000}, {"cmd": "echo on"}))
    await life.ask("go")
    long, on = (await receipt(life))[0]["items"]
    assert (long["status"], long["error_kind"]) == ("rejected", "command_spawn_failed")
    assert on["stdout_preview"] == "on\n"
    assert await life.tasks() == []
    assert await asyncio.to_thread(lambda: list(tmp_path.rglob("task-output/*"))) == []
