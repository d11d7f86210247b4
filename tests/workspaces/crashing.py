"""Applies one patch many times in children that die, or whose disk fails, at their n-th call to the system.

Run as a program: `python -m tests.workspaces.crashing <folder> <plan> "links" | "no links"` prints, as JSON, what was
found afterwards. The program itself has one thread, so that its children can be forks of it.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

from holon.core.errors import AgentError
from holon.workspaces import patches
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


Fault = Callable[[int], None]


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(_: int) -> None:
    raise OSError(errno.EIO, "the disk failed")


def _fail_then_die(patience: int) -> Fault:
    def fault(since: int) -> None:
        if since == 0:
            _fail(0)
        if since == patience:
            _die(0)

    return fault


def _once(fault: Fault) -> Fault:
    return lambda since: fault(0) if since == 0 else None


def _no_links(*_: Any, **__: Any) -> None:
    raise OSError(errno.EPERM, "this file system has no links")


def _from_call(number: int, fault: Fault, calls: list[str]) -> None:
    """Asks `fault` ahead of the n-th call and of every later one, with how many came since."""
    numbers = count(1)

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **named: Any) -> Any:
            reads = call is OPEN and not arguments[1] & os.O_CREAT
            if (not reads or calls is CALLS) and (now := next(numbers)) >= number:
                fault(now - number)
            return call(*arguments, **named)

        return instead

    for name in ["open", *calls] if calls is CHANGING else calls:
        setattr(os, name, watched(getattr(os, name)))


def _in_child(work: Callable[[], object]) -> int:
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


#: What happens to the patch, each in its turn, and what then happens to three recoveries.
PLANS: dict[str, tuple[list[Fault], Fault | None]] = {
    "kill": ([_die], None),
    "kill, kill again": ([_die], _die),
    "kill, then fail": ([_die], _once(_fail)),
    "fail": ([_once(_fail)], None),
    "fail, then kill": ([_fail_then_die(later) for later in (1, 4, 12)], None),
    "fail for good": ([_fail], None),
}


class Campaign:
    def __init__(self, folder: Path) -> None:
        self.root, self.journal = folder / "root", folder / "journal"
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def trial(self, name: str, fault: Callable[[], None], recoveries: Sequence[Callable[[], None]] = ()) -> int:
        """One patch with a fault, recoveries with faults of their own, and one recovery without."""
        root = plant(self.root, OLD)

        def patch() -> None:
            fault()
            patched(TEXT, root, self.journal)

        ended = _in_child(patch)
        if ended == 1 and name.startswith("fail at") and grown(self.root) != OLD:
            self.wrong.append(f"{name}: refused, but the files changed")
        for recovery in recoveries:
            _in_child(partial(self._recover, recovery))
        self.outcomes.update(it.outcome for it in patches.recover(self.journal))
        left = [path.name for path in self.journal.iterdir()] if self.journal.exists() else ["lock"]
        tree = grown(self.root)
        if tree not in (OLD, NEW) or left != ["lock"] or ended not in (0, 1, -9):
            self.wrong.append(f"{name}: ended {ended}, {left}, {tree}")
        if tree == OLD and (self.root / "made").exists():
            self.wrong.append(f"{name}: a folder was left")
        if ended == 0 and tree != NEW:
            self.wrong.append(f"{name}: it said that it was done")
        self.outcomes["new" if tree == NEW else "old"] += 1
        return ended

    def _recover(self, fault: Callable[[], None]) -> None:
        fault()
        patches.recover(self.journal)

    def run(self, plan: str) -> int:
        """Faults at the first call, at the second, and so on, until there is no such call any more."""
        faults, second = PLANS[plan]
        calls = CALLS if plan == "fail" else CHANGING
        total = self._count(calls)
        for number, fault in product(range(1, total + 1), faults):
            again: list[Callable[[], None]] = []
            if second:
                chosen = random.Random(number).sample(range(1, total), 3)
                again = [partial(_from_call, at, second, CHANGING) for at in chosen]
            self.trial(f"{plan} at {number}", partial(_from_call, number, fault, calls), again)
        return total

    def _count(self, calls: list[str]) -> int:
        """How many calls the patch makes when nothing goes wrong."""
        made = 0

        def note(since: int) -> None:
            nonlocal made
            made = since

        saved = {name: getattr(os, name) for name in CALLS}
        root = plant(self.root, OLD)
        _from_call(0, note, calls)
        try:
            patched(TEXT, root, self.journal)
        finally:
            for name, call in saved.items():
                setattr(os, name, call)
        return made


def main(folder: str, plan: str, links: str) -> None:
    # A killed process loses nothing that it wrote; only a machine does. So the disk need not be waited for.
    os.fsync = lambda _: None  # type: ignore[assignment]
    if links == "no links":
        os.link = _no_links
    campaign = Campaign(Path(folder))
    calls = campaign.run(plan)
    print(json.dumps({"calls": calls, "outcomes": campaign.outcomes, "wrong": campaign.wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
