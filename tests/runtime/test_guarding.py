"""The guard of a repository's git folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holon.runtime.guarding import LOOK_S, GitGuard
from tests.runtime.conftest import Opens
from tests.runtime.living import soon


async def test_it_stays_though_the_command_is_not_on_record_yet(living: Opens, tmp_path: Path) -> None:
    life = await living()
    guard, common = GitGuard(life.host.store), tmp_path / "git"
    common.mkdir()
    guard.watch("main", common)
    await asyncio.sleep(3 * LOOK_S)
    (common / "commondir").write_text("elsewhere")
    await soon(lambda: not (common / "commondir").exists())
    await guard.close()
    (told,) = [event.payload for event in await life.events("repository_tampered")]
    assert told["path"] == str(common / "commondir")


async def test_a_last_look_needs_no_store_to_do_its_work(living: Opens, tmp_path: Path) -> None:
    """A disk that takes no writes, or a host that ends: whoever closes goes on."""
    life = await living()
    guard, common = GitGuard(life.host.store), tmp_path / "git"
    common.mkdir()
    guard.watch("main", common)
    await life.close()
    (common / "commondir").write_text("elsewhere")
    await guard.close()
    assert not (common / "commondir").exists()
