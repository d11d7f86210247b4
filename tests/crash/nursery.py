"""The nursery: a process that has everything imported, from which workers are forked in a few milliseconds.

A crash test starts hundreds of processes; most of their life would be imports. The nursery itself never opens a home
and has one thread, so what it forks is as good as a fresh process. It reads a line a request and answers with a line.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from holon.core.codec import Record, dumps, loads
from tests.crash.worker import Job, work

ROOT = Path(__file__).parents[2]
#: How long any worker may take before the test gives up on it.
PATIENCE_S = 20.0


class Request(Record, frozen=True, kw_only=True):
    #: Start this…
    job: Job | None = None
    #: … or wait for that one to end.
    pid: int = 0
    seconds: float = PATIENCE_S


class Reply(Record, frozen=True, kw_only=True):
    pid: int
    #: The exit status, or minus the signal; `None` if it still runs.
    status: int | None = None


class Nursery:
    """Starts workers. Use it in a `with`: at the end all of them are gone."""

    def __enter__(self) -> Nursery:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLON_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self._workers: list[Worker] = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            if worker.status is None:
                worker.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)

    def start(self, job: Job) -> Worker:
        worker = Worker(self, job, self.ask(Request(job=job)).pid)
        self._workers = [other for other in self._workers if other.status is None] + [worker]
        return worker

    def ask(self, request: Request) -> Reply:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery has ended"
        return loads(answer, Reply)


class Worker:
    """A worker that was started."""

    def __init__(self, nursery: Nursery, job: Job, pid: int) -> None:
        self._nursery, self.job, self.pid = nursery, job, pid
        self.status: int | None = None

    def wait_until_ready(self) -> bool:
        """Whether it owns its home and works; false if it ended before."""
        end = time.monotonic() + PATIENCE_S
        mark = self.job.outside / f"ready-{self.pid}"
        while not mark.exists():
            if self.wait(0) is not None:
                return mark.exists()
            assert time.monotonic() < end, f"worker {self.pid} does not begin: see {self.log}"
            time.sleep(0.002)
        return True

    def kill(self) -> int:
        """SIGKILL, now. Returns how it ended: it may have been faster."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        status = self.wait()
        assert status is not None
        return status

    def wait(self, seconds: float = PATIENCE_S) -> int | None:
        """How it ended; `None` if it goes on."""
        if self.status is None:
            self.status = self._nursery.ask(Request(pid=self.pid, seconds=seconds)).status
        return self.status

    @property
    def log(self) -> Path:
        return self.job.outside / "log"

    def said(self) -> str:
        """The end of what it and the workers before it wrote to their log."""
        return self.log.read_text(errors="replace")[-4_000:] if self.log.exists() else ""


def _serve() -> None:
    gc.freeze()  # what is here already is nothing that a worker has to look through
    for line in sys.stdin:
        request = loads(line, Request)
        if request.job is not None:
            reply = Reply(pid=_fork(request.job))
        else:
            reply = Reply(pid=request.pid, status=_ended(request.pid, request.seconds))
        print(dumps(reply), flush=True)


def _fork(job: Job) -> int:
    job.outside.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        log = os.open(job.outside / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        status = work(job)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _ended(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


if __name__ == "__main__":
    _serve()
