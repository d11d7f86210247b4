"""Commands as the daemon sees them: start one, wait for it, talk to it, and find it again after a restart.

A command belongs to its runner, not to this process: `close` leaves everything running, and so does a crash.
"""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from types import TracebackType

from holon.core.clock import SystemClock
from holon.core.errors import HolonError
from holon.core.values import Value
from holon.tasks import folder as folders
from holon.tasks import processes
from holon.tasks.channel import Channel
from holon.tasks.failures import CommandSpawnFailed, CommandUnreachable, FolderTaken, InputRefused, refusal
from holon.tasks.links import Link, connect
from holon.tasks.outputs import OutputPreview, preview
from holon.tasks.protocol import CommandStatus, Order, Outcome, Refused, Started, encode
from holon.tasks.specs import CommandSpec

#: Commands that are on their way to a runner at the same time; more wait here, not in the kernel.
STARTING = 16
#: Until a runner has said its first word.
FIRST_WORD_S = 30.0
#: Until a runner that hung up is really gone.
LETTING_GO_S = 1.0
#: Until what it left is.
ENDING_S = 5.0


class RunningCommand:
    """A command and its runner. Made by `CommandRunner`."""

    def __init__(self, folder: Path, started: Started, link: Link) -> None:
        self.folder, self.started = folder, started
        self._link = link
        self._let_go = False
        #: Done when it is known how the command ended, or when this process has let go of it (None).
        self._ended: asyncio.Future[CommandStatus | None] = asyncio.get_running_loop().create_future()
        self._losing: asyncio.Task[None] | None = None
        link.last.add_done_callback(self._heard_last)

    @property
    def pid(self) -> int:
        return self.started.pid

    @property
    def status(self) -> CommandStatus | None:
        """How it ended, as far as this process has heard."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self, timeout_s: float | None = None) -> CommandStatus | None:
        """How it ended; None if it still runs after this time, or if this process lets go of it. Waiting has no
        influence on the command."""
        await asyncio.wait([self._ended], timeout=timeout_s)
        return self.status

    def preview(self, max_chars: int) -> OutputPreview:
        """What it has written until now: the beginning and the end."""
        return preview(self.folder, max_chars, tty=self.started.tty)

    async def send(self, text: str, *, end: bool = False) -> int:
        """Types this, or puts it into its standard input; `end` closes that. How many bytes it was."""
        reply = await self._link.send_input(text, end=end)
        if reply.refusal:
            raise InputRefused(
                f"the command does not take input: {reply.refusal}",
                hint="start it with accepts_input, and send input while it runs",
            )
        return reply.accepted_bytes

    async def stop(self, *, force: bool = False) -> bool:
        """Asks it and everything that it started to end, and ends what has not after its grace; with `force`, at once.
        False: it had ended already. `wait` tells how it went."""
        return (await self._link.stop(force=force)).stopping

    def detach(self) -> None:
        """Lets go of it. It runs on; `attach` finds it again."""
        self._let_go = True
        self._link.close()

    def _heard_last(self, last: asyncio.Future[CommandStatus | None]) -> None:
        if (status := last.result()) or self._let_go:
            self._ended.set_result(status)
        else:  # the runner hung up: it was at its end, or it was killed
            self._losing = asyncio.get_running_loop().create_task(self._lose())

    async def _lose(self) -> None:
        try:
            self._ended.set_result(await asyncio.to_thread(end_lost, self.folder))
        except (HolonError, OSError) as error:
            self._ended.set_exception(error)


class Ended(Value, frozen=True):
    """A command that ended while nobody watched."""

    folder: Path
    status: CommandStatus


class Lost(Value, frozen=True):
    """A command that has no runner and no status. `end_lost` ends what may be left of it."""

    folder: Path
    #: None: it was never started, and never will be.
    started: Started | None


class CommandRunner:
    """`async with CommandRunner(run_dir) as runner: …`"""

    def __init__(self, run_dir: Path) -> None:
        self._channel = Channel(run_dir)
        self._starting = asyncio.Semaphore(STARTING)
        self._running: set[RunningCommand] = set()

    async def open(self) -> None:
        self._channel.open()

    async def close(self) -> None:
        """Commands go on without this process."""
        for running in list(self._running):
            running.detach()
        await asyncio.to_thread(self._channel.close)

    async def __aenter__(self) -> CommandRunner:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def zygote_pid(self) -> int | None:
        return self._channel.zygote_pid

    async def start(self, spec: CommandSpec) -> RunningCommand:
        """Returns when the command runs. Raises an `AgentError` that says why it cannot."""
        order = spec.order()
        folders.make_room(spec.folder)
        async with self._starting:
            for _ in range(2):
                link = await self._send(order)
                try:
                    first = await _first_word(link)
                except asyncio.CancelledError:
                    _call_off(link, spec.folder)
                    raise
                match first:
                    case Started():
                        return self._keep(spec.folder, first, link)
                    case Refused():
                        link.close()
                        raise refusal(order, first)
                    case None if link.first.done() and not folders.is_taken(spec.folder):
                        link.close()  # the zygote died with the order, and nobody has it; there is a new one
                    case None:
                        _call_off(link, spec.folder)
                        raise CommandSpawnFailed(
                            "the command's runner was killed, or got stuck, while it started",
                            hint="inspect what the command may have done before you repeat it",
                        )
        raise CommandSpawnFailed("no runner took the command", hint="look at run/zygote.log in the home")

    async def attach(self, folder: Path) -> RunningCommand | Ended | Lost:
        """Finds a command again. Once it is `Lost`, no runner will ever begin in its folder."""
        deadline = time.monotonic() + FIRST_WORD_S
        while time.monotonic() < deadline:
            if status := folders.status_of(folder):
                return Ended(folder, status)
            if link := await connect(folder):
                if isinstance(first := await _first_word(link), Started):
                    return self._keep(folder, first, link)
                link.close()
            elif folders.give_up(folder):
                status = folders.status_of(folder)  # it may just have ended
                return Ended(folder, status) if status else Lost(folder, folders.started_of(folder))
            await asyncio.sleep(0.01)  # it has a runner that is about to listen, or about to end
        raise CommandUnreachable(
            f"the runner of '{folder}' lives, but cannot be reached", hint="free disk space in the home, then try again"
        )

    def _keep(self, folder: Path, started: Started, link: Link) -> RunningCommand:
        running = RunningCommand(folder, started, link)
        self._running.add(running)
        link.last.add_done_callback(lambda _: self._running.discard(running))
        return running

    async def _send(self, order: Order) -> Link:
        """The order is on its way before the runner is: it need not wait for it."""
        line = encode("order", order)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                sent = ours.send(line)
                self._channel.give(theirs)
            _, link = await asyncio.get_running_loop().create_unix_connection(Link, sock=ours)
        except BaseException:
            ours.close()
            raise
        if sent < len(line):
            link.send(line[sent:])
        return link


def end_lost(folder: Path) -> CommandStatus:
    """Ends what is left of a command without a runner, and writes down that it is lost. If it has a status, that
    stands."""
    if status := folders.status_of(folder):
        return status
    if not _give_up(folder):
        raise FolderTaken(f"the command in '{folder}' has a runner", hint="attach to it")
    started = folders.started_of(folder)
    left = processes.end_lost_sessions(started, ENDING_S) if started else 0
    status = folders.status_of(folder) or CommandStatus(
        outcome=Outcome.LOST if started else Outcome.NOT_STARTED,
        started_at_ms=started.started_at_ms if started else None,
        ended_at_ms=SystemClock().now_ms(),
        leftovers=left,
        detail="its runner is gone and left no status" if started else "no runner took it",
    )
    if folder.is_dir():
        folders.write_status(folder, status)
    return status


def _give_up(folder: Path) -> bool:
    """A process that was killed lets go of one thing after the other."""
    deadline = time.monotonic() + LETTING_GO_S
    while not (given_up := folders.give_up(folder)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return given_up


def _call_off(link: Link, folder: Path) -> None:
    """Nobody will know of this command: it does not begin any more, or ends."""
    if not folders.give_up(folder):
        link.send(encode("stop", {"force": True}))
    link.close()


async def _first_word(link: Link) -> Started | Refused | None:
    await asyncio.wait([link.first], timeout=FIRST_WORD_S)
    return link.first.result() if link.first.done() else None
