"""The catalogue: which benchmarks there are. Each is a module of this name with a `measure`."""

from __future__ import annotations

import importlib

from benchmarks.measures import Result, Scale
from benchmarks.progress import Progress

NAMES = ("admission", "turn", "sleepers", "startup", "restart", "context", "skills", "commands", "worktrees")


def measure(name: str, scale: Scale) -> Result:
    """One benchmark, in this process."""
    progress = Progress(name)
    try:
        result: Result = importlib.import_module(f"benchmarks.{name}").measure(scale, progress)
    finally:
        progress.done()
    return result
