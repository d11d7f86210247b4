"""The SQLite driver: connections with the right settings, and its errors in our words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from holon.core.errors import HolonError, HomeUnusable, NewerDatabase, StoreMisused, StoreUnavailable
from holon.store.transaction import Tx

CLUSTERED = "WITHOUT ROWID"
BUSY_MS = 5_000

_PAGE_BYTES = 4_096
#: What a row takes beside its text: keys, times, and its share of a page that is never quite full.
_ROW_BYTES = 160

_READER = (f"busy_timeout = {BUSY_MS}", "temp_store = MEMORY", "cache_size = -16000")
_WRITER = (
    *_READER,
    "journal_mode = WAL",
    "synchronous = FULL",
    "journal_size_limit = 67108864",
)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection of its own: WAL, and a commit that is on disk when it returns."""
    connection = None
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        if not read_only and connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # a fresh file: freed pages can be given back
        for setting in _READER if read_only else _WRITER:
            connection.execute(f"PRAGMA {setting}")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise translate(error, path) from error
    return connection


def render(sql: str) -> str:
    return sql.replace("{clustered}", CLUSTERED)


def size_bytes(tx: Tx) -> int:
    """What the records take, without pages that were freed."""
    return (_pragma(tx, "page_count") - _pragma(tx, "freelist_count")) * _pragma(tx, "page_size")


def row_bytes(text: int) -> int:
    """What a row takes whose text has this length: beyond a quarter of a page, text goes to pages of its own."""
    inline = text + _ROW_BYTES
    return inline if inline <= _PAGE_BYTES // 4 else _ROW_BYTES + _PAGE_BYTES * -(-text // _PAGE_BYTES)


def spare_pages(tx: Tx) -> int:
    """Freed pages beyond a tenth of the file: the tenth is kept, because new records will soon want it."""
    return max(0, _pragma(tx, "freelist_count") - _pragma(tx, "page_count") // 10)


def give_back(connection: sqlite3.Connection, pages: int) -> None:
    """Cuts up to this many freed pages off the end of the file. Outside a transaction: it is one of its own."""
    # As a script: `execute` would take only the first step of the statement, which frees a single page.
    connection.executescript(f"PRAGMA incremental_vacuum({pages})")


def translate(error: sqlite3.Error, path: Path) -> HolonError:
    """The error in our words. What it is says SQLite's code; the words are for people."""
    words = str(error)
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the low byte is the kind, above it is the detail
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return HomeUnusable(
                f"the database {path} cannot be written ({words})",
                hint="check the owner and permissions of HOLON_HOME, or set HOLON_HOME to a folder that you may write",
            )
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return StoreUnavailable(
                f"the disk did not take the write ({words}); nothing of it was kept",
                hint="free some space on the disk of HOLON_HOME and send it again",
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return HomeUnusable(
                f"{path} is not a readable Holon database ({words})",
                hint="restore it from a backup, or move it aside and start anew",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailable(
                f"another process holds the database {path} ({words})", hint="end that process, then send it again"
            )
        case 0 | sqlite3.SQLITE_ERROR | sqlite3.SQLITE_CONSTRAINT | sqlite3.SQLITE_MISMATCH | sqlite3.SQLITE_RANGE:
            return StoreMisused(f"the database refused a statement ({words})", hint="this is a bug in Holon: report it")
    return StoreUnavailable(f"the database did not take a statement ({words})", hint="see the log, then send it again")


def _pragma(tx: Tx, name: str) -> int:
    row = tx.one(f"PRAGMA {name}")
    assert row is not None
    return int(row[0])


def newer(path: Path, found: int, known: int) -> NewerDatabase:
    return NewerDatabase(
        f"the database {path} has schema {found}, this Holon knows {known}",
        hint="run the newer Holon that wrote it; nothing was changed",
    )


Error = sqlite3.Error
Connection = sqlite3.Connection
