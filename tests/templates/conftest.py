"""Fixtures: a user's home, a GitHub without a network, and hosts as the runtime's tests have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.conftest import living  # noqa: F401  (a fixture)
from tests.templates.making import GitHub


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def github(tmp_path: Path, user_home: Path) -> GitHub:
    return GitHub(tmp_path / "github", user_home)
