"""The demo is run as the README says, and its claims are read from its output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_demo_plays_to_its_end_and_loses_nothing(tmp_path: Path) -> None:
    played = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        | {"HOME": str(tmp_path)},
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    for said in (
        "Hello! I was asleep",
        "The timer woke me",
        "build 417 is red",
        "goes on as task_",
        "killed (process",
        "found again after a restart: running",
        "The slow check passed although the daemon was killed",
        "5 results for 5 turns",
        "stats.py | 2 +-",
        "came from the cache",
    ):
        assert said in played.stdout
