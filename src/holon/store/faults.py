"""Faults: where a crash test asks the process to die.

`HOLON_KILL_AT=turn.begin:after:2` kills the process with SIGKILL after the second commit that has a `turn.begin` in it;
`before` kills just ahead of the commit, with everything written and nothing durable.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping

from holon.core.errors import InvalidSettings
from holon.core.transitions import Transition


class FaultPlan:
    def __init__(self, transition: Transition, moment: str, nth: int) -> None:
        self.transition, self.moment, self.remaining = transition, moment, nth

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> FaultPlan | None:
        text = environment.get("HOLON_KILL_AT")
        if not text:
            return None
        name, _, rest = text.partition(":")
        moment, _, nth = rest.partition(":")
        nth = nth or "1"
        known = name in set(Transition) and moment in ("before", "after")
        if not known or not nth.isdecimal() or int(nth) < 1:
            raise InvalidSettings(
                f"HOLON_KILL_AT={text!r} names no place", hint="write it as turn.begin:after:1; see core/transitions.py"
            )
        return cls(Transition(name), moment, int(nth))

    def reached(self, moment: str, transitions: Iterable[Transition | None]) -> None:
        """Dies here if this is the place."""
        if moment != self.moment or self.transition not in transitions:
            return
        self.remaining -= 1
        if self.remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)
