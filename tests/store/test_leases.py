"""One process owns a home at a time: the lock keeps others off, the fence stops whoever lost it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holon.core.errors import Fenced, HomeBusy, HomeUnusable, StoreUnavailable
from holon.store import Store, Tx, agents, leases
from holon.store.leases import HomeLock
from tests.core.samples import identity, state
from tests.store.calls import read, write

HOLD = """
import subprocess, sys, time
from pathlib import Path
from holon.store.leases import HomeLock
lock = HomeLock(Path(sys.argv[1]))
lock.acquire("serve")
child = subprocess.Popen(["sleep", "60"]) if len(sys.argv) > 2 else None
print(child.pid if child else 0, flush=True)
time.sleep(60)
"""


@pytest.fixture
def lock_path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "run" / "holon.lock"


class Holder:
    """A real process that holds the lock."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path), *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.child_pid = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def holder(lock_path: Path) -> Iterator[Holder]:
    holder = Holder(lock_path)
    yield holder
    holder.kill()


def test_a_second_process_is_refused_and_told_who_has_the_home(lock_path: Path, holder: Holder):
    with pytest.raises(HomeBusy) as refused:
        HomeLock(lock_path).acquire("run")
    home = re.escape(str(lock_path.parent.parent))
    assert re.fullmatch(rf"{home} is in use by serve \(pid {holder.process.pid}\)", refused.value.message)
    assert refused.value.hint
    assert "HOLON_HOME" in refused.value.hint


def test_the_lock_is_free_at_once_when_its_holder_is_killed(lock_path: Path, holder: Holder):
    holder.kill()
    lock = HomeLock(lock_path)
    lock.acquire("run")
    assert lock_path.read_text() == f"run (pid {os.getpid()})"
    lock.release()


def test_what_the_holder_started_does_not_keep_the_lock_when_the_holder_is_gone(lock_path: Path):
    """Commands outlive the runtime; they must not lock the next one out."""
    holder = Holder(lock_path, "with a child")
    holder.kill()
    try:
        os.kill(holder.child_pid, 0)  # it lives
        lock = HomeLock(lock_path)
        lock.acquire("run")
        lock.release()
    finally:
        with suppress(ProcessLookupError):
            os.kill(holder.child_pid, signal.SIGKILL)


def test_a_lock_in_this_process_keeps_another_process_and_a_second_one_here_off(lock_path: Path):
    lock = HomeLock(lock_path)
    lock.acquire("serve")
    program = (
        "import sys; from pathlib import Path; from holon.store.leases import HomeLock\n"
        "HomeLock(Path(sys.argv[1])).acquire('run')"
    )
    refused = subprocess.run(
        [sys.executable, "-c", program, str(lock_path)], capture_output=True, text=True, check=False
    )
    assert f"HomeBusy: {lock_path.parent.parent} is in use by serve (pid {os.getpid()})" in refused.stderr
    with pytest.raises(HomeBusy):
        HomeLock(lock_path).acquire("run")
    lock.release()
    lock.release()
    assert subprocess.run([sys.executable, "-c", program, str(lock_path)], check=False).returncode == 0


def test_a_refused_process_leaves_the_owners_name_in_place(lock_path: Path, holder: Holder):
    before = lock_path.read_text()
    with pytest.raises(HomeBusy):
        HomeLock(lock_path).acquire("run")
    assert lock_path.read_text() == before == f"serve (pid {holder.process.pid})"


def test_a_lock_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(HomeUnusable, match=r"cannot be opened.*HOLON_HOME"):
        HomeLock(tmp_path / "home" / "run" / "holon.lock").acquire("serve")


def _take(store: Store, owner: str) -> int:
    fence = write(store, leases.take, leases.HOME, owner)
    store.fence_with(leases.HOME, fence)
    return fence


def _insert(agent_id: str) -> Callable[[Tx], None]:
    return lambda tx: agents.insert(tx, identity(agent_id), state(agent_id))


def test_whoever_lost_the_lease_can_no_longer_write_but_can_read(path: Path):
    with closing(Store(path)) as first, closing(Store(path)) as second:
        assert _take(first, "first") == 1
        first.write_now(_insert("a"))
        assert _take(second, "second") == 2
        for _ in range(2):
            with pytest.raises(Fenced, match=r"lease 2, ours was 1.*must end"):
                first.write_now(_insert("b"))
        second.write_now(_insert("c"))
        for store in (first, second):
            assert [one.identity.agent_id for one in read(store, agents.listing)] == ["a", "c"]


def test_the_fence_rises_with_every_owner_also_after_a_restart(path: Path):
    for expected in (1, 2, 3):
        with closing(Store(path)) as store:
            assert _take(store, f"owner {expected}") == expected


def test_a_lease_that_is_gone_fences_too(path: Path):
    with closing(Store(path)) as first, closing(Store(path)) as second:
        _take(first, "first")
        second.write_now(lambda tx: tx.run("DELETE FROM leases"))
        with pytest.raises(Fenced, match="lease gone"):
            first.write_now(_insert("b"))


def test_a_process_that_was_stopped_and_goes_on_after_another_took_over_writes_nothing(path: Path):
    """The case that the lock cannot see: the old owner is frozen, loses its home, and wakes up in the middle of it."""
    program = """
import sys, time
from pathlib import Path
from holon.core.errors import Fenced
from holon.store import Store, leases
store = Store(Path(sys.argv[1]))
fence = store.write_now(lambda tx: leases.take(tx, leases.HOME, "old"))
store.fence_with(leases.HOME, fence)
written = 0
try:
    while True:
        store.write_now(lambda tx: tx.run("INSERT INTO idempotency VALUES ('old', ?, '', '', 0)", str(written)))
        written += 1
        print(written, flush=True)
        time.sleep(0.001)
except Fenced:
    print("fenced", flush=True)
"""
    old = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert old.stdout is not None
    try:
        assert old.stdout.readline() == "1\n"
        old.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while Path(f"/proc/{old.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            assert time.monotonic() < deadline
        with closing(Store(path)) as new:
            while True:
                try:  # it may have been stopped while it held the write lock
                    _take(new, "new")
                    break
                except StoreUnavailable:
                    old.send_signal(signal.SIGCONT)
                    time.sleep(0.01)
                    old.send_signal(signal.SIGSTOP)
                    assert time.monotonic() < deadline
            count = "SELECT COUNT(*) FROM idempotency"
            before = new.read_now(lambda tx: tx.one(count))
            old.send_signal(signal.SIGCONT)
            said, _ = old.communicate(timeout=30)
            assert said.splitlines()[-1] == "fenced"
            assert new.read_now(lambda tx: tx.one(count)) == before
    finally:
        old.kill()
        old.wait(30)
