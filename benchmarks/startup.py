"""Start-up: how long a person waits for the command itself."""

from __future__ import annotations

import sys

from benchmarks import homes
from benchmarks.measures import Measure, Result, Scale, middle
from benchmarks.processes import holon_command, seconds_of, seconds_until_ready
from benchmarks.progress import Progress

LIMIT_VERSION_MS = 100
LIMIT_SERVE_MS = 1_000
#: Runs of `--version`, and of `serve`.
SIZES = {Scale.QUICK: (2, 1), Scale.NORMAL: (31, 15), Scale.FULL: (101, 51)}


def measure(scale: Scale, progress: Progress) -> Result:
    versions, serves = SIZES[scale]
    version, ready, python = [], [], []
    for number in range(versions):
        progress.say(f"'holon --version', {number + 1} of {versions}")
        python.append(seconds_of([sys.executable, "-c", "pass"]))
        version.append(seconds_of([*holon_command(), "--version"]))
    for number in range(serves):
        progress.say(f"'holon serve', {number + 1} of {serves}")
        with homes.scratch() as home:
            ready.append(seconds_until_ready(home))
    return Result(
        measures=[
            Measure(
                what="'holon --version'",
                unit="ms",
                ours=middle(version) * 1000,
                baseline=middle(python) * 1000,
                baseline_is="'python -c pass'",
                limit=LIMIT_VERSION_MS,
                limit_is="from the command to its end",
            ),
            Measure(
                what="'holon serve' ready",
                unit="ms",
                ours=middle(ready) * 1000,
                baseline=middle(python) * 1000,
                baseline_is="'python -c pass'",
                limit=LIMIT_SERVE_MS,
                limit_is="from the command to its ready line, in an empty home",
            ),
        ],
        details={
            "command": " ".join(holon_command()[1:]) or "holon",
            "slowest_version_ms": round(max(version) * 1000),
            "slowest_serve_ms": round(max(ready) * 1000),
        },
    )
