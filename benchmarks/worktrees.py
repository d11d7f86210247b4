"""Worktrees: what isolation costs beside plain git."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measures import Measure, Result, Scale, middle
from benchmarks.progress import Progress
from holon.core.workspaces import CleanupStatus
from holon.workspaces import worktrees

LIMIT_RATIO = 1.3
#: Files in the repository, rounds of making and removing a worktree.
SIZES = {Scale.QUICK: (50, 1), Scale.NORMAL: (10_000, 5), Scale.FULL: (10_000, 21)}
FILES_PER_FOLDER = 100
IDENTITY = {f"GIT_{role}_{part}": "bench@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def measure(scale: Scale, progress: Progress) -> Result:
    files, rounds = SIZES[scale]
    with tempfile.TemporaryDirectory(prefix="holon-bench-worktrees-") as folder:
        place = Path(folder)
        progress.say(f"a repository of {files} files")
        repo = _repository(place / "repo", files)
        plain, ours = _in_turn(rounds, lambda n: _plainly(repo, place, n), lambda n: asyncio.run(_managed(repo, n)))
    made = Measure(
        what=f"worktree of {files:,} files, made and removed",
        unit="ms",
        ours=middle(ours) * 1000,
        baseline=middle(plain) * 1000,
        baseline_is="git worktree add, git worktree remove, git branch -D",
        limit=middle(plain) * 1000 * LIMIT_RATIO,
        limit_is=f"{LIMIT_RATIO} × plain git in this run",
    )
    return Result(
        measures=[made],
        details={
            "fastest_managed_worktree_ms": round(min(ours) * 1000, 1),
            "fastest_plain_worktree_ms": round(min(plain) * 1000, 1),
        },
    )


def _in_turn(rounds: int, plain: Callable[[int], None], ours: Callable[[int], None]) -> tuple[list[float], list[float]]:
    """Both, one after the other, so that a busy moment of the machine meets both; the first round only warms up."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for seconds, act in zip(taken, (plain, ours), strict=True):
            started = time.perf_counter()
            act(number)
            seconds.append(time.perf_counter() - started)
    return taken[0][1:], taken[1][1:]


async def _managed(repo: Path, number: int) -> None:
    made = await worktrees.create(repo, f"holon/bench-{number}")
    done = await worktrees.remove_if_clean(
        made.path, common_dir=made.common_dir, branch=made.branch, base_commit=made.base_commit
    )
    if done.status is not CleanupStatus.REMOVED:
        raise RuntimeError(f"the worktree was not removed: {done.reason}")


def _plainly(repo: Path, place: Path, number: int) -> None:
    path, branch = str(place / f"plain-{number}"), f"plain-{number}"
    _run(["git", "worktree", "add", "-q", "-b", branch, path], repo)
    _run(["git", "worktree", "remove", path], repo)
    _run(["git", "branch", "-q", "-D", branch], repo)


def _repository(folder: Path, files: int) -> Path:
    for number in range(files):
        file = folder / f"folder-{number // FILES_PER_FOLDER}" / f"file-{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"line {number}\n" * 40)
    _run(["git", "init", "-q", "-b", "main"], folder)
    _run(["git", "add", "-A"], folder)
    _run(["git", "commit", "-q", "-m", "all"], folder)
    return folder


def _run(command: list[str], folder: Path | None = None) -> None:
    subprocess.run(command, cwd=folder, env=os.environ | IDENTITY, check=True, stdout=subprocess.DEVNULL)
