"""Migrations: a fresh home gets the schema, a known one is left alone, a newer one is refused untouched."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holon.core.errors import HomeUnusable, NewerDatabase
from holon.store import Store, agents
from holon.store.schema import migrations
from tests.core.samples import identity, state
from tests.store.calls import read, write


def _applied(path: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute("SELECT version, name FROM schema_migrations ORDER BY version"))


def test_a_fresh_home_gets_every_migration_once(path: Path):
    for _ in range(3):
        with closing(Store(path)) as store:
            assert store.version == migrations()[-1][0]
    assert _applied(path) == [(version, name) for version, name, _ in migrations()]


def test_migrations_are_numbered_without_gaps():
    assert [version for version, _, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_what_was_stored_is_there_after_opening_again(path: Path):
    with closing(Store(path)) as store:
        write(store, agents.insert, identity(), state())
    with closing(Store(path)) as store:
        stored = read(store, agents.get, "main")
    assert stored is not None
    assert (stored.identity, stored.state) == (identity(), state())


def test_a_newer_database_is_refused_and_left_as_it_was(path: Path):
    with closing(Store(path)):
        pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO schema_migrations VALUES (999, 'from_the_future', 0)")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(NewerDatabase, match=r"has schema 999, this Holon knows \d+.*nothing was changed"):
        Store(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert _applied(path)[-1] == (999, "from_the_future")


def test_a_migration_that_was_cut_off_by_a_crash_is_done_again_from_its_start(path: Path):
    """The process dies with half of the schema written and nothing committed."""
    program = (
        "import os, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from holon.store import sqlite\n"
        "Path(sys.argv[1]).parent.mkdir(parents=True)\n"
        "connection = sqlite.connect(Path(sys.argv[1]))\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('CREATE TABLE agents (half TEXT)')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -9
    with closing(Store(path)) as store:
        write(store, agents.insert, identity(), state())


def test_processes_that_open_a_fresh_home_together_all_find_the_schema(path: Path):
    program = "import sys; from pathlib import Path; from holon.store import Store; Store(Path(sys.argv[1])).close()"
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in running] == [("", 0)] * 4
    assert _applied(path) == [(version, name) for version, name, _ in migrations()]


def test_a_file_that_is_not_a_database_is_refused_and_left_as_it_was(path: Path):
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is a shopping list, not a database\n" * 200)
    with pytest.raises(HomeUnusable, match=r"is not a readable Holon database.*move it aside"):
        Store(path)
    assert path.read_bytes() == b"this is a shopping list, not a database\n" * 200


def test_a_damaged_database_is_refused(path: Path):
    with closing(Store(path)) as store:
        write(store, agents.insert, identity(), state())
    content = bytearray(path.read_bytes())
    content[100:4_096] = b"\xff" * 3_996  # the page of the schema
    path.write_bytes(content)
    with pytest.raises(HomeUnusable, match="is not a readable Holon database"):
        Store(path)


@pytest.mark.parametrize("blocked", ["state", "."])
def test_a_file_where_a_folder_should_be_is_refused_with_what_to_do(tmp_path: Path, blocked: str):
    home = tmp_path / "home"
    (home / blocked).parent.mkdir(parents=True, exist_ok=True)
    (home / blocked).write_text("not a folder")
    with pytest.raises(HomeUnusable, match=r"cannot be made.*HOLON_HOME"):
        Store(home / "state" / "holon.sqlite3")


def test_a_folder_where_the_database_should_be_is_refused(path: Path):
    path.mkdir(parents=True)
    with pytest.raises(HomeUnusable, match=r"cannot be written.*HOLON_HOME"):
        Store(path)


def test_the_folder_of_the_database_is_for_its_owner_only(path: Path):
    with closing(Store(path)):
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_path_with_characters_that_mean_something_in_a_url_is_only_a_path(tmp_path: Path):
    path = tmp_path / "a home? 100% #1 & ünïcode" / "holon.sqlite3"
    with closing(Store(path)) as store:
        write(store, agents.insert, identity(), state())
        assert read(store, agents.get, "main") is not None
    assert path.exists()
