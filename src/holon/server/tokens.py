"""Bearer tokens for callers over TCP: issued once, kept as hashes in `tokens.json` in the home, revoked by name.

The token of `HOLON_CONTROL_TOKEN` is no part of this file: whoever starts the server holds it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from holon.core.clock import SystemClock, moment
from holon.core.codec import InvalidJson, Record, dumps, loads
from holon.core.errors import Conflict, InvalidInput, InvalidSettings, NotFound

PREFIX = "holon_"
_RANDOM_BYTES = 32  # 256 bits
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class TokenRecord(Record, frozen=True, kw_only=True):
    """What is kept of a token. Its random bits are too many to guess, so that a plain hash is enough."""

    name: str
    sha256: str
    created_at: datetime


class _File(Record, frozen=True, kw_only=True):
    tokens: list[TokenRecord] = msgspec.field(default_factory=list)


def issue(home: Path, name: str) -> str:
    """Makes a token. This is the only time that it can be seen."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is no name for a token", hint="take 1 to 64 letters, digits, dots, dashes or underscores"
        )
    token = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    with _locked(home):
        known = listing(home)
        if any(record.name == name for record in known):
            raise Conflict(
                f"there is a token {name!r} already",
                hint=f"take another name, or revoke it first: 'holon config token revoke {name}'",
            )
        record = TokenRecord(name=name, sha256=digest(token), created_at=moment(SystemClock().now_ms()))
        _write(home, [*known, record])
    return token


def listing(home: Path) -> list[TokenRecord]:
    """The tokens by name. Nothing here helps anybody to use one."""
    try:
        return loads(_path(home).read_bytes(), _File).tokens
    except FileNotFoundError:
        return []
    except (OSError, InvalidJson) as error:
        raise InvalidSettings(
            f"{_path(home)} cannot be read ({error})", hint="move it aside and issue the tokens anew"
        ) from error


def revoke(home: Path, name: str) -> None:
    with _locked(home):
        known = listing(home)
        left = [record for record in known if record.name != name]
        if len(left) == len(known):
            raise NotFound(f"there is no token {name!r}", hint="'holon config token list' shows them all")
        _write(home, left)


def verify(home: Path, presented: str) -> bool:
    """Whether the token is one of the home's. Every known hash is compared, so that time tells nothing."""
    found = digest(presented).encode()
    matches = [hmac.compare_digest(found, known.encode()) for known in _hashes(home)]
    return any(matches)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


#: File -> (what it looked like, its hashes). A file that is replaced looks different: inode, size and time.
_cache: dict[Path, tuple[tuple[int, int, int], list[str]]] = {}


def _hashes(home: Path) -> list[str]:
    path = _path(home)
    try:
        stat = path.stat()
    except FileNotFoundError:
        _cache.pop(path, None)
        return []
    looks = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    cached = _cache.get(path)
    if cached is None or cached[0] != looks:
        cached = _cache[path] = (looks, [record.sha256 for record in listing(home)])
    return cached[1]


def _write(home: Path, records: list[TokenRecord]) -> None:
    path = _path(home)
    beside = path.with_suffix(".json.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(dumps(_File(tokens=records)))
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One writer at a time, also across processes."""
    from holon.store.homes import make_home  # only who writes needs it

    make_home(home)
    descriptor = os.open(home / "tokens.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _path(home: Path) -> Path:
    return home / "tokens.json"
