"""A command that runs, as the daemon sees it: wait for it, look at its output, type into it, stop it.

If its runner hangs up it is looked for until it is found again, or known to be over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from holon.core.errors import HolonError
from holon.tasks import processes
from holon.tasks.control import LINE_BYTES
from holon.tasks.failures import CommandUnreachable, InputRefused
from holon.tasks.finding import ENDING_S, Ended, Lost, end_lost, find, unreachable
from holon.tasks.links import Link
from holon.tasks.outputs import OutputPreview, preview
from holon.tasks.protocol import CommandStatus, Started, encode

#: Until a runner that was asked something has answered.
ANSWER_S = 5.0
#: Between two attempts to reach a runner that does not answer, from the first to the last.
SEEK_AGAIN_S = (0.5, 15.0)

log = logging.getLogger("holon.commands")

T = TypeVar("T")


class RunningCommand:
    """A command and its runner. Made by `CommandRunner`. A link that is lost while the runner lives is made again."""

    def __init__(self, folder: Path, started: Started, link: Link | None) -> None:
        self.folder, self.started = folder, started
        #: Told when the runner does not answer any more (False), and when it does again (True).
        self.on_contact: Callable[[bool], None] = lambda _: None
        #: False: it was looked for, and did not answer. It is looked for until it does.
        self.reachable = link is not None
        self._link = link
        self._let_go = False
        self._stop_asked: bool | None = None  # with force or without, while it could not be reached
        #: Done when it is known how the command ended, or when this process has let go of it (None).
        self._ended: asyncio.Future[CommandStatus | None] = asyncio.get_running_loop().create_future()
        self._seeking: asyncio.Task[None] | None = None
        self._nudge = asyncio.Event()  # look again now
        if link is not None:
            link.last.add_done_callback(self._heard_last)
        else:
            self._seek()

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
        return preview(self.folder, max_chars, tty=self.started.tty, status=self.status)

    async def send(self, text: str, *, end: bool = False) -> int:
        """Types this, or puts it into its standard input; `end` closes that. How many bytes it was. Never sent twice:
        if the runner hangs up meanwhile, the error says that it may have arrived."""
        _check_input(text)
        link = await self._linked()
        reply = await _answer(link.send_input(text, end=end)) if link else None
        if reply is not None and reply.refusal is None:
            return reply.accepted_bytes
        if reply is None and link is not None and await self._linked() is not None:
            raise CommandUnreachable(
                "the command's runner hung up: it is not known whether the input arrived",
                hint="look at the task's output before you send it again",
            )
        raise InputRefused(
            f"the command does not take input: {reply.refusal if reply else 'it has ended'}",
            hint="start it with accepts_input, and send input while it runs",
        )

    async def stop(self, *, force: bool = False) -> bool:
        """Asks it and everything that it started to end, and ends what has not after its grace; with `force`, at once.
        False: it had ended already. `wait` tells how it went. A runner that does not answer hears of it by a signal."""
        try:
            while (link := await self._linked()) is not None:
                if (reply := await _answer(link.stop(force=force))) is not None:
                    return reply.stopping
                await asyncio.sleep(0.01)  # it hung up: at its end, or it is called again
            return False
        except CommandUnreachable:
            self._stop_asked = force or bool(self._stop_asked)
            if not processes.lives(self.started) and not await self._over_soon():
                raise
        if self._ended.done():
            return False
        await asyncio.to_thread(_stop_unreachable, self.started, force)
        self._nudge.set()
        return True

    def when_over(self, tell: Callable[[], None]) -> None:
        """Also when this process lets go of it."""
        self._ended.add_done_callback(lambda _: tell())

    def detach(self) -> None:
        """Lets go of it. It runs on; `attach` finds it again."""
        self._let_go = True
        if self._link is not None:
            self._link.close()
        if self._seeking is not None:
            self._seeking.cancel()
        self._end(None)

    def _heard_last(self, last: asyncio.Future[CommandStatus | None]) -> None:
        if (status := last.result()) or self._let_go:
            self._end(status)
        else:  # the runner hung up: it was at its end, it was killed, or it lost us
            self._link = None
            self._seek()

    def _end(self, status: CommandStatus | None) -> None:
        if not self._ended.done():
            self._ended.set_result(status)

    async def _linked(self) -> Link | None:
        """The link, when there is one; None when the command has ended. One that is lost is given a moment."""
        deadline = time.monotonic() + ANSWER_S
        while not self._ended.done():
            if self._link is not None and not self._link.closed:
                return self._link
            if not self.reachable or time.monotonic() > deadline:
                raise unreachable(self.folder)
            await asyncio.sleep(0.01)
        return None

    async def _over_soon(self) -> bool:
        """Whether a command whose runner is gone is found to be over, if one looks now."""
        self._nudge.set()
        await asyncio.wait([self._ended], timeout=ANSWER_S)
        return self._ended.done()

    def _seek(self) -> None:
        self._seeking = asyncio.get_running_loop().create_task(self._reach_again())

    async def _reach_again(self) -> None:
        pause = SEEK_AGAIN_S[0]
        while True:
            self._nudge.clear()
            try:
                found = await find(self.folder, ANSWER_S, self.started)
                break
            except (HolonError, OSError) as error:
                if self.reachable:
                    log.warning("%s", error)
                    self.reachable = False
                    self.on_contact(False)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._nudge.wait()
            pause = min(2 * pause, SEEK_AGAIN_S[1])
        match found:
            case Ended(status=status):
                self._end(status)
            case Lost():
                await self._lose()
            case (_, link):
                self._resume(link)

    def _resume(self, link: Link) -> None:
        self._link = link
        link.last.add_done_callback(self._heard_last)
        if self._stop_asked is not None:
            link.post("stop", {"force": self._stop_asked})
        if not self.reachable:
            self.reachable = True
            self.on_contact(True)

    async def _lose(self) -> None:
        try:
            self._end(await asyncio.to_thread(end_lost, self.folder, self.started))
        except (HolonError, OSError):
            log.exception("what is left of the command in '%s' could not be ended; it is tried again", self.folder)
            await asyncio.sleep(SEEK_AGAIN_S[0])
            self._seek()


def _stop_unreachable(started: Started, force: bool) -> None:
    if force:
        processes.end_runner(started, ENDING_S)
    else:
        processes.ask_runner(started)


def _check_input(text: str) -> None:
    """What would make the runner hang up on us."""
    try:
        size = len(encode("input", {"text": text, "end": False}))
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputRefused(
            "the input has characters that are no text (lone surrogates)", hint="send text that UTF-8 can say"
        ) from error
    if size > LINE_BYTES:
        raise InputRefused(
            f"the input has {size} bytes, at most {LINE_BYTES} go at once", hint="write it to a file, and send its path"
        )


async def _answer(asked: Awaitable[T | None]) -> T | None:
    """What a runner answers; None: it hung up."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await asked
    except TimeoutError:
        raise CommandUnreachable(
            "the command's runner does not answer", hint="stop it by force, or wait until it does"
        ) from None
