"""The inlet: what is typed for the command, or put into its standard input, and waits until it is read.

Standard library only.
"""

from __future__ import annotations

import os
import select

from holon.tasks.control import Unwatch, Watch
from holon.tasks.protocol import InputReply

#: Input that may wait.
WAITING_BYTES = 1_048_576


class Inlet:
    def __init__(self, descriptor: int, watch: Watch, unwatch: Unwatch) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor, self._watch, self._unwatch = descriptor, watch, unwatch
        self._waiting = bytearray()
        self._last = False  # nothing comes after what waits

    def take(self, text: str, end: bool) -> InputReply:
        """All of it or nothing."""
        if self._descriptor < 0 or self._last:
            return InputReply(0, "its input is closed")
        data = text.encode("utf-8", "surrogateescape")
        if len(self._waiting) + len(data) > WAITING_BYTES:
            waiting = len(self._waiting)
            return InputReply(
                0, f"at most {WAITING_BYTES} bytes can wait until it reads them, and {waiting} do already"
            )
        self._waiting += data
        self._last = end
        self._write()
        return InputReply(len(data))

    def close(self) -> None:
        if self._descriptor >= 0:
            self._unwatch(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, _: int = -1) -> None:
        try:
            del self._waiting[: os.write(self._descriptor, self._waiting)]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it any more
            self.close()
            return
        if self._waiting:
            self._watch(self._descriptor, select.POLLOUT, self._write)
        elif self._last:
            self.close()
        else:
            self._unwatch(self._descriptor)
