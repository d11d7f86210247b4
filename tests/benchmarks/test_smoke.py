"""Every benchmark runs, at tiny sizes, and says what it found in numbers and in words. No time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.catalogue import NAMES

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {"what", "unit", "ours", "baseline", "baseline_is", "ratio", "limit", "limit_is", "bound", "met"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def quick(name: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """What a quick run printed and what it wrote."""
    path = folder / "found.json"
    done = run(name, "--quick", "--json", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_sets_its_numbers_beside_a_baseline_and_a_limit(name: str, tmp_path: Path) -> None:
    printed, found = quick(name, tmp_path)
    assert found["scale"] == "quick"
    assert set(found["benchmarks"]) == {name}
    measures = found["benchmarks"][name]["measures"]
    assert measures
    for measure in measures:
        assert set(measure) == FIELDS
        assert measure["ours"] > 0
        assert measure["baseline"] > 0
        assert measure["ratio"] == pytest.approx(measure["ours"] / measure["baseline"], rel=0.01, abs=0.001)
        assert measure["what"] in printed
        assert measure["baseline_is"] in printed


def test_a_short_turn_takes_three_commits(tmp_path: Path) -> None:
    """Admitted, begun, settled: what durability itself costs is judged by this number."""
    _, found = quick("turn", tmp_path)
    assert found["benchmarks"]["turn"]["details"]["commits_per_turn"] == 3


def test_all_messages_of_the_producers_are_admitted_in_shared_commits(tmp_path: Path) -> None:
    _, found = quick("admission", tmp_path)
    assert found["benchmarks"]["admission"]["details"]["batch"] > 1


def test_a_name_that_is_no_benchmark_is_refused_with_those_there_are() -> None:
    done = run("nothing")
    assert done.returncode == 2
    assert "there is no benchmark nothing: choose from admission, turn" in done.stderr
