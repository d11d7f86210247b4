"""The runner: one process that owns one command, from its order to its status.

It belongs to a session of its own and needs nobody: daemon and zygote may be killed, and it goes on keeping the output,
answering whoever connects, and writing down how the command ended. One loop, one thread.

Standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holon.tasks import processes
from holon.tasks.birth import FOLDER, TERMINAL, Streams, bear, open_terminal
from holon.tasks.capture import TAIL_PAUSE_S, Capture
from holon.tasks.control import Control, Requests
from holon.tasks.family import Family
from holon.tasks.folder import HERE, STDERR, STDOUT, Nest
from holon.tasks.inlet import Inlet
from holon.tasks.protocol import (
    SAMPLE,
    CommandStatus,
    InputReply,
    Order,
    Outcome,
    Refused,
    Started,
    StopReason,
    StopReply,
    decode,
    encode,
)

READ_BYTES = 65_536
#: Most that a pipe can hold.
PIPE_BYTES = 1_048_576
#: How long a command has run when its socket appears; and until the next attempt, if the disk does not take it.
LISTEN_AFTER_S = 0.05
LISTEN_AGAIN_S = 5.0
#: When the command's own process has ended: how long what it started may still write before it is asked to end, and
#: how long after that it is killed.
LINGER_S = 0.5
LEFTOVER_GRACE_S = 1.0
#: How long what cannot be killed may hold up the end of a command.
GIVE_UP_S = 5.0
#: Killing is repeated, with pauses from the first to the second, until everything is gone.
KILL_AGAIN_S = (0.01, 1.0)


class Runner(Requests):
    """Made before there is an order, so that nothing is left to do then but to begin."""

    def __init__(self, nest: Nest) -> None:
        self._nest = nest
        self._pipes = Streams.open()
        self._family: Family
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        #: What is due when.
        self._due: dict[Callable[[], None], float] = {}
        self._control = Control(self, self._watch, self._unwatch)
        self._streams: dict[int, str] = {}
        self._inlet: Inlet | None = None
        self._stopped: StopReason | None = None
        self._forced = False
        self._leftovers: set[int] = set()
        self._abandoned = False  # what still holds the streams is none of ours
        self._given_up = False  # what is left cannot be ended
        self._kill_pause = KILL_AGAIN_S[0]
        self._read_from(self._pipes.stdout[0], STDOUT)
        self._read_from(self._pipes.stderr[0], STDERR)
        self._began = processes.started_at(os.getpid())
        self._hear_signals()

    def rehearse(self) -> None:
        """Goes through the motions once. A forked process copies each page of memory when it first touches it, which
        takes longer than the work itself: so the copies are made now, while nobody waits."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._order = Order(**decode(encode("order", SAMPLE))[1])
            self._control.add(ours)
            self._nest.begin(HERE.absolute().with_suffix(".ready"), self._describe())
            bear(self._order, self._pipes, None)  # there is no such program
            self._capture = Capture(HERE, 0, 0, 0, output=self._nest.output)
            self._control.tell("rehearsal", CommandStatus(Outcome.EXITED, truncated=self._capture.truncated))
            theirs.recv(1)
            self._control.drop(ours.fileno())
        stream, end = os.pipe()
        self._read_from(stream, STDOUT)
        os.close(end)
        for descriptor, _ in self._poll.poll(0):
            self._handlers[descriptor](descriptor)
        self._pause_ms()

    def run(self, raw_order: bytes, link: socket.socket, rest: bytes, begun: Callable[[int], None]) -> None:
        """`rest` was said after the order already. `begun` is told the command's process as soon as nothing here is
        urgent any more."""
        self._order = Order(**decode(raw_order)[1])
        self._control.add(link, rest)
        self._started = self._describe()
        try:
            self._nest.begin(Path(self._order.folder), self._started)
        except OSError as error:
            self._control.tell("refused", Refused(FOLDER, error.errno or 0, str(error)))
            return
        born = self._begin()
        if isinstance(born, Refused):
            self._nest.end(CommandStatus(Outcome.NOT_STARTED, detail=born.detail[:1_000]))
            self._control.tell("refused", born)
            return
        self._started = self._started._replace(pid=born)
        self._family = Family(born)
        self._control.welcome(self._started)
        begun(born)
        try:
            self._settle_in()
            self._control.answer()
            self._loop()
            self._finish()
        except Exception as error:  # a status that says what went wrong, rather than none
            self._family.kill(self._family.everyone())
            self._nest.end(CommandStatus(Outcome.LOST, detail=f"its runner failed: {error!r}"[:1_000]))
            raise

    # ---- requests, from whoever is connected

    def send_input(self, text: str, end: bool) -> InputReply:
        if self._inlet is None:
            return InputReply(0, "it was started without accepts_input")
        return self._inlet.take(text, end)

    def stop(self, force: bool, reason: StopReason = StopReason.REQUEST) -> StopReply:
        """Everything that the command started ends, daemons too."""
        if self._stopped is None:
            self._stopped = reason
        if force:
            self._kill()
        elif self._kill not in self._due:
            self._family.ask(self._family.everyone(), hang_up=self._order.tty)
            self._due[self._kill] = time.monotonic() + self._order.grace_s
        return StopReply(stopping=True)

    # ---- beginning

    def _describe(self) -> Started:
        return Started(
            runner_pid=os.getpid(),
            started_at_ms=time.time_ns() // 1_000_000,
            boot_id=processes.boot_id(),
            runner_started_at=self._began,
            tty=self._order.tty,
            accepts_input=self._order.accepts_input,
        )

    def _begin(self) -> int | Refused:
        order, terminal = self._order, None
        if order.tty:
            try:
                self._master, self._line = open_terminal(order.rows, order.columns)
            except OSError as error:
                return Refused(TERMINAL, error.errno or 0, f"no terminal could be opened: {error.strerror}")
            terminal = os.ttyname(self._line)
            for descriptor in list(self._streams):
                self._close_stream(descriptor)
            self._read_from(self._master, STDOUT)
        born = bear(order, self._pipes, terminal)
        self._capture = Capture(
            HERE, order.head_bytes, order.tail_bytes, order.disk_floor_bytes, output=self._nest.output
        )
        return born

    def _settle_in(self) -> None:
        order, now = self._order, time.monotonic()
        self._pipes.close_theirs()
        if order.tty:
            os.close(self._line)
        if order.accepts_input:
            target = os.dup(self._master) if order.tty else self._pipes.stdin[0]
            self._inlet = Inlet(target, self._watch, self._unwatch)
        self._nest.note(self._started._replace(pid_started_at=processes.started_at(self._started.pid)))
        self._due[self._listen] = now + LISTEN_AFTER_S
        if order.time_limit_s is not None:
            self._due[self._time_out] = now + order.time_limit_s

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
        self._watch(heard, select.POLLIN, self._signalled)

    # ---- the loop

    def _loop(self) -> None:
        self._reap()
        while not self._over():
            ready = self._poll.poll(self._pause_ms())
            for descriptor, _ in ready:
                if handler := self._handlers.get(descriptor):
                    handler(descriptor)
            now = time.monotonic()
            self._capture.show(now, paused=not ready)
            for act in [act for act, due in self._due.items() if due <= now]:
                del self._due[act]
                act()

    def _over(self) -> bool:
        family = self._family
        if family.raw_status is None or (self._stopped and not family.gone):
            return False
        if self._streams and not self._abandoned:
            return False
        return self._given_up or not family.everyone()

    def _pause_ms(self) -> float | None:
        pauses = [max(0.0, due - time.monotonic()) for due in self._due.values()]
        if self._capture.stale:
            pauses.append(TAIL_PAUSE_S)
        return min(pauses) * 1000 + 1 if pauses else None

    def _watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def _unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None):
            self._poll.unregister(descriptor)

    def _read_from(self, descriptor: int, stream: str) -> None:
        self._streams[descriptor] = stream
        self._watch(descriptor, select.POLLIN, self._read)

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
        self._unwatch(descriptor)
        del self._streams[descriptor]
        os.close(descriptor)

    # ---- ending

    def _signalled(self, descriptor: int) -> None:
        with suppress(BlockingIOError):
            if signal.SIGTERM in os.read(descriptor, 512):
                self.stop(force=False, reason=StopReason.RUNNER_TERMINATED)
        self._reap()

    def _reap(self) -> None:
        self._family.reap()
        if self._family.raw_status is not None:
            self._due.pop(self._time_out, None)
            if self._inlet:
                self._inlet.close()
            if not self._leftovers:
                self._due.setdefault(self._end_leftovers, time.monotonic() + LINGER_S)

    def _time_out(self) -> None:
        self.stop(force=False, reason=StopReason.TIME_LIMIT)

    def _end_leftovers(self) -> None:
        """What a command leaves behind is ended with it, daemons too: it would run without an owner."""
        left = self._family.everyone()
        if not left:
            self._abandoned = True
        elif self._stopped is None:
            self._leftovers = {process.pid for process in left}
            self._family.ask(left, hang_up=self._order.tty)
            self._due[self._kill] = time.monotonic() + LEFTOVER_GRACE_S
            self._due[self._give_up] = time.monotonic() + GIVE_UP_S

    def _give_up(self) -> None:
        """What is left belongs to another user (sudo), or hangs in the kernel. The status tells how many these are."""
        if self._stopped is None:
            self._given_up = self._abandoned = True

    def _kill(self) -> None:
        family = self._family
        whom = family.everyone()
        self._forced = self._forced or (self._stopped is not None and family.raw_status is None)
        self._abandoned = self._abandoned or (family.raw_status is not None and not whom)
        family.kill(whom)
        self._due[self._kill] = time.monotonic() + self._kill_pause
        self._kill_pause = min(self._kill_pause * 2, KILL_AGAIN_S[1])

    def _finish(self) -> None:
        for descriptor in list(self._streams):  # what was written, but not read yet
            os.set_blocking(descriptor, False)
            for _ in range(PIPE_BYTES // READ_BYTES):
                if descriptor in self._streams:
                    self._read(descriptor)
        self._capture.close()
        status = self._status()
        with suppress(OSError):  # somebody has removed the folder: those who wait are told all the same
            self._nest.end(status)
        self._control.tell("ended", status)
        with suppress(OSError):
            self._nest.flush()  # nobody needs to wait for that

    def _status(self) -> CommandStatus:
        family, capture = self._family, self._capture
        assert family.raw_status is not None
        code = os.waitstatus_to_exitcode(family.raw_status)
        return CommandStatus(
            outcome=Outcome.EXITED if code >= 0 else Outcome.SIGNALED,
            exit_status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            started_at_ms=self._started.started_at_ms,
            ended_at_ms=family.ended_at_ms,
            stdout_bytes=capture.stdout_bytes,
            stderr_bytes=capture.stderr_bytes,
            truncated=capture.truncated,
            disk_low=capture.disk.low,
            stopped=self._stopped,
            forced=self._forced,
            leftovers=len(self._leftovers),
            survivors=len(family.everyone()),
        )
