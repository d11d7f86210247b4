"""Effort: how much work one patch may cost. Counted, not timed: the same patch on the same files always ends in the
same way, on a busy machine too.

A unit is about as much as comparing two lines; ten million of them take about a second.
"""

from __future__ import annotations

#: For finding where the hunks fit, and for the new contents. Beyond it the patch is refused.
PLACING = 16_000_000
#: For searching what may be meant where something does not fit. Beyond it less is said.
SEARCHING = 4_000_000
#: What one line of a file costs that is read, indexed and written again, and how many bytes cost as much as a unit.
LINE, BYTES = 12, 40


class TooMuchWork(Exception):
    """The patch cannot be placed within its effort."""


class Effort:
    """What is left for one patch, all of its files together."""

    def __init__(self, placing: int = PLACING, searching: int = SEARCHING) -> None:
        self.placing, self.searching = placing, searching

    def place(self, units: int) -> None:
        """Before the work is done. `TooMuchWork` if there is not enough left."""
        if units > self.placing:
            raise TooMuchWork
        self.placing -= units

    def search(self, units: int) -> bool:
        """Whether there is enough left for it; if so, it is spent."""
        if units > self.searching:
            return False
        self.searching -= units
        return True
