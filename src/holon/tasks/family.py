"""The command's family: its own process and everything that it started, as its runner sees them.

Standard library only.
"""

from __future__ import annotations

import os
import signal
import time

from holon.tasks import processes
from holon.tasks.processes import Process


class Family:
    def __init__(self, pid: int) -> None:
        """The command's own process, which leads a group."""
        self._pid = pid
        #: How that process ended.
        self.raw_status: int | None = None
        self.ended_at_ms: int | None = None
        #: Nothing is left of it.
        self.gone = False

    def reap(self) -> None:
        """Learns who has ended. Orphans become the runner's children: without children, nothing is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    self.raw_status, self.ended_at_ms = status, time.time_ns() // 1_000_000
        except ChildProcessError:
            self.gone = True

    def everyone(self) -> list[Process]:
        """Whoever made a session of its own (a daemon) is one of them: nobody else could ever end it."""
        return [] if self.gone else processes.descendants(os.getpid())

    def ask(self, whom: list[Process], *, hang_up: bool) -> None:
        """To end. A terminal's shell does not listen to SIGTERM but to its hang-up; what is stopped listens to nothing
        until it goes on."""
        self._send(whom, signal.SIGTERM)
        if hang_up:
            self._send(whom, signal.SIGHUP)
        self._send(whom, signal.SIGCONT)

    def kill(self, whom: list[Process]) -> None:
        self._send(whom, signal.SIGKILL)

    def _send(self, whom: list[Process], number: signal.Signals) -> None:
        """The group at once, so that nobody escapes by forking. As long as it has members, its number is its own."""
        if self.raw_status is None or any(process.group == self._pid for process in whom):
            processes.send_group(self._pid, number)
        processes.send([process for process in whom if process.group != self._pid], number)
