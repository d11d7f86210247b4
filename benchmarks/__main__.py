"""`python -m benchmarks [name …]`: measures, prints a table each, and writes JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report
from benchmarks.catalogue import NAMES, measure
from benchmarks.measures import Result, Scale
from benchmarks.processes import fresh


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(NAMES)}; all if none is named")
    parser.add_argument("--json", type=Path, default=report.LATEST, metavar="FILE", help="where the numbers go")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works; the numbers mean nothing")
    size.add_argument("--full", action="store_true", help="longer runs where time makes a difference")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}")
    scale = Scale.QUICK if given.quick else Scale.FULL if given.full else Scale.NORMAL
    results: dict[str, Result] = {}
    for name in given.names or NAMES:
        results[name] = fresh(measure, name, scale)
        print(report.table(name, results[name]), end="\n\n", flush=True)
    report.store(given.json, report.document(results, scale))
    print(f"written to {given.json}")


if __name__ == "__main__":
    main()
