"""A real store on a real disk, with a clock that tests move by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holon.core.clock import ManualClock
from holon.store import Store, agents
from tests.core.samples import identity, state
from tests.store.calls import write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "holon.sqlite3"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(path: Path, clock: ManualClock) -> Iterator[Store]:
    """A store with the agents `main` and `other`."""
    opened = Store(path, clock=clock)
    for agent_id in ("main", "other"):
        write(opened, agents.insert, identity(agent_id), state(agent_id))
    yield opened
    opened.close()
