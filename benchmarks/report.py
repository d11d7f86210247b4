"""Reports: results as a table for people, as JSON for machines, and as the table in docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measures import Measure, Result, Scale

ROOT = Path(__file__).resolve().parent
LATEST = ROOT / "results" / "latest.json"
REFERENCE = ROOT / "results" / "reference.json"
PAGE = ROOT.parent / "docs" / "benchmarks.md"

_HEAD = ("measure", "Holon", "baseline", "ratio", "limit", "")
BEGIN, END = "<!-- table: python -m benchmarks.report -->", "<!-- end of table -->"


def document(results: dict[str, Result], scale: Scale) -> dict[str, Any]:
    """Everything that a later reader needs to compare."""
    return {
        "taken_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "scale": str(scale),
        "machine": machine(),
        "benchmarks": {
            name: {"measures": [_plain(measure) for measure in result.measures], "details": result.details}
            for name, result in results.items()
        },
    }


def machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        #: Busy neighbours make times longer; ratios stand it better.
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def table(name: str, result: Result) -> str:
    """Plain text, in columns."""
    rows = [_HEAD, *(_row(_plain(measure)) for measure in result.measures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"  {measure.what}: baseline is {measure.baseline_is}" for measure in result.measures]
    return "\n".join([name, *(f"  {line}" for line in lines), *notes])


def markdown(found: dict[str, Any]) -> str:
    """The tables of the page, from a stored document."""
    about = found["machine"]
    lines = [
        f"Taken {found['taken_at']} on {about['system']}, {about['cpus']} CPUs, Python {about['python']},"
        f" SQLite {about['sqlite']}, load {about['load_average'][0]}."
    ]
    for name, benchmark in found["benchmarks"].items():
        lines += [
            "",
            f"### {name}",
            "",
            "| measure | Holon | baseline | ratio | limit | |",
            "|---|---|---|---|---|---|",
        ]
        for plain in benchmark["measures"]:
            what, ours, baseline, *rest = _row(plain)
            beside = f"{baseline} ({plain['baseline_is']})"
            lines.append(f"| {' | '.join([what, ours, beside, *rest])} |")
    return "\n".join(lines)


def page(text: str, found: dict[str, Any]) -> str:
    """The page with its table made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{markdown(found)}\n{END}{after}"


def store(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")


def _plain(measure: Measure) -> dict[str, Any]:
    return {
        "what": measure.what,
        "unit": measure.unit,
        "ours": _short(measure.ours),
        "baseline": _short(measure.baseline),
        "baseline_is": measure.baseline_is,
        "ratio": _short(measure.ratio),
        "limit": _short(measure.limit),
        "limit_is": measure.limit_is,
        "bound": str(measure.bound),
        "met": measure.met,
    }


def _row(plain: dict[str, Any]) -> tuple[str, ...]:
    unit = plain["unit"]
    limit = f"{plain['bound']} {_number(plain['limit'])} {unit}".rstrip() + f" ({plain['limit_is']})"
    return (
        plain["what"],
        f"{_number(plain['ours'])} {unit}".rstrip(),
        f"{_number(plain['baseline'])} {unit}".rstrip(),
        f"{plain['ratio']:.2f}",
        limit,
        "met" if plain["met"] else "NOT MET",
    )


def _short(number: float) -> float:
    return float(f"{number:.4g}") if abs(number) < 1000 else round(number, 1)


def _number(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(REFERENCE.read_text())))
    print(f"{PAGE} has the table of {REFERENCE}", file=sys.stderr)
