"""Schema: brings a database up to this version, one numbered file after the other."""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache
from importlib import resources
from pathlib import Path

from holon.store import sqlite


@lru_cache(maxsize=1)
def migrations() -> tuple[tuple[int, str, str], ...]:
    """(number, name, SQL), in order."""
    files = sorted(f.name for f in resources.files("holon.store.migrations").iterdir() if f.name.endswith(".sql"))
    return tuple(
        (int(name[:4]), name[5:-4], (resources.files("holon.store.migrations") / name).read_text()) for name in files
    )


def migrate(connection: sqlite.Connection, path: Path, now_ms: int) -> int:
    """Applies what is missing and returns the version. A database of a newer version is left untouched."""
    known = known_version()
    if (found := _version(connection)) > known:
        raise sqlite.newer(path, found, known)
    for version, name, sql in migrations():
        if version <= found:
            continue
        connection.execute("BEGIN IMMEDIATE")
        if version <= _version(connection):  # another process was here between the look and the lock
            connection.execute("ROLLBACK")
            continue
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations"
            " (version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)"
        )
        for statement in sqlite.render(sql).split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("INSERT INTO schema_migrations VALUES (?, ?, ?)", (version, name, now_ms))
        connection.execute("COMMIT")
    return known


def known_version() -> int:
    """The newest version that this Holon can read."""
    return migrations()[-1][0]


def found_version(path: Path) -> int | None:
    """The version of a database, looked at and not touched; `None` if there is none yet."""
    if not path.exists():
        return None
    with closing(sqlite.connect(path, read_only=True)) as connection:
        try:
            return _version(connection)
        except sqlite.Error as error:
            raise sqlite.translate(error, path) from error


def _version(connection: sqlite.Connection) -> int:
    """What stands in the database; 0 for a fresh one."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone():
        return 0
    return int(connection.execute("SELECT COALESCE(MAX(version), 0) FROM schema_migrations").fetchone()[0])
