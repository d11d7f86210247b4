"""The checks of the crash tests can fail: each of them notices a home that was tampered with."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.campaign import run_to_rest
from tests.crash.deeds import tour
from tests.crash.invariants import ALWAYS, AT_REST, broken
from tests.crash.outside import REPOSITORY, Outside
from tests.crash.remains import read_remains
from tests.crash.worker import IMPATIENT_MS, Job

Tampering = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound_home(tmp_path_factory, nursery):
    home = tmp_path_factory.mktemp("sound") / "home"
    job = Job(home=str(home), deeds=tour(), stall_ms=IMPATIENT_MS, kill_at="tool.done:before:3")
    nursery.start(job).wait()
    nursery.start(Job(home=str(home), deeds=tour(), stall_ms=IMPATIENT_MS)).wait()
    run_to_rest(nursery, home)
    assert broken(read_remains(home), at_rest=True) == []
    return home


def sql(*statements: str) -> Tampering:
    def tamper(home: Path) -> None:
        with closing(sqlite3.connect(home / "state" / "holon.sqlite3", isolation_level=None)) as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount != 0, f"there was nothing to tamper with: {statement}"

    return tamper


def repeat_a_call(home: Path) -> None:
    outside = Outside(Job(home=str(home)).outside)
    outside.stamp(outside.stamps()[0].call_id)


def repeat_a_command(home: Path) -> None:
    book = Job(home=str(home)).outside / "commands"
    book.write_text(book.read_text() * 2)


def forget_a_command(home: Path) -> None:
    (Job(home=str(home)).outside / "commands").unlink()


def leave_a_worktree(home: Path) -> None:
    (Job(home=str(home)).outside / f".holon-worktrees-{REPOSITORY}" / "holon-task_nobodys").mkdir(parents=True)


def lose_a_worktree(home: Path) -> None:
    shutil.rmtree(Job(home=str(home)).outside / f".holon-worktrees-{REPOSITORY}")


def damage(home: Path) -> None:
    """Puts a null where the schema allows none."""
    strict, lax = "fingerprint TEXT NOT NULL", "fingerprint TEXT"
    for before, after in ((strict, lax), (lax, strict)):
        with closing(sqlite3.connect(home / "state" / "holon.sqlite3", isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'idempotency'", (before, after)
            )
        if after == lax:
            sql("INSERT INTO idempotency (scope, key, result, created_at) VALUES ('x', 'x', 'x', 0)")(home)


PROMPT = "SELECT id FROM messages WHERE envelope LIKE '%operator_prompt%' LIMIT 1"
FOLLOW_UP = "SELECT id FROM messages WHERE envelope LIKE '%self_followup%' LIMIT 1"
TASK_RESULT = "SELECT id FROM messages WHERE envelope LIKE '%command_task%' AND envelope LIKE '%task_result%' LIMIT 1"
SLEEP_TICK = "SELECT id FROM messages WHERE envelope LIKE '%sleep_job%' LIMIT 1"


def without(message: str) -> Tampering:
    return sql(f"DELETE FROM queue WHERE message_id = ({message})", f"DELETE FROM messages WHERE id = ({message})")


TAMPERINGS: list[tuple[str, Tampering]] = [
    ("database_is_sound", damage),
    ("acknowledged_is_durable", without(PROMPT)),
    (
        "acknowledged_is_durable",
        sql(f"UPDATE messages SET envelope = json_set(envelope, '$.priority', 'next') WHERE id = ({PROMPT})"),
    ),
    ("messages_have_one_place", sql(f"DELETE FROM queue WHERE message_id = ({PROMPT})")),
    ("pending_is_counted", sql("UPDATE counters SET pending = 1 WHERE scope = 'main'")),
    ("claims_have_owners", sql(f"UPDATE queue SET status = 'dequeued' WHERE message_id = ({PROMPT})")),
    ("turns_end_once", sql("UPDATE turns SET phase = 'round_begun' WHERE turn_index = 1 AND agent_id = 'main'")),
    ("turns_end_once", sql("UPDATE events SET turn_id = 'other' WHERE kind = 'turn_terminal' AND agent_id = 'ada'")),
    ("operators_are_answered_once", sql("DELETE FROM briefs WHERE id = (SELECT id FROM briefs WHERE kind = 'result')")),
    ("operators_are_answered_once", sql("DELETE FROM briefs WHERE kind = 'ack'")),
    ("tools_run_once", repeat_a_call),
    ("effects_happen_once", without(FOLLOW_UP)),
    ("commands_run_once", repeat_a_command),
    ("commands_run_once", forget_a_command),
    ("promoted_commands_are_tasks", sql("DELETE FROM tasks WHERE kind = 'command_task'")),
    ("tasks_end_once", without(TASK_RESULT)),
    ("tasks_end_once", sql("UPDATE tasks SET status = 'running' WHERE kind = 'command_task'")),
    (
        "tasks_end_once",
        sql("UPDATE events SET payload = json_set(payload, '$.status', 'x') WHERE kind = 'task_status_updated'"),
    ),
    ("children_belong_to_tasks", sql("DELETE FROM tasks WHERE kind = 'child_agent_task'")),
    ("children_belong_to_tasks", sql("UPDATE agents SET registry_status = 'active' WHERE id LIKE 'tmp_child%'")),
    ("worktrees_have_owners", leave_a_worktree),
    (
        "worktrees_have_owners",
        sql(
            "UPDATE tasks SET record = json_remove(record, '$.detail.worktree.cleanup_status')"
            " WHERE record LIKE '%worktree_path%'"
        ),
    ),
    ("worktrees_are_cleared_or_kept", lose_a_worktree),
    ("events_have_no_gaps", sql("DELETE FROM events WHERE agent_id = 'main' AND seq = 3")),
    ("events_have_no_gaps", sql("UPDATE counters SET event_seq = event_seq + 1 WHERE scope = 'ada'")),
    ("transcript_is_whole", sql("DELETE FROM transcript WHERE agent_id = 'main' AND kind = 'tool_results'")),
    (
        "transcript_is_whole",
        sql("UPDATE transcript SET data = json_remove(data, '$.results[0]') WHERE kind = 'tool_results'"),
    ),
    (
        "rounds_are_counted_once",
        sql("UPDATE agents SET state = json_set(state, '$.total_model_rounds', 99) WHERE id = 'main'"),
    ),
    ("attempts_are_counted", sql(f"UPDATE queue SET attempt = attempt + 1 WHERE message_id = ({PROMPT})")),
    ("timers_fire_once", sql("UPDATE timers SET record = json_set(record, '$.fire_count', 7)")),
    (
        "timers_fire_once",
        sql("UPDATE events SET payload = json_set(payload, '$.tick_queued', 0) WHERE kind = 'timer_fired'"),
    ),
    ("sleeps_end_once", without(SLEEP_TICK)),
    (
        "hints_are_kept",
        sql(
            "UPDATE messages SET envelope = json_set(envelope, '$.body.value.wake_hints', json('[]'))"
            " WHERE envelope LIKE '%wake_hints%'"
        ),
    ),
    ("deliveries_are_counted", sql("UPDATE triggers SET record = json_set(record, '$.delivery_count', 9)")),
    ("keyed_deeds_happen_once", sql("DELETE FROM timers WHERE id = (SELECT id FROM timers)")),
    ("everything_is_settled", sql(f"UPDATE queue SET status = 'queued' WHERE message_id = ({PROMPT})")),
    ("nobody_is_left_running", sql("UPDATE agents SET status = 'awake_running' WHERE id = 'ada'")),
    ("begun_calls_have_an_end", sql("UPDATE tool_calls SET status = 'begun' WHERE status = 'interrupted'")),
    (
        "agents_went_through_all_turns",
        sql("UPDATE turns SET turn_index = 50 WHERE turn_index = 1 AND agent_id = 'ada'"),
    ),
]


@pytest.mark.parametrize(("check", "tamper"), TAMPERINGS, ids=[name for name, _ in TAMPERINGS])
def test_a_check_notices_what_it_is_for(check, tamper, sound_home, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(sound_home, home, ignore=shutil.ignore_patterns("control"))  # sockets cannot be copied
    shutil.copytree(Job(home=str(sound_home)).outside, Job(home=str(home)).outside)
    assert broken(read_remains(home), at_rest=True) == []
    tamper(home)
    assert check in {words.partition(":")[0] for words in broken(read_remains(home), at_rest=True)}


def test_no_check_is_without_its_proof():
    assert {name for name, _ in TAMPERINGS} == {check.__name__ for check in (*ALWAYS, *AT_REST)}
