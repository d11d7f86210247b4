"""Keeping: temporary agents leave nothing on disk, and nothing beside their folders is touched."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holon.core.agents import AgentKind, RegistryStatus, Visibility
from holon.core.clock import ManualClock, moment
from holon.core.ids import new_id
from holon.core.retention import RetentionPolicy
from holon.runtime.keeping import Keeping, clear_homes
from holon.store import Store, agents
from tests.core.samples import identity, state

DAY_MS = 86_400_000


def home_of(agents_dir: Path, agent_id: str) -> Path:
    home = agents_dir / agent_id
    (home / "memory" / "deep").mkdir(parents=True)
    (home / "AGENTS.md").write_text("be brief")
    (home / "memory" / "deep" / "note.md").write_text("a note")
    return home


async def test_a_pass_removes_an_archived_temporary_agent_with_its_folder_and_the_dry_run_counts_both(tmp_path: Path):
    clock, agents_dir = ManualClock(), tmp_path / "agents"
    store = Store(tmp_path / "holon.sqlite3", clock=clock)
    try:
        agent_id = new_id("tmp_run", clock.now_ms())
        who = msgspec.structs.replace(
            identity(agent_id, kind=AgentKind.CHILD, visibility=Visibility.PRIVATE),
            status=RegistryStatus.ARCHIVED,
            archived_at=moment(clock.now_ms()),
        )
        await store.write(lambda tx: agents.insert(tx, who, state(agent_id)))
        await store.write(lambda tx: agents.insert(tx, identity("main"), state("main")))
        gone, stays = home_of(agents_dir, agent_id), home_of(agents_dir, "main")
        clock.move(31 * DAY_MS)
        keeping = Keeping(store, RetentionPolicy(), agents_dir)
        planned = {cut.family.value: cut.rows for cut in (await keeping.plan()).families if cut.rows}
        assert planned == {"agents": 1, "homes": 1}
        assert gone.exists()
        assert await keeping.apply() == planned
        assert not gone.exists()
        assert (stays / "memory" / "deep" / "note.md").read_text() == "a note"
        assert await store.read(lambda tx: agents.get(tx, agent_id)) is None
    finally:
        store.close()


def test_links_are_removed_and_never_followed(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("keep me")
    agents_dir = tmp_path / "agents"
    home = home_of(agents_dir, "tmp_run_1")
    (home / "to-folder").symlink_to(outside)
    (home / "to-file").symlink_to(outside / "precious")
    (home / "loop").symlink_to(home)
    (agents_dir / "tmp_child_2").symlink_to(outside)
    assert clear_homes(agents_dir, ["tmp_run_1", "tmp_child_2"]) == (["tmp_run_1", "tmp_child_2"], 2)
    assert list(agents_dir.iterdir()) == []
    assert (outside / "precious").read_text() == "keep me"


@pytest.mark.parametrize("name", ["main", "..", ".", "", "tmp_run_1/../main", "../tmp_run_1", "tmp_run_", "tmp_x_1"])
def test_only_the_folder_of_a_temporary_agent_is_ever_removed(tmp_path: Path, name: str):
    agents_dir = tmp_path / "agents"
    home_of(agents_dir, "main")
    home_of(agents_dir, "tmp_run_1")
    assert clear_homes(agents_dir, [name]) == ([], 0)
    assert (agents_dir / "main" / "AGENTS.md").exists()
    assert (agents_dir / "tmp_run_1" / "AGENTS.md").exists()


def test_a_big_home_goes_over_several_passes_and_its_agent_stays_until_then(tmp_path: Path):
    agents_dir = tmp_path / "agents"
    home = home_of(agents_dir, "tmp_run_1")
    for number in range(50):
        (home / f"{number}.txt").write_text("x")
    assert clear_homes(agents_dir, ["tmp_run_1"], most=30) == ([], 0)
    assert home.exists()
    assert clear_homes(agents_dir, ["tmp_run_1"], most=30) == (["tmp_run_1"], 1)


def test_an_agent_whose_folder_is_gone_already_can_go(tmp_path: Path):
    assert clear_homes(tmp_path / "agents", ["tmp_run_1"]) == (["tmp_run_1"], 0)
