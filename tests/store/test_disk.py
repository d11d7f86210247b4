"""A disk that is full or read-only: the write is refused in words, nothing is lost, and it works again afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holon.core.errors import HomeUnusable, StoreUnavailable
from holon.core.event_kinds import ControlApplied
from holon.store import Store, Tx, agents
from tests.core.samples import identity, state
from tests.store.calls import write


def _can_mount() -> bool:
    """Whether this user may mount something that only a process of its own sees."""
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


needs_mount = pytest.mark.skipif(not _can_mount(), reason="needs the right to mount a small disk (root, unshare)")


def _in_own_mounts(script: str, program: str, folder: Path) -> dict[str, object]:
    """Runs the program where the mounts of the script hold; what it printed last."""
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f'{script}; exec "$0" -c "$1" "$2"', sys.executable, program, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder.parent,
    )
    assert ran.returncode == 0, ran.stderr
    result: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    return result


FULL = """
import json, sys
from pathlib import Path
from holon.core.errors import StoreUnavailable
from holon.store import Store

disk = Path(sys.argv[1])
store = Store(disk / "home" / "holon.sqlite3")
insert = "INSERT INTO idempotency VALUES ('t', ?, '', ?, 0)"
write = lambda key: store.write_now(lambda tx: tx.run(insert, key, "x" * 20_000))
write("before")
with open(disk / "ballast", "wb", buffering=0) as ballast:
    try:
        while ballast.write(b"x" * 4096):
            pass
    except OSError:
        pass
taken, refused = ["before"], []
for n in range(200):
    try:
        write(f"full {n}")
        taken.append(f"full {n}")
    except StoreUnavailable as error:
        refused.append(f"full {n}")
        said = str(error)
(disk / "ballast").unlink()
write("after")
taken.append("after")
store.close()
again = Store(disk / "home" / "holon.sqlite3")
found = again.read_now(lambda tx: [row[0] for row in tx.all("SELECT key FROM idempotency")])
sound = again.read_now(lambda tx: tx.one("PRAGMA integrity_check"))[0]
print(json.dumps({"same": sorted(found) == sorted(taken), "refused": len(refused), "said": said, "sound": sound}))
"""


@needs_mount
def test_a_disk_that_fills_up_refuses_writes_in_words_and_loses_nothing(tmp_path: Path):
    result = _in_own_mounts(f"mount -t tmpfs -o size=2m none {tmp_path}", FULL, tmp_path)
    assert result["refused"]
    assert "the disk did not take the write" in str(result["said"])
    assert "free some space" in str(result["said"])
    assert result["same"]
    assert result["sound"] == "ok"


def _limit(pages: int) -> Callable[[Tx], object]:
    """The same as a full disk, for one connection: SQLite may not add pages."""
    return lambda tx: tx.one(f"PRAGMA max_page_count = {pages}")


def _put(key: str, size: int) -> Callable[[Tx], str]:
    def write(tx: Tx) -> str:
        tx.emit("main", ControlApplied(action=key, surface="test"))
        tx.run("INSERT INTO idempotency VALUES ('test', ?, '', ?, 0)", key, "x" * size)
        return key

    return write


async def test_a_commit_that_does_not_fit_is_refused_whole_and_what_is_sent_again_is_taken(store: Store, path: Path):
    pages = await store.read(lambda tx: tx.one("PRAGMA page_count"))
    assert pages is not None
    await store.write(_put("before", 10))
    await store.write(_limit(pages[0] + 50))
    together = [_put("small", 10), _put("big", 400_000), _put("small too", 10)]
    results = await asyncio.gather(*(store.write(write) for write in together), return_exceptions=True)
    acknowledged = {result for result in results if isinstance(result, str)}
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, StoreUnavailable) and "free some space" in str(error) for error in refused)
    assert "big" not in acknowledged
    assert refused
    # What fits is taken while the disk is still full; the rest when there is space again.
    again = ({"small", "small too"} - acknowledged) | {"another"}
    for key in sorted(again):
        await store.write(_put(key, 10))
    with pytest.raises(StoreUnavailable):
        await store.write(_put("big", 400_000))
    await store.write(_limit(1_000_000))
    await store.write(_put("big", 400_000))
    expected = {"before", "small", "small too", "another", "big"}
    with closing(sqlite3.connect(path)) as connection:
        assert {row[0] for row in connection.execute("SELECT key FROM idempotency")} == expected
        numbers = [row[0] for row in connection.execute("SELECT seq FROM events WHERE agent_id = 'main' ORDER BY seq")]
        assert numbers == list(range(1, len(expected) + 1))
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_the_last_refused_write_is_remembered_until_the_disk_takes_one(store: Store):
    pages = await store.read(lambda tx: tx.one("PRAGMA page_count"))
    assert pages is not None
    found = [store.trouble]
    await store.write(_limit(pages[0] + 1))
    with pytest.raises(StoreUnavailable) as refused:
        await store.write(_put("big", 400_000))
    found.append(store.trouble)
    await store.write(lambda tx: tx.one("SELECT 1"))  # nothing was written: it says nothing of the disk
    found.append(store.trouble)
    await store.write(_limit(1_000_000))
    await store.try_again()
    found.append(store.trouble)
    with pytest.raises(ValueError, match="a bug"):
        await store.write(_fails)
    found.append(store.trouble)
    assert found == [None, refused.value, refused.value, None, None]


def _fails(tx: Tx) -> None:
    raise ValueError("a bug")


READ_ONLY = """
import json, sys
from pathlib import Path
from holon.core.errors import HolonError
from holon.store import Store
from holon.store.leases import HomeLock

said = []
for attempt in (
    lambda: Store(Path(sys.argv[1]) / "state" / "holon.sqlite3"),
    lambda: Store(Path(sys.argv[1]) / "elsewhere" / "holon.sqlite3"),
    lambda: HomeLock(Path(sys.argv[1]) / "run" / "holon.lock").acquire("serve"),
):
    try:
        attempt()
    except HolonError as error:
        said.append([error.code, error.hint])
print(json.dumps({"said": said}))
"""


@needs_mount
@pytest.mark.parametrize("existing", [True, False])
def test_a_home_on_a_read_only_disk_is_refused_with_what_to_do(tmp_path: Path, existing: bool):
    home = tmp_path / "home"
    home.mkdir()
    if existing:
        with closing(Store(home / "state" / "holon.sqlite3")) as store:
            write(store, agents.insert, identity(), state())
    script = f"mount --bind {home} {home}; mount -o remount,bind,ro {home}"
    said = _in_own_mounts(script, READ_ONLY, home)["said"]
    assert isinstance(said, list)
    assert [code for code, _ in said] == ["home_unusable"] * 3
    assert all("HOLON_HOME" in hint for _, hint in said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write whatever the permissions say")
def test_a_folder_without_permission_is_refused_with_what_to_do(tmp_path: Path):
    (tmp_path / "home").mkdir(mode=0o500)
    with pytest.raises(HomeUnusable, match="HOLON_HOME"):
        Store(tmp_path / "home" / "state" / "holon.sqlite3")


async def test_freed_pages_are_given_back_to_the_disk_in_slices(store: Store, path: Path):
    for n in range(12):
        await store.write(_put(str(n), 400_000))
    await store.write(lambda tx: tx.run("DELETE FROM idempotency"))
    left = [await store.give_back(pages=500)]
    while left[-1]:
        left.append(await store.give_back(pages=500))
    assert len(left) > 1
    assert left == sorted(left, reverse=True)
    store.close()
    assert (await asyncio.to_thread(path.stat)).st_size < 1_000_000
    with closing(Store(path)) as again:
        assert await again.give_back() == 0


async def test_a_file_that_cannot_shrink_is_left_alone(path: Path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE from_before (x TEXT)")
    with closing(Store(path)) as store:
        write(store, agents.insert, identity(), state())
        for n in range(4):
            await store.write(_put(str(n), 400_000))
        await store.write(lambda tx: tx.run("DELETE FROM idempotency"))
        assert await store.give_back() == 0
