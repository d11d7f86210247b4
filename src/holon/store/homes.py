"""Homes: the folder of a Holon. What agents know and are told is in it, so it is made for its owner alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def make_home(home: Path) -> None:
    """Makes the home if it is not there. One that somebody has made, or opened to others, stays as it is."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
