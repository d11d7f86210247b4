"""The demo is run as the README says, and its claims are read from its output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_demo_plays_to_its_end_and_loses_nothing() -> None:
    played = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    for said in (
        "Hello! I was asleep",
        "The timer woke me",
        "build 417 has changed",
        "goes on after a restart",
        "My note came back to me, exactly once",
        "5 results for 5 turns",
    ):
        assert said in played.stdout
