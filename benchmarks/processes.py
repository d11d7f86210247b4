"""Processes: each measurement has one of its own, so that none finds what another one warmed up or left in memory."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

READY_S = 60.0


def fresh(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function in a new process and returns what it found."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(fn, *args, **kwargs).result()


def holon_command() -> list[str]:
    """The command as a person starts it; without an installed one, the package."""
    script = Path(sys.executable).with_name("holon")
    return [str(script)] if script.exists() else [sys.executable, "-m", "holon"]


def seconds_of(command: list[str]) -> float:
    """How long a command takes from start to end."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def seconds_until_ready(home: Path) -> float:
    """How long `holon serve` takes from its start until it says that it is ready. It is ended afterwards."""
    command = [*holon_command(), "serve", "--listen", "127.0.0.1:0", "--json"]
    environment: dict[str, Any] = {**os.environ, "HOLON_HOME": str(home), "HOME": str(home)}
    started = time.perf_counter()
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if '"ready"' in line:
                return time.perf_counter() - started
        raise RuntimeError(f"'holon serve' ended with {server.wait()} before it was ready: run it by hand in {home}")
    finally:
        server.terminate()
        try:
            server.wait(READY_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
