"""The runner: one process that owns one command, from its order to its status.

It belongs to a session of its own and needs nobody: daemon and zygote may be killed, and it goes on keeping the output,
answering whoever connects, and writing down how the command ended. One loop, one thread.

Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holon.tasks import processes
from holon.tasks.capture import TAIL_PAUSE_S, Capture
from holon.tasks.control import Control, Requests
from holon.tasks.folder import STDERR, STDOUT, Nest, write_status
from holon.tasks.protocol import SAMPLE, CommandStatus, InputReply, Order, Outcome, Refused, Started, StopReason, StopReply, decode, encode
from holon.tasks.stem import FOLDER, Stem

HERE = Path()  # the command's folder is the current directory
#: How long a command has run when its socket appears; and until the next attempt, if the disk does not take it.
LISTEN_AFTER_S = 0.05
LISTEN_AGAIN_S = 5.0
READ_BYTES = 65_536
#: Input that waits until the command reads it.
INPUT_BYTES = 1_048_576
#: When the command's own process has ended: how long what it started may still write before it is asked to end, and
#: how long after that it is killed.
LINGER_S = 0.5
LEFTOVER_GRACE_S = 1.0
#: Killing is repeated, with pauses from the first to the second, until everything is gone.
KILL_AGAIN_S = (0.01, 1.0)


class Runner(Requests):
    """Made before there is an order, so that nothing is left to do then but to begin."""

    def __init__(self, nest: Nest, stem: Stem) -> None:
        self._nest, self._stem = nest, stem
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._control = Control(self, self.watch, self.unwatch)
        self._streams: dict[int, str] = {}
        self._input = stem.stdin
        self._pending = bytearray()
        self._end_input = False
        self._raw_status: int | None = None
        self._childless = False
        self._abandoned = False  # what still holds the streams is none of ours
        self._stopped: StopReason | None = None
        self._forced = False
        self._leftovers: set[int] = set()
        self._kill_pause = KILL_AGAIN_S[0]
        #: What is due when; see `_keep_time`.
        self._due: dict[Callable[[], None], float] = {}
        self._read_from(stem.stdout, STDOUT)
        self._read_from(stem.stderr, STDERR)
        self._hear_signals()

    def rehearse(self) -> None:
        """Goes through the motions once. A forked process copies each page of memory when it first touches it, which
        takes longer than the work itself: so the copies are made now, while nobody waits."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._order = Order(**decode(encode("order", SAMPLE))[1])
            self._control.add(ours)
            self._nest.begin(HERE.absolute().with_suffix(".ready"), self._describe())
            capture = Capture(HERE, 0, 0, 0, output=self._nest.output)
            self._control.tell("rehearsal", CommandStatus(Outcome.EXITED, truncated=capture.truncated))
            theirs.recv(1)
        self._poll.poll(0)
        self._control.drop(ours.fileno())

    def run(self, raw_order: bytes, link: socket.socket, begun: Callable[[], None]) -> None:
        """`begun` is called as soon as nothing here is urgent any more."""
        self._stem.prepare(raw_order)
        self._order = order = Order(**decode(raw_order)[1])
        self._control.add(link)
        self._started = self._describe()
        try:
            self._nest.begin(Path(order.folder), self._started)
            terminal, line = self._open_terminal() if order.tty else ("", -1)
        except OSError as error:
            self._control.tell("refused", Refused(FOLDER, error.errno or 0, str(error)))
            self._nest.remove()
            return
        self._stem.become(terminal)
        self._capture = Capture(
            HERE, order.head_bytes, order.tail_bytes, order.disk_floor_bytes, output=self._nest.output
        )
        refused = self._stem.refusal()
        if refused:
            self._control.tell("refused", refused)
            write_status(HERE, CommandStatus(Outcome.NOT_STARTED, detail=refused.detail))
            return
        self._control.welcome(self._started)
        begun()
        self._settle_in(line)
        self._loop()
        self._finish()

    # ---- requests, from whoever is connected

    def send_input(self, text: str, end: bool) -> InputReply:
        if not self._order.accepts_input:
            return InputReply(0, "it was started without accepts_input")
        if self._input < 0 or self._end_input or self._raw_status is not None:
            return InputReply(0, "its input is closed")
        data = text.encode("utf-8", "surrogateescape")
        if len(self._pending) + len(data) > INPUT_BYTES:
            return InputReply(0, f"{len(self._pending)} bytes that it has not read yet are waiting")
        self._pending += data
        self._end_input = end
        self._write_input()
        return InputReply(len(data))

    def stop(self, force: bool, reason: StopReason = StopReason.REQUEST) -> StopReply:
        if self._stopped is None:
            self._stopped = reason
        if force:
            self._kill()
        elif self._kill not in self._due:
            self._ask(processes.descendants(os.getpid()))
            self._due[self._kill] = time.monotonic() + self._order.grace_s
        return StopReply(stopping=True)

    # ---- starting

    def _describe(self) -> Started:
        return Started(
            pid=self._stem.pid,
            runner_pid=os.getpid(),
            started_at_ms=time.time_ns() // 1_000_000,
            boot_id=processes.boot_id(),
            pid_started_at=self._stem.started_at,
            tty=self._order.tty,
            accepts_input=self._order.accepts_input,
        )

    def _settle_in(self, line: int) -> None:
        if line >= 0:
            os.close(line)  # the command has it; when nobody has it any more, it has ended
        if self._order.accepts_input:
            os.set_blocking(self._input, False)
        else:
            os.close(self._input)
            self._input = -1
        now = time.monotonic()
        self._due[self._listen] = now + LISTEN_AFTER_S
        if self._order.time_limit_s is not None:
            self._due[self._time_out] = now + self._order.time_limit_s

    def _open_terminal(self) -> tuple[str, int]:
        """In place of the three pipes. Its name for the command, and a hold on it until the command has it."""
        for descriptor in list(self._streams):
            self._close_stream(descriptor)
        os.close(self._input)
        master, line = os.openpty()
        fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", self._order.rows, self._order.columns, 0, 0))
        self._input = os.dup(master)
        self._read_from(master, STDOUT)
        return os.ttyname(line), line

    def _listen(self) -> None:
        """Most commands are short: only one that lasts needs to be found by others."""
        try:
            self._control.listen()
        except OSError:
            self._due[self._listen] = time.monotonic() + LISTEN_AGAIN_S

    def _hear_signals(self) -> None:
        heard, told = os.pipe()
        os.set_blocking(heard, False)
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        self.watch(heard, select.POLLIN, self._signalled)

    # ---- the loop

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None):
            self._poll.unregister(descriptor)

    def _loop(self) -> None:
        self._reap()
        while not self._over():
            ready = self._poll.poll(self._pause_ms())
            for descriptor, _ in ready:
                if handler := self._handlers.get(descriptor):
                    handler(descriptor)
            self._capture.show(time.monotonic(), paused=not ready)
            self._keep_time()

    def _over(self) -> bool:
        if self._raw_status is None:
            return False
        if self._stopped and not self._childless:
            return False  # a stop ends everything, daemons too
        if self._streams and not self._abandoned:
            return False
        return self._childless or not self._session()

    def _pause_ms(self) -> float | None:
        pauses = [max(0.0, due - time.monotonic()) for due in self._due.values()]
        if self._capture.stale:
            pauses.append(TAIL_PAUSE_S)
        return min(pauses) * 1000 + 1 if pauses else None

    def _keep_time(self) -> None:
        now = time.monotonic()
        for act in [act for act, due in self._due.items() if due <= now]:
            del self._due[act]
            act()

    def _read_from(self, descriptor: int, stream: str) -> None:
        self._streams[descriptor] = stream
        self.watch(descriptor, select.POLLIN, self._read)

    def _read(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a terminal's way to say that nobody holds the other side
            chunk = b""
        if chunk:
            self._capture.take(self._streams[descriptor], chunk)
        else:
            self._close_stream(descriptor)

    def _close_stream(self, descriptor: int) -> None:
        self.unwatch(descriptor)
        del self._streams[descriptor]
        os.close(descriptor)

    def _write_input(self, _: int = -1) -> None:
        try:
            del self._pending[: os.write(self._input, self._pending)]
        except BlockingIOError:
            pass
        except OSError:
            self._pending.clear()
            self._end_input = True
        if self._pending:
            self.watch(self._input, select.POLLOUT, self._write_input)
            return
        self.unwatch(self._input)
        if self._end_input:
            os.close(self._input)
            self._input = -1

    # ---- ending

    def _signalled(self, descriptor: int) -> None:
        with suppress(BlockingIOError):
            if signal.SIGTERM in os.read(descriptor, 512):
                self.stop(force=False, reason=StopReason.RUNNER_TERMINATED)
        self._reap()

    def _reap(self) -> None:
        """Learns who has ended. Orphans of the command come here too: without children, nothing of it is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._stem.pid:
                    self._raw_status, self._ended_at_ms = status, time.time_ns() // 1_000_000
                    self._due.pop(self._time_out, None)
        except ChildProcessError:
            self._childless = True
        if self._raw_status is not None and not self._leftovers:
            self._due.setdefault(self._end_leftovers, time.monotonic() + LINGER_S)

    def _end_leftovers(self) -> None:
        left = self._session()
        if not left:
            self._abandoned = True
        elif self._stopped is None:
            self._leftovers = {process.pid for process in left}
            self._ask(left)
            self._due[self._kill] = time.monotonic() + LEFTOVER_GRACE_S

    def _session(self) -> list[processes.Process]:
        """What the command left in its own session. Whoever made a session of its own is a daemon."""
        if self._childless:
            return []
        return [process for process in processes.descendants(os.getpid()) if process.session == self._stem.pid]

    def _ask(self, whom: list[processes.Process]) -> None:
        """A terminal's shell does not listen to SIGTERM but to its hang-up; what is stopped listens to nothing."""
        group = self._stem.pid
        for number in (signal.SIGTERM, *([signal.SIGHUP] if self._order.tty else []), signal.SIGCONT):
            if any(process.group == group for process in whom):  # as long as it has members, the number is theirs
                processes.send_group(group, number)
            processes.send([process for process in whom if process.group != group], number)

    def _kill(self) -> None:
        everything = processes.descendants(os.getpid())
        if self._stopped:
            self._forced = self._forced or self._raw_status is None
        else:
            everything = [process for process in everything if process.session == self._stem.pid]
        if self._raw_status is None:
            processes.send_group(self._stem.pid, signal.SIGKILL)
        processes.send(everything, signal.SIGKILL)
        self._due[self._kill] = time.monotonic() + self._kill_pause
        self._kill_pause = min(self._kill_pause * 2, KILL_AGAIN_S[1])
        if self._raw_status is not None and not everything:
            self._abandoned = True

    def _time_out(self) -> None:
        self.stop(force=False, reason=StopReason.TIME_LIMIT)

    def _finish(self) -> None:
        for descriptor in list(self._streams):  # what was written, but not read yet
            os.set_blocking(descriptor, False)
            for _ in range(INPUT_BYTES // READ_BYTES + 1):
                if descriptor in self._streams:
                    self._read(descriptor)
        self._capture.close()
        status = self._status()
        self._control.tell("ended", status)  # those who wait need not wait for the disk
        write_status(HERE, status)

    def _status(self) -> CommandStatus:
        assert self._raw_status is not None
        code = os.waitstatus_to_exitcode(self._raw_status)
        capture = self._capture
        return CommandStatus(
            outcome=Outcome.EXITED if code >= 0 else Outcome.SIGNALED,
            exit_status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            started_at_ms=self._started.started_at_ms,
            ended_at_ms=self._ended_at_ms,
            stdout_bytes=capture.stdout_bytes,
            stderr_bytes=capture.stderr_bytes,
            truncated=capture.truncated,
            disk_low=capture.disk.low,
            stopped=self._stopped,
            forced=self._forced,
            leftovers=len(self._leftovers),
            daemons=0 if self._childless else len(processes.descendants(os.getpid())),
        )
