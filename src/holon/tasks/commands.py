"""Commands: start one, and find it again after a restart. `running` talks to it, `finding` looks for it.

A command belongs to its runner, not to this process: `close` leaves everything running, and so does a crash.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from types import TracebackType

from holon.tasks import folder as folders
from holon.tasks.channel import Channel
from holon.tasks.failures import CommandSpawnFailed, CommandUnreachable, refusal
from holon.tasks.finding import Ended, Lost, find, first_word
from holon.tasks.links import Link
from holon.tasks.protocol import Order, Refused, Started, encode
from holon.tasks.running import RunningCommand
from holon.tasks.specs import CommandSpec

#: Commands that are on their way to a runner at the same time; more wait here, not in the kernel.
STARTING = 16
#: Until a runner has said its first word.
FIRST_WORD_S = 30.0

log = logging.getLogger("holon.commands")


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
        _make_room(spec.folder)
        async with self._starting:
            for _ in range(2):
                link = await self._send(order)
                try:
                    first = await first_word(link, FIRST_WORD_S)
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

    async def attach(
        self, folder: Path, *, known: Started | None = None, patience_s: float = FIRST_WORD_S
    ) -> RunningCommand | Ended | Lost:
        """Finds a command again. Once it is `Lost`, no runner will ever begin in its folder.

        `known` is who it was, for the case that its folder is gone. A runner that lives and does not answer within
        `patience_s` is not waited for any longer: the command that is returned is not `reachable` yet.
        """
        try:
            found = await find(folder, patience_s, known)
        except CommandUnreachable as error:
            if (started := folders.started_of(folder) or known) is None:
                raise
            log.warning("%s", error)
            return self._keep(folder, started, None)
        return found if isinstance(found, Ended | Lost) else self._keep(folder, *found)

    def _keep(self, folder: Path, started: Started, link: Link | None) -> RunningCommand:
        running = RunningCommand(folder, started, link)
        self._running.add(running)
        running.when_over(lambda: self._running.discard(running))
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


def _make_room(folder: Path) -> None:
    try:
        if aside := folders.make_room(folder):
            log.warning("'%s' was no directory; it was moved to '%s'", folder.parent, aside)
    except OSError as error:
        raise CommandSpawnFailed(
            f"there is no place for the command's output: '{folder.parent}' cannot be made ({error.strerror})",
            hint="the operator must see that it can be a directory: what stands in its way, who may write, disk space",
        ) from error


def _call_off(link: Link, folder: Path) -> None:
    """Nobody will know of this command: it does not begin any more, or ends."""
    if not folders.give_up(folder):
        link.send(encode("stop", {"force": True}))
    link.close()
