"""A real zygote, real runners and real commands, in a folder that is gone afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holon.tasks.commands import CommandRunner
from tests.tasks.workshop import Workshop


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    async with CommandRunner(tmp_path / "run") as runner:
        shop = Workshop(tmp_path, runner)
        yield shop
        await shop.close()
