"""Fixtures: hosts on one home, opened as often as a test likes and closed when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from holon.core.clock import Clock, ManualClock
from holon.tools.registry import Tool
from tests.runtime.living import Living

ECHO = "rules: []"


class Opens(Protocol):
    async def __call__(
        self,
        script: str = ECHO,
        *,
        home: Path | None = None,
        clock: Clock | None = None,
        tools: Sequence[Tool] = (),
        booted: bool = True,
        **settings: Any,
    ) -> Living: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For projects: what is in the Holon's home cannot be a workspace, and the test's own folder is that home."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture
async def living(tmp_path: Path) -> AsyncIterator[Opens]:
    """Opens a host on the test's home; `main` is at rest when it returns, unless the test asks not to wait."""
    opened: list[Living] = []

    async def open_(
        script: str = ECHO,
        *,
        home: Path | None = None,
        clock: Clock | None = None,
        tools: Sequence[Tool] = (),
        booted: bool = True,
        **settings: Any,
    ) -> Living:
        life = await Living.open(home or tmp_path, script, clock=clock, tools=tools, **settings)
        opened.append(life)
        if booted:
            await life.at_rest(None)
        return life

    yield open_
    for life in reversed(opened):
        await life.close()
