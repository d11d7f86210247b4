"""The write-ahead log, read from outside: how often SQLite committed."""

from __future__ import annotations

import struct
from pathlib import Path


def commits(database: Path) -> int:
    """Commits since the log began. Each ends with a frame that holds the size of the database after it."""
    content = Path(f"{database}-wal").read_bytes()
    if not content:
        return 0
    page_size, _, salt = struct.unpack(">II8s", content[8:24])
    count, offset = 0, 32
    while offset + 24 + page_size <= len(content):
        _, size_after, frame_salt = struct.unpack(">II8s", content[offset : offset + 16])
        if frame_salt != salt:  # a leftover of an earlier round of the log
            break
        count += size_after > 0
        offset += 24 + page_size
    return count
