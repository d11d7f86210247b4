"""Fixtures: a home, and a server on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.harness import Running, running, short_home


@pytest.fixture
def home() -> Iterator[Path]:
    with short_home() as folder:
        yield folder


@pytest.fixture
def server(home: Path) -> Iterator[Running]:
    with running(home) as live:
        yield live
