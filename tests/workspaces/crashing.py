"""Applies one patch many times in children that die, or whose disk fails, at their n-th call to the system.

Run as a program: `python -m tests.workspaces.crashing <folder> <fault>` prints, as JSON, what was found afterwards. The
program itself has one thread, so that its children can be forks of it.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from holon.core.errors import AgentError
from holon.workspaces import patches
from holon.workspaces.roots import ExecutionRoot
from tests.workspaces.trees import Tree, grown, patched, plant

CHANGING = ["fsync", "rename", "link", "unlink", "mkdir", "rmdir", "fchmod", "fchown", "write"]
CALLS = ["open", "close", "stat", *CHANGING]

OPEN = os.open

OLD: Tree = {
    "modified.txt": b"one\ntwo\nthree\n",
    "folder/modified.txt": b"one\ntwo\nthree\n",
    "deleted.txt": b"gone\n",
    "moved.txt": b"moved\n",
    "left.txt": b"left\n",
    "right.txt": b"right\n",
}
NEW: Tree = {
    "modified.txt": b"one\nzwei\nthree\n",
    "folder/modified.txt": b"one\nzwei\nthree\n",
    "made/here/moved.txt": b"moved\nand more\n",
    "made/added.txt": b"added\n",
    "left.txt": b"right\n",
    "right.txt": b"left\n",
}
TEXT = """*** Begin Patch
*** Update File: modified.txt
-two
+zwei
*** Update File: folder/modified.txt
-two
+zwei
*** Delete File: deleted.txt
*** Update File: moved.txt
*** Move to: made/here/moved.txt
 moved
+and more
*** Add File: made/added.txt
+added
*** Update File: left.txt
*** Move to: right.txt
*** Update File: right.txt
*** Move to: left.txt
*** End Patch
"""


def _no_links(*_: Any, **__: Any) -> None:
    raise OSError(errno.EPERM, "this file system has no links")


def _at_call(number: int, fault: Callable[[], None], *, lasting: bool = False) -> None:
    """Lets `fault` happen instead of the n-th call, and of all later ones if it lasts."""
    numbers = count(1)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **named: Any) -> Any:
            # Between two calls that change nothing, dying makes no difference.
            if fault is _die and call is OPEN and not arguments[1] & os.O_CREAT:
                return call(*arguments, **named)
            now = next(numbers)
            if now == number or (lasting and now > number):
                fault()
            return call(*arguments, **named)

        return instead

    for name in ["open", *CHANGING] if fault is _die else CALLS:
        setattr(os, name, counted(getattr(os, name)))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail() -> None:
    raise OSError(errno.EIO, "the disk failed")


def _in_child(work: Callable[[], None]) -> int:
    """How the child ended: 0 it did the work, 1 it refused, -9 it was killed, else something is wrong."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            work()
            code = 0
        except AgentError:
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Campaign:
    def __init__(self, folder: Path) -> None:
        self.root, self.journal = folder / "root", folder / "journal"
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def trial(self, name: str, prepare: Callable[[], None], then: Callable[[], int] | None = None) -> int:
        """One patch in a child that is prepared for trouble, perhaps a recovery in trouble, and one that works."""
        plant(self.root, OLD)
        root = ExecutionRoot(self.root)

        def work() -> None:
            prepare()
            patched(TEXT, root, self.journal)

        ended = _in_child(work)
        if ended == 1 and name.startswith("fail at") and grown(self.root) != OLD:
            self.wrong.append(f"{name}: refused, but the files changed")
        if then is not None:
            then()
        settled = patches.recover(self.journal)
        self.outcomes.update(it.outcome for it in settled)
        left = [path.name for path in self.journal.iterdir()] if self.journal.exists() else ["lock"]
        tree = grown(self.root)
        if tree not in (OLD, NEW) or left != ["lock"] or ended not in (0, 1, -9):
            self.wrong.append(f"{name}: ended {ended}, {left}, {sorted(tree)}")
        if tree == OLD and (self.root / "made").exists():
            self.wrong.append(f"{name}: a folder was left")
        if ended == 0 and tree != NEW:
            self.wrong.append(f"{name}: it said that it was done")
        self.outcomes["new" if tree == NEW else "old"] += 1
        return ended

    def run(self, fault: str) -> int:
        """Faults at the first call, at the second, and so on until the patch gets through."""
        for number in count(1):
            ended = self.trial(f"{fault} at {number}", _PREPARED[fault](number), self._second(fault, number))
            if ended == 0 and (fault != "fail" or self._past(number)):
                return number - 1
        raise AssertionError("endless")

    def _past(self, number: int) -> bool:
        """A failing call need not stop the patch, if it came after all was done: whether there are so many calls."""
        reached = False

        def note() -> None:
            nonlocal reached
            reached = True

        plant(self.root, OLD)
        saved = {name: getattr(os, name) for name in CALLS}
        _at_call(number, note)
        try:
            patched(TEXT, ExecutionRoot(self.root), self.journal)
        finally:
            for name, call in saved.items():
                setattr(os, name, call)
        return not reached

    def _second(self, fault: str, seed: int) -> Callable[[], int] | None:
        """For `kill twice`: recoveries that are killed too, at some calls."""
        if fault != "kill twice":
            return None
        chosen = random.Random(seed).sample(range(1, 60), 3)

        def recover(at: int) -> None:
            _at_call(at, _die)
            patches.recover(self.journal)

        def twice() -> int:
            return [_in_child(lambda at=at: recover(at)) for at in chosen][-1]  # type: ignore[misc]

        return twice


def _kill_without_links(number: int) -> Callable[[], None]:
    def prepare() -> None:
        os.link = _no_links
        _at_call(number, _die)

    return prepare


_PREPARED: dict[str, Callable[[int], Callable[[], None]]] = {
    "kill": lambda number: lambda: _at_call(number, _die),
    "kill twice": lambda number: lambda: _at_call(number, _die),
    "kill without links": _kill_without_links,
    "fail": lambda number: lambda: _at_call(number, _fail),
    "fail for good": lambda number: lambda: _at_call(number, _fail, lasting=True),
}


def main(folder: str, fault: str) -> None:
    # A killed process loses nothing that it wrote; only a machine does. So the disk need not be waited for.
    os.fsync = lambda _: None  # type: ignore[assignment]
    campaign = Campaign(Path(folder))
    calls = campaign.run(fault)
    print(json.dumps({"calls": calls, "outcomes": campaign.outcomes, "wrong": campaign.wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
