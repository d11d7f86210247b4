"""The daemon's hold on its zygote: started when it is needed, and again when it is gone."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from holon.tasks.zygote import main; main()"
#: Isolated, without site packages, text in UTF-8 whatever the locale.
_COMMAND = (sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, _ROOT)


#: Zygotes that this process let go of: reaped when it looks here again, or by the system when it ends.
_left: list[subprocess.Popen[bytes]] = []


class Channel:
    """An inherited socket rather than one with a name: nobody else can connect, and it ends with the daemon."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._spares = run_dir, run_dir / "spares"
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def zygote_pid(self) -> int | None:
        return self._process.pid if self._process else None

    def open(self) -> None:
        """Does not wait until the zygote is up: what it is given until then it finds."""
        shutil.rmtree(self._spares, ignore_errors=True)  # of a zygote that was killed
        self._start()

    def give(self, link: socket.socket) -> None:
        """Hands over the socket by which a spare runner gets its order."""
        try:
            socket.send_fds(self._socket or self._start(), [b"+"], [link.fileno()])
        except ConnectionError:
            self.close(patience_s=0.1)
            socket.send_fds(self._start(), [b"+"], [link.fileno()])

    def close(self, patience_s: float = 0.25) -> None:
        """The spares end. The zygote stays as long as one of its runners has a command."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
            _left.append(self._process)
            _left[:] = [process for process in _left if process.poll() is None]
            self._process = None

    def _start(self) -> socket.socket:
        self._spares.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        with theirs, (self._run_dir / "zygote.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_COMMAND, str(self._spares.absolute())],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._socket = ours
        return ours
